package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
)

// settleTimeout bounds how long a backup waits for the audit trail to be
// stored.
const settleTimeout = time.Minute

// Events of backups in the audit trail.
const (
	backupBegan = "backup.began"
	backupEnded = "backup.ended"
)

// backUp writes an archive of this bridge while it serves. Whatever it has
// acknowledged before is in it, with its entries in the audit trail. One backup
// is made at a time, another is refused with 4008.
func (a *App) backUp(ctx context.Context, w io.Writer, o BackupOptions) (*store.Manifest, error) {
	select {
	case a.backups.turn <- struct{}{}:
		defer func() { <-a.backups.turn }()
	default:
		return nil, protocol.BusyFor(time.Minute, "a backup is being made: one at a time")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.leaving, func() { cancel(protocol.Errorf(protocol.ShuttingDown, "the bridge stops")) })()
	defer a.files.store.Hold()()

	files, err := a.config.fileSources(ctx, a.store, o)
	if err != nil {
		return nil, err
	}
	manifest, err := a.store.Backup(ctx, w, store.BackupOptions{Files: files, Settle: a.settleAudit, Progress: o.Progress})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return manifest, err
}

// settleAudit has what the audit trail was told stored.
func (a *App) settleAudit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return a.audit.Flush(ctx)
}

// backUpFor makes a backup for somebody, who must be allowed to do everything
// in every space: a backup holds all of them. That it was made is in the audit
// trail, in the backup too.
func (a *App) backUpFor(ctx context.Context, who *protocol.Principal, withoutContents bool, w io.Writer) error {
	err := a.authorizer.Authorize(ctx, who, policy.TakeBackup, commands.Resource{Type: "bridge", Space: who.Home()})
	if err == nil && !who.Unbounded() {
		err = protocol.Errorf(protocol.PermissionDenied, "a backup holds what is in every space: administrators alone may make one")
	}
	if err != nil {
		a.recordBackup(ctx, audit.Entry{Event: backupBegan}.By(who), err)
		return err
	}
	a.recordBackup(ctx, audit.Entry{Event: backupBegan}.By(who), nil)
	counted := &countingWriter{to: w}
	_, err = a.backUp(ctx, counted, BackupOptions{WithoutContents: withoutContents})
	ended := audit.Entry{Event: backupEnded, Details: map[string]string{"bytes": strconv.FormatInt(counted.bytes, 10)}}
	a.recordBackup(context.WithoutCancel(ctx), ended.By(who), err)
	if known := (*protocol.Error)(nil); err != nil && !errors.As(err, &known) {
		a.log.Warn("a backup has failed", "principal", who.ID, "error", err)
		err = protocol.Wrap(protocol.StoreUnavailable, err, "the backup has failed; the bridge's log says why")
	}
	return err
}

// recordBackup notes a backup in the audit trail, and tells operators.
func (a *App) recordBackup(ctx context.Context, e audit.Entry, err error) {
	e.Action, e.Security, e.Code = policy.TakeBackup, true, audit.OK
	if err != nil {
		coded := protocol.AsError(err)
		e.Code, e.Reason = string(coded.Code), coded.Message
	}
	a.audit.Record(ctx, e)
}

// A countingWriter counts what it passes on.
type countingWriter struct {
	to    io.Writer
	bytes int64
}

// Write implements [io.Writer].
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += int64(n)
	if err != nil {
		err = fmt.Errorf("write the backup: %w", err)
	}
	return n, err
}
