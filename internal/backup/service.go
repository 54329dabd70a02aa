package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/diskspace"
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
	began = "backup.began"
	ended = "backup.ended"
)

// A Trail notes backups, and is in them.
type Trail interface {
	Record(context.Context, audit.Entry)
	// Flush returns when all that was recorded is stored.
	Flush(context.Context) error
}

// ServiceOptions hold the sources and the folder of a [Service].
type ServiceOptions struct {
	BridgeID string // is in the names of backups
	Settings Settings
	Dir      string // folder for the backups that are made by themselves

	Store     *store.Store
	Places    Places
	Hold      func() (release func()) // keeps contents of files from being collected meanwhile
	Trail     Trail
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error

	Leaving    context.Context  // ends when the bridge begins to stop, and backups with it
	Room       *diskspace.Watch // of Dir
	Clock      *clock.Clock
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// A Service makes backups of the bridge that it is part of.
type Service struct {
	o         ServiceOptions
	directory directory
	turn      chan struct{} // one at a time
	made      *prometheus.CounterVec
	newest    prometheus.Gauge
}

// New makes a service. If it is to make backups by itself, it makes their
// folder, and removes unfinished ones that a crash has left.
func New(o ServiceOptions) (*Service, error) {
	s := &Service{o: o, directory: directory{path: o.Dir, bridge: o.BridgeID}, turn: make(chan struct{}, 1)}
	if o.Settings.EveryHours == 0 {
		return s, nil
	}
	s.measure()
	return s, s.directory.open()
}

// write writes an archive of this bridge while it serves. Everything that it has
// acknowledged before is in it, with its entries in the audit trail. One backup is
// made at a time, another is refused with 4008.
func (s *Service) write(ctx context.Context, w io.Writer, withoutContents bool) (*store.Manifest, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return nil, protocol.BusyFor(time.Minute, "a backup is being made: one at a time")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.o.Leaving, func() { cancel(protocol.Errorf(protocol.ShuttingDown, "the bridge stops")) })()
	defer s.o.Hold()()

	files, err := s.o.Places.sources(ctx, s.o.Store, withoutContents)
	if err != nil {
		return nil, err
	}
	manifest, err := s.o.Store.Backup(ctx, w, store.BackupOptions{Files: files, Settle: s.settle})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return manifest, err
}

// settle has all recorded entries of the audit trail stored.
func (s *Service) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.o.Trail.Flush(ctx)
}

// WriteFor makes a backup for a principal, which must be allowed to do everything
// in every space: a backup holds all of them. The audit trail records it, in the
// backup too.
func (s *Service) WriteFor(ctx context.Context, who *protocol.Principal, withoutContents bool, w io.Writer) error {
	err := s.o.Authorize(ctx, who, policy.TakeBackup, commands.Resource{Type: "bridge", Space: who.Home()})
	if err == nil && !who.Unbounded() {
		err = protocol.Errorf(protocol.PermissionDenied, "a backup holds the data of every space: only an administrator may make one")
	}
	if err != nil {
		s.record(ctx, audit.Entry{Event: began}.By(who), err)
		return err
	}
	s.record(ctx, audit.Entry{Event: began}.By(who), nil)
	counted := &countingWriter{to: w}
	_, err = s.write(ctx, counted, withoutContents)
	end := audit.Entry{Event: ended, Details: map[string]string{"bytes": strconv.FormatInt(counted.bytes, 10)}}
	s.record(context.WithoutCancel(ctx), end.By(who), err)
	if known := (*protocol.Error)(nil); err != nil && !errors.As(err, &known) {
		s.o.Log.Warn("a backup has failed", "principal", who.ID, "error", err)
		err = protocol.Wrap(protocol.StoreUnavailable, err, "the backup has failed; the bridge's log says why")
	}
	return err
}

// record records a backup in the audit trail, and notifies operators.
func (s *Service) record(ctx context.Context, e audit.Entry, err error) {
	e.Action, e.Security, e.Code = policy.TakeBackup, true, audit.OK
	if err != nil {
		coded := protocol.AsError(err)
		e.Code, e.Reason = string(coded.Code), coded.Message
	}
	s.o.Trail.Record(ctx, e)
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
