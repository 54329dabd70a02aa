package tools

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Running call of a tool is one that was begun. Its caller waits for it by Done or stops
// by Leave, and then takes the output, once.
type Running interface {
	Done() <-chan struct{} // gets one value when there is an output
	Leave(why error)       // ends the call, if it can be, and the wait for it
	Output() (Output, error)
}

// Wait is a Run for a tool that has a Begin.
func (t *Tool) Wait(ctx context.Context, x *Execution) (Output, error) {
	running, err := t.Begin(ctx, x)
	if err != nil {
		return Output{}, err
	}
	return Await(ctx, running)
}

// Await waits for a call until ctx ends.
func Await(ctx context.Context, running Running) (Output, error) {
	select {
	case <-running.Done():
	case <-ctx.Done():
		running.Leave(ctx.Err())
	}
	return running.Output()
}

// A Begun call is one whose tool runs without a goroutine that waits for it, see
// [Executor.Begin]. It is waited for by one goroutine at a time.
type Begun struct {
	turn    turn
	ctx     context.Context
	call    *chat.ToolCall
	span    trace.Span
	began   time.Time
	attempt *attempt // nil of a call that did not run
	running Running
	over    bool // out and err are there
	left    bool
	out     Output
	err     error
	result  Result
}

// ended is the channel of calls that have ended.
var ended = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// Begin is Execute of one call that does not wait for its tool, which has a Begin; ctx is
// not to end while the call runs. It judges the call before it returns, and waits for an
// approval if the environment does not park.
func (e *Executor) Begin(ctx context.Context, box *Toolbox, env Environment, call *chat.ToolCall) *Begun {
	b := &Begun{turn: turn{e: e, box: box, env: env}, ctx: ctx, call: call, began: time.Now()}
	b.result = Result{CallID: call.ID, Name: call.Name}
	ctx, b.span = e.startSpan(ctx, &env, call)
	a := b.turn.admitted(ctx, env, call, &b.result, limit)
	if a == nil {
		b.over = true
		return b
	}
	b.attempt = a
	if b.err = a.unchanged(); b.err == nil && a.tool.Begin != nil {
		b.running, b.err = e.begin(a)
	}
	b.over = b.err != nil
	return b
}

// begin begins a call and turns a panic into an error.
func (e *Executor) begin(a *attempt) (running Running, err error) {
	defer func() {
		if p := recover(); p != nil {
			running, err = nil, e.panicked(a.x, p)
		}
	}()
	return a.tool.Begin(a.ctx, a.x)
}

// Done returns a channel that gets one value, or is closed, when the call may have ended.
func (b *Begun) Done() <-chan struct{} {
	if b == nil {
		return nil
	}
	if b.running == nil {
		return ended
	}
	return b.running.Done()
}

// Settled takes the output of a call whose channel has got its value. It reports false if
// the call has to go on, because it may be repeated: [Begun.Result] waits then.
func (b *Begun) Settled() bool {
	switch {
	case b.over:
	case b.running == nil: // the tool has become one without a Begin
		return false
	default:
		b.take()
	}
	return b.attempt == nil || b.err == nil || b.left || !b.turn.e.repeats(b.attempt, 1, b.err)
}

// Leave ends a call before its time.
func (b *Begun) Leave(why error) {
	b.left = true
	if b.over {
		return
	}
	if b.running == nil {
		b.over, b.err = true, why
		return
	}
	b.running.Leave(why)
	b.take()
}

// take takes the output of the tool and turns its panic into an error.
func (b *Begun) take() {
	defer func() {
		if p := recover(); p != nil {
			b.out, b.err = Output{}, b.turn.e.panicked(b.attempt.x, p)
		}
	}()
	b.over = true
	b.out, b.err = b.running.Output()
}

// Wait waits for a call until ctx ends, and returns its result.
func (b *Begun) Wait(ctx context.Context) Result {
	if !b.over && b.running != nil {
		select {
		case <-b.running.Done():
		case <-ctx.Done():
			b.Leave(ctx.Err())
		}
	}
	if !b.Settled() {
		defer context.AfterFunc(ctx, b.attempt.cancel)()
		e, n := b.turn.e, 1
		if !b.over {
			b.out, b.err = e.insist(b.attempt, n)
		} else if e.rest(b.attempt, n, b.err) {
			b.out, b.err = e.insist(b.attempt, n+1)
		}
		b.over = true
		b.left = ctx.Err() != nil
	}
	return b.conclude()
}

// Result returns the result of a call that is settled or was left, once.
func (b *Begun) Result() Result { return b.conclude() }

func (b *Begun) conclude() Result {
	r := &b.result
	if b.attempt != nil {
		b.turn.e.ended(b.ctx, b.attempt, r, b.out, b.err)
		if code := protocol.CodeOf(r.Err); b.left && (code == protocol.Cancelled || code == protocol.TimedOut) {
			r.Status = Skipped
		}
		b.attempt.cancel()
	}
	endSpan(b.span, r)
	b.turn.conclude(b.ctx, b.call, r, b.began)
	return *r
}

// A limited context is one with a timeout whose timer is set for the first who waits for
// its end: most calls of tools have nobody who does.
type limited struct {
	context.Context // its parent
	until           time.Time

	mu   sync.Mutex
	over bool
	made context.Context // the context with the timer
	end  context.CancelFunc
}

// limit is [context.WithTimeout] by a limited context.
func limit(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	l := &limited{Context: parent, until: time.Now().Add(timeout)}
	if until, ok := parent.Deadline(); ok && until.Before(l.until) {
		l.until = until
	}
	return l, l.cancel
}

func (l *limited) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.end != nil {
		l.end()
	}
}

// Deadline implements [context.Context].
func (l *limited) Deadline() (time.Time, bool) { return l.until, true }

// timed is the context with the timer.
func (l *limited) timed() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made, l.end = context.WithDeadline(l.Context, l.until)
		if l.over {
			l.end()
		}
	}
	return l.made
}

// Done implements [context.Context].
func (l *limited) Done() <-chan struct{} { return l.timed().Done() }

// Err implements [context.Context].
func (l *limited) Err() error {
	l.mu.Lock()
	made, over := l.made, l.over
	l.mu.Unlock()
	switch {
	case made != nil:
		return made.Err()
	case l.Context.Err() != nil:
		return l.Context.Err()
	case over:
		return context.Canceled
	case !time.Now().Before(l.until):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context]. Contexts below find the one with the timer by it.
func (l *limited) Value(key any) any {
	l.mu.Lock()
	made := l.made
	l.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return l.Context.Value(key)
}
