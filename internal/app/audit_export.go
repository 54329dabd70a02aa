package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
)

// trailExported is an export in the audit trail, and in itself.
const trailExported = "audit.exported"

// A trailExport makes exports of the audit trails.
type trailExport struct {
	*state
	audits *audit.Service
	turn   chan struct{} // one at a time
}

func newTrailExport(s *state, audits *audit.Service) *trailExport {
	return &trailExport{s, audits, make(chan struct{}, 1)}
}

// WriteFor makes an export for a principal, which must be allowed to see everything in
// every space: the trails are about all of them.
func (x *trailExport) WriteFor(ctx context.Context, who *protocol.Principal, w io.Writer) error {
	err := x.authorizer.Authorize(ctx, who, policy.ExportAudit, commands.Resource{Type: "bridge", Space: who.Home()})
	if err == nil && !who.Unbounded() {
		err = protocol.Errorf(protocol.PermissionDenied, "an export tells of every space: only an administrator may make one")
	}
	entry := audit.Entry{Event: trailExported, Action: policy.ExportAudit, Security: true, Code: audit.OK}.By(who)
	if err != nil {
		coded := protocol.AsError(err)
		entry.Code, entry.Reason = string(coded.Code), coded.Message
	}
	x.audit.Record(ctx, entry)
	if err != nil {
		return err
	}
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	default:
		return protocol.BusyFor(time.Minute, "the audit trail is being exported: one at a time")
	}
	return x.write(ctx, who, w)
}

// write makes the export, until the bridge stops.
func (x *trailExport) write(ctx context.Context, who *protocol.Principal, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.leaving, func() { cancel(protocol.Errorf(protocol.ShuttingDown, "the bridge stops")) })()
	err := x.audits.Export(ctx, w)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if known := (*protocol.Error)(nil); err != nil && !errors.As(err, &known) {
		x.log.Warn("an export of the audit trail has failed", "principal", who.ID, "error", err)
		err = protocol.Wrap(protocol.StoreUnavailable, err, "the export has failed; the bridge's log says why")
	}
	return err
}
