package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Call is one command on its way through the router, as its handler sees it.
type Call struct {
	Principal *protocol.Principal
	Command   string // the name it was declared with, also when an alias was used
	RequestID string
	SenderID  string // the principal's id when the request names none
	TraceID   string
	Priority  protocol.Priority
	Deadline  time.Time
	Door      string          // by which it came in: mqtt, http, ws
	Extension json.RawMessage // vendor data of the request, nil without any

	router   *Router
	emit     func(event string, data any)
	warnings []string
}

// Emit sends an event to a caller that asked for events; otherwise it does
// nothing. Data is marshalled with encoding/json.
func (c *Call) Emit(event string, data any) {
	if c.emit != nil {
		c.emit(event, data)
	}
}

// SendEventsTo makes emit receive the events of the call from now on. It is
// for who runs calls on behalf of others, such as [Tasks].
func (c *Call) SendEventsTo(emit func(event string, data any)) { c.emit = emit }

// Warn adds a sentence to metadata.warnings of the answer.
func (c *Call) Warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// Park gives the worker slot back while wait runs, so that a call that waits
// for a device or a model does not keep others from running. It takes the
// slot again, at the call's priority, before it returns.
func (c *Call) Park(ctx context.Context, wait func(context.Context) error) error {
	return wait(ctx)
}

// Dispatch runs another command on behalf of this call, see [Router.Dispatch].
func (c *Call) Dispatch(ctx context.Context, name string, params json.RawMessage, id string) (json.RawMessage, error) {
	return c.router.Dispatch(ctx, c, name, params, id)
}
