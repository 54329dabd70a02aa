package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/protocol"
)

// A Call is one command on its way through the router, as its handler sees
// it. Its methods may be called from several goroutines.
type Call struct {
	Principal *protocol.Principal
	Command   string // the name it was declared with, also when an alias was used
	RequestID string
	SenderID  string // the principal's id when the request names none
	TraceID   string
	Priority  protocol.Priority
	Deadline  time.Time
	Door      string          // by which it came in: mqtt, http, ws
	Client    string          // id of the MQTT client it came from, "" by other doors
	Line      Line            // the connection it came over, nil if the bridge cannot ask anything on it
	Address   netip.Addr      // it came from, zero if not known
	Depth     int             // calls of tools by models that it is within, as far as is known
	Ask       Asker           // asks the caller meanwhile, nil if it cannot be asked
	Extension json.RawMessage // vendor data of the request, nil without any

	// Fixed before the call can be answered.
	router  *Router
	request *protocol.Request
	own     struct { // the parts that most calls need once
		callContext
		request  protocol.Request
		response protocol.Response
	}
	command *Command // nil if there is none of that name
	arrived time.Time
	steady  time.Time       // when it arrived, by a clock that is not set
	keep    time.Time       // until when the answer is of use to a repeat
	ctx     context.Context // of the handler; own of a call that came in by Submit
	span    trace.Span      // nil when nothing is traced
	claims  bool            // SenderID is a claimed sender, unknown to this bridge, see [Inbound]
	notices []string        // about the form of the request, for this answer only
	reply   func(*protocol.Response)
	listen  func(*protocol.Event) // nil: wants no events

	taken   entry
	entry   *entry       // taken, of a call that executes its request
	joins   *entry       // the same of one that waits for another; guarded by the ledger
	untried bool         // the handler was not reached, so that a repeat may run it
	first   bool         // its claim was the first of all processes'
	confirm func() error // fails if it is not to run after all; nil for most

	holds     atomic.Int32 // the holds of its handler, and of readers that may look at it when it has ended
	again     bool         // its handler keeps nothing of it
	postponed bool         // has been in the backlog
	free      func()       // releases the door's part
	spare     spare

	plan     *plan           // the call was prepared by, nil of others
	inner    json.RawMessage // params within params, of a call with a plan
	prepared preparedRun     // of a call with a plan

	run      unhurried   // of a call whose handler does not wait, see [Router.goOn]
	inline   bool        // runs on the goroutine that submitted it
	batched  bool        // the submitter will flush the claims
	held     bool        // its answer does not leave before it is on record
	finished atomic.Bool // by its handler

	list           *deadlineList // that will expire it; guarded by deadlines.mu, as the next three
	due            time.Time
	earlier, later *Call // neighbours there

	flights        *flights // of its party, nil if it is not in flight; guarded by inFlight
	before, behind *Call    // neighbours there

	audience  Audience    // nil if it is not known
	unwatch   func() bool // of the audience; fixed before the call can be answered
	abandoned atomic.Bool // by its audience

	executed atomic.Bool // the handler was reached; for audit
	acted    atomic.Bool // has begun an effect that must not happen twice
	answered atomic.Bool
	children atomic.Uint32 // ids given to calls on behalf of this one
	seq      atomic.Uint64 // of events

	warning  atomic.Bool // there are warnings
	mu       sync.Mutex
	slotted  bool  // holds a worker slot
	owed     bool  // gave one back and is to take one again
	parked   int32 // goroutines in Park
	warnings []string
	onEvent  func(event string, data any) // takes events instead of the caller
	target   Resource                     // its resource, once known; for audit
	digest   Digest                       // of its params, at the same time
}

