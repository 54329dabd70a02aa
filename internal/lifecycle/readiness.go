package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// Readiness reports whether the bridge can do all of its work at the moment.
type Readiness struct {
	log     *slog.Logger
	parts   []func() error
	serving atomic.Bool
	told    atomic.Pointer[string] // why it was not ready when it was asked last, "" if it was
}

// NewReadiness makes the readiness of parts, whose functions return why they do not
// work. Clients are not served yet.
func NewReadiness(log *slog.Logger, parts ...func() error) *Readiness {
	return &Readiness{log: log, parts: parts}
}

// Serve sets whether clients are served.
func (r *Readiness) Serve(serving bool) { r.serving.Store(serving) }

// Check fails if the bridge cannot do all of its work: with an error of the
// protocol, which is public.
func (r *Readiness) Check(context.Context) error {
	err := r.unable()
	r.tell(err)
	if err == nil {
		return nil
	}
	if known := (*protocol.Error)(nil); errors.As(err, &known) {
		return known
	}
	return protocol.Wrap(protocol.StoreUnavailable, err, "the state is not available")
}

func (r *Readiness) unable() error {
	if !r.serving.Load() {
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is starting or stopping")
	}
	for _, check := range r.parts {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// tell logs once why the bridge is not ready, however often it is asked.
func (r *Readiness) tell(err error) {
	why := ""
	if err != nil {
		why = err.Error()
		if cause := errors.Unwrap(err); cause != nil {
			why += ": " + cause.Error()
		}
	}
	if before := r.told.Swap(&why); why != "" && (before == nil || *before != why) {
		r.log.Warn("not ready", "error", why)
	}
}
