package app

import (
	"context"
	"errors"

	"github.com/aibridge/aibridge/protocol"
)

// readiness says why the bridge cannot do all of its work at the moment, nil
// if it can: as an error of the protocol, which anybody may see.
func (a *App) readiness(context.Context) error {
	err := a.unable()
	a.tellReadiness(err)
	if err == nil {
		return nil
	}
	if known := (*protocol.Error)(nil); errors.As(err, &known) {
		return known
	}
	return protocol.Wrap(protocol.StoreUnavailable, err, "the state is not available")
}

// unable is why the bridge cannot do all of its work.
func (a *App) unable() error {
	if !a.ready.Load() {
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is starting or stopping")
	}
	if a.lease != nil {
		if err := a.lease.Check(); err != nil {
			return err
		}
	}
	if err := a.nats.Check(); err != nil {
		return protocol.Wrap(protocol.StoreUnavailable, err,
			"the state is not stored: the disk fails, or has no room; what changes something is refused until it is opened anew")
	}
	for _, part := range []interface{ Check() error }{a.store, a.audit, a.broker, a.disk} {
		if err := part.Check(); err != nil {
			return err
		}
	}
	if log, ok := a.claims.(interface{ Check() error }); ok {
		return log.Check()
	}
	return nil
}

// tellReadiness logs why the bridge is not ready, once: anybody may ask, as
// often as they like.
func (a *App) tellReadiness(err error) {
	why := ""
	if err != nil {
		why = err.Error()
		if cause := errors.Unwrap(err); cause != nil {
			why += ": " + cause.Error()
		}
	}
	if before := a.unready.Swap(&why); why != "" && (before == nil || *before != why) {
		a.log.Warn("not ready", "error", why)
	}
}