// An Asker asks the caller for something while the call runs: a person for the rest of the
// arguments, or the caller's own model for an answer. Methods and the JSON of questions and answers
// are those of MCP.
type Asker interface {
	// Answers reports whether the caller can be asked by a method.
	Answers(method string) bool
	Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Emit sends an event to a caller that asked for events, and to callers that
// joined the call and did; for others it does nothing. Data is marshalled with
// encoding/json.
func (c *Call) Emit(event string, data any) {
	c.mu.Lock()
	onEvent := c.onEvent
	c.mu.Unlock()
	if onEvent != nil {
		onEvent(event, data)
		return
	}
	c.router.emit(c, event, data)
}

// SendEventsTo makes emit receive the events of the call from now on. It is
// for parts that run calls on behalf of others, such as [Tasks].
func (c *Call) SendEventsTo(emit func(event string, data any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onEvent = emit
}

// Skew is the lead of the sender's clock over the bridge's, by the timestamp of the
// request and the time of its transmission: negative if it is behind. It is not known of
// a request without a timestamp.
func (c *Call) Skew() (ahead time.Duration, known bool) {
	if c.request == nil || c.request.Timestamp == 0 {
		return 0, false
	}
	return time.UnixMilli(c.request.Timestamp).Sub(c.arrived), true
}

// Acted notes that something has been begun for the call that must not be done twice. If
// the call is then cut off, or fails in a way that invites a repeat, its repeat is not run:
// it gets 4012, as the caller does.
func (c *Call) Acted() { c.acted.Store(true) }

// Warn adds a sentence to metadata.warnings of the answer.
func (c *Call) Warn(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
	c.warning.Store(true)
}

// warned returns the warnings so far.
func (c *Call) warned() []string {
	if !c.warning.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Authorize returns the error if the caller may not run another action by
// itself in the same way: by the same door, from the same address and for the
// same sender. It serves commands that apply the action of another command to
// many things.
func (c *Call) Authorize(ctx context.Context, action string, on Resource) error {
	return c.router.allow(ctx, c, action, on)
}

// Park gives the worker slot back while wait runs, so that a call that waits
// for a device or a model does not keep others from running. It takes a slot
// again, at the call's priority, before it returns.
func (c *Call) Park(ctx context.Context, wait func(context.Context) error) error {
	c.park()
	defer c.unpark(ctx)
	return wait(ctx)
}

func (c *Call) park() {
	c.mu.Lock()
	c.parked++
	held := c.slotted
	if held {
		c.slotted, c.owed = false, true
	}
	c.mu.Unlock()
	if held {
		c.router.slots.release()
	}
}

func (c *Call) unpark(ctx context.Context) {
	c.mu.Lock()
	c.parked--
	again := c.owed && c.parked == 0
	if again {
		c.owed = false
	}
	c.mu.Unlock()
	if !again || !c.router.slots.acquire(ctx, c.Priority) {
		return // without a slot a call whose time is over may still tidy up
	}
	c.holdSlot()
}

// holdSlot notes that the call has a slot.
func (c *Call) holdSlot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slotted = true
}

// surrender takes the call's slot away and reports whether it had one.
func (c *Call) surrender() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.slotted
	c.slotted = false
	return held
}

// handBack gives up the slot of a call that is done and returns the next call to
// run in it on this goroutine, if any.
func (c *Call) handBack() *Call {
	if !c.surrender() {
		return nil
	}
	switch t := c.router.slots.pass().(type) {
	case nil:
		return nil
	case *Call:
		t.holdSlot()
		return t
	default:
		t.take()
		return nil
	}
}

// take is the call's turn to run.
func (c *Call) take() {
	c.holdSlot()
	select {
	case c.router.idle <- c:
	default:
		go c.router.work(c)
	}
}

// yield gives up the slot of a call that is done on a goroutine that has
// something else to do.
func (c *Call) yield() {
	if next := c.handBack(); next != nil {
		go c.router.work(next)
	}
}

// child is a call on behalf of c, to be run under ctx.
func (c *Call) child(ctx context.Context, command string, params json.RawMessage, id string) *Call {
	return &Call{
		Principal: c.Principal,
		Command:   command,
		RequestID: id,
		SenderID:  c.SenderID,
		TraceID:   c.TraceID,
		Priority:  c.Priority,
		Deadline:  c.Deadline,
		Door:      c.Door,
		Client:    c.Client,
		Line:      c.Line,
		Address:   c.Address,
		Depth:     c.Depth,
		Extension: c.Extension,
		router:    c.router,
		request:   &protocol.Request{ID: id, Command: command, Params: params, Metadata: protocol.Metadata{TraceID: c.TraceID}},
		arrived:   c.router.opts.Now(),
		steady:    c.router.steady(),
		ctx:       ctx,
		keep:      c.keep,
		onEvent:   c.Emit,
	}
}

// detached is the call as a task runs it, after the caller was answered.
func (c *Call) detached() *Call {
	d := c.child(context.Background(), c.Command, c.request.Params, c.RequestID)
	d.command, d.onEvent, d.target, d.digest = c.command, nil, c.target, c.digest
	return d
}

// Dispatch runs another command on behalf of this call, see [Router.Dispatch].
func (c *Call) Dispatch(ctx context.Context, name string, params json.RawMessage, id string) (json.RawMessage, error) {
	return c.router.Dispatch(ctx, c, name, params, id)
}
