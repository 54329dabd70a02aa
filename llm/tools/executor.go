package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// An Executor runs the calls of a model. Zero fields mean the defaults. It is
// safe for use by many goroutines and must not be copied while it is used.
type Executor struct {
	Gate     Gate          // nil refuses calls with RiskAsk
	Parallel int           // concurrent calls of tools that only read; default 8
	Timeout  time.Duration // of a call whose tool declares none; default DefaultTimeout
	Attempts int           // at a call with transient failures; default 3
	Backoff  time.Duration // before the second attempt, doubled for each further one; default 250 ms
	MaxText  int           // bytes of a result that the model reads; default 64 KiB
	MaxDepth int           // calls within calls; default MaxDepth
	Log      *slog.Logger  // nil for none
	Tracer   trace.Tracer  // nil traces nothing
	// Record is called with the result of every call. It must not retain the result.
	// Optional.
	Record func(ctx context.Context, env Environment, r *Result)
}

// MaxDepth is the default limit of nested calls of tools: a model that calls a skill
// that asks a model that calls a skill is two deep.
const MaxDepth = 4

// grace is the time for a tool to return after the end of its context. The tool may
// know the outcome of the call, which its caller does not.
const grace = time.Second

// Execute runs the calls of one turn and returns their results, in the order of the
// calls. Tools that only read run side by side, others alone and in the order of the
// calls. Every failure is a result that the model can read. When ctx ends, the calls
// not yet run are Skipped.
func (e *Executor) Execute(ctx context.Context, box *Toolbox, env Environment, calls []*chat.ToolCall) []Result {
	results := make([]Result, len(calls))
	t := turn{e: e, box: box, env: env}
	for i := 0; i < len(calls); {
		n := t.together(calls[i:])
		t.run(ctx, calls[i:i+n], results[i:i+n])
		i += n
	}
	return results
}

// A turn is one round of calls.
type turn struct {
	e     *Executor
	box   *Toolbox
	env   Environment
	mu    sync.Mutex
	fatal bool // no further call can succeed
	waits bool // a call waits for an approval
}

// together is the number of calls at the beginning of a list that may run side by side.
func (t *turn) together(calls []*chat.ToolCall) int {
	for i, c := range calls {
		if tool, ok := t.box.Find(c.Name); ok && tool.Effect != commands.Read {
			return max(i, 1)
		}
	}
	return len(calls)
}

// run runs calls side by side.
func (t *turn) run(ctx context.Context, calls []*chat.ToolCall, results []Result) {
	if len(calls) == 1 {
		results[0] = t.one(ctx, calls[0])
		return
	}
	parallel := t.e.Parallel
	if parallel <= 0 {
		parallel = 8
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range calls {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			results[i] = t.one(ctx, calls[i])
		})
	}
	running.Wait()
}

// one returns the result of one call.
func (t *turn) one(ctx context.Context, c *chat.ToolCall) Result {
	began := time.Now()
	r := Result{CallID: c.ID, Name: c.Name}
	t.mu.Lock()
	fatal, waits := t.fatal, t.waits
	t.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		r.skip("the turn was cancelled before it")
	case fatal:
		r.skip("an earlier call showed that none can succeed now")
	case waits:
		r.Status = Waiting
	default:
		t.traced(ctx, c, &r)
	}
	t.conclude(ctx, c, &r, began)
	return r
}

// conclude completes the result of a call that has ended, and records it.
func (t *turn) conclude(ctx context.Context, c *chat.ToolCall, r *Result, began time.Time) {
	if r.Arguments == nil { // it was not judged
		r.Arguments = written(c)
	}
	r.Elapsed = time.Since(began)
	t.mu.Lock()
	t.fatal = t.fatal || r.Fatal
	t.waits = t.waits || r.Status == Waiting
	t.mu.Unlock()
	if r.Status != Waiting && t.e.Record != nil { // of one that waits there is no outcome yet
		t.e.Record(ctx, t.env, r)
	}
}

// traced fills in the result of a call, within a span.
func (t *turn) traced(ctx context.Context, c *chat.ToolCall, r *Result) {
	env := t.env
	ctx, span := t.e.startSpan(ctx, &env, c)
	t.attempt(ctx, env, c, r)
	endSpan(span, r)
}

// written are the arguments of a call as the model wrote them.
func written(c *chat.ToolCall) json.RawMessage {
	raw := rawOf(c)
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	return protocol.AppendString(nil, strings.ToValidUTF8(string(raw), "\uFFFD"))
}

func (r *Result) skip(reason string) {
	r.Status = Skipped
	r.Err = protocol.Errorf(protocol.Cancelled, "not run: %s", reason)
	r.Text = "Error: not run: " + reason + "."
}

// attempt runs a call, if it may be run.
func (t *turn) attempt(ctx context.Context, env Environment, c *chat.ToolCall, r *Result) {
	a := t.admitted(ctx, env, c, r, context.WithTimeout)
	if a == nil {
		return
	}
	defer a.cancel()
	out, err := t.e.insist(a, 1)
	t.e.ended(ctx, a, r, out, err)
}

// An attempt is a call that may run.
type attempt struct {
	ctx       context.Context
	cancel    context.CancelFunc
	tool      *Tool
	x         *Execution
	timeout   time.Duration
	unchanged func() error // fails if the tool is not the one that was judged
}

// admitted finds the tool, reads the arguments, and asks whether the call may be run. If
// it may not, it fills in the result and returns nil.
func (t *turn) admitted(ctx context.Context, env Environment, c *chat.ToolCall, r *Result, within func(context.Context, time.Duration) (context.Context, context.CancelFunc)) *attempt {
	tool, ok := t.box.Find(c.Name)
	if w, kept := t.box.withheld[strings.ToLower(c.Name)]; !ok && kept {
		t.e.fail(ctx, r, protocol.Errorf(protocol.PermissionDenied, "the tool %q may not be called by a model: %s", w.tool.Name, w.why))
		return nil
	}
	if !ok {
		t.notFound(c, r)
		return nil
	}
	tool, err := t.box.today(ctx, env, tool)
	if err != nil {
		t.e.fail(ctx, r, err)
		return nil
	}
	x := &Execution{Environment: env, CallID: c.ID, Name: tool.Name, Raw: rawOf(c)}
	x.Depth++
	x.Recorded = t.e.Record != nil
	parsed := Parse(tool, x.Raw)
	r.Warning = parsed.Warning()
	if parsed.Refused(tool.Forgiving) {
		r.invalid(tool, t.box.Spelling(tool.Name), x, &parsed)
		return nil
	}
	x.Arguments, x.ArgumentsJSON = parsed.Arguments, parsed.JSON
	x.Warnings, x.Faults = parsed.texts(), parsed.Faults

	timeout := cmp.Or(max(tool.Timeout, 0), max(t.e.Timeout, 0), DefaultTimeout)
	inner, cancel := within(following(ctx, c.ID), timeout)
	x.again = func(ctx context.Context) (*Tool, *Execution, error) { return t.again(ctx, tool, x) }
	err = t.e.admit(inner, tool, x)
	r.Arguments = x.ArgumentsJSON // the arguments that were judged
	question, asks := errors.AsType[*Question](err)
	switch {
	case asks:
		r.Status, r.Question = Waiting, question
	case err != nil:
		t.e.fail(ctx, r, inTime(inner, err, timeout))
	default:
		if err = beforeRun(inner, tool); err != nil {
			t.e.fail(ctx, r, err)
		}
	}
	if err != nil {
		cancel()
		return nil
	}
	unchanged := func() error {
		_, err := t.box.today(inner, env, tool)
		return err
	}
	return &attempt{withCheck(inner, unchanged), cancel, tool, x, timeout, unchanged}
}

// ended fills in the result of a call that has run.
func (e *Executor) ended(ctx context.Context, a *attempt, r *Result, out Output, err error) {
	if err != nil {
		r.Output = out
		e.fail(ctx, r, inTime(a.ctx, err, a.timeout))
		return
	}
	e.finish(r, out)
}

// Preview returns a call in the form in which it would be judged now, with the current
// declaration of its tool. The call is neither judged nor made.
func (e *Executor) Preview(ctx context.Context, box *Toolbox, env Environment, c *chat.ToolCall) (*Tool, *Execution, error) {
	tool, ok := box.Find(c.Name)
	if !ok {
		return nil, nil, protocol.Errorf(protocol.NotFound, "the tool %q is not there any more", c.Name).With("reason", "changed")
	}
	x := &Execution{Environment: env, CallID: c.ID, Name: tool.Name, Raw: rawOf(c)}
	x.Depth++
	parsed := Parse(tool, x.Raw)
	if parsed.Refused(false) {
		var r Result
		r.invalid(tool, tool.Name, x, &parsed)
		return nil, nil, protocol.InvalidParam("arguments", r.Text)
	}
	x.Arguments, x.ArgumentsJSON, x.Warnings, x.Risk = parsed.Arguments, parsed.JSON, parsed.texts(), tool.Risk
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	if tool.Resolve != nil {
		if err := tool.Resolve(ctx, x); err != nil {
			return nil, nil, err
		}
	}
	return tool.withRisk(x.Risk), x, nil
}

// again returns a call with the current declaration of its tool, resolved anew.
func (t *turn) again(ctx context.Context, tool *Tool, x *Execution) (*Tool, *Execution, error) {
	now, err := t.box.today(ctx, t.env, tool)
	if err != nil {
		return nil, nil, err
	}
	fresh := *x
	fresh.Risk = now.Risk
	if now.Resolve != nil {
		if err := now.Resolve(ctx, &fresh); err != nil {
			return nil, nil, err
		}
	}
	return now.withRisk(fresh.Risk), &fresh, nil
}

// rawOf are the arguments as the model wrote them.
func rawOf(c *chat.ToolCall) []byte {
	if c.Raw != "" {
		return []byte(c.Raw)
	}
	return c.Args
}

// admit returns the error of a call that may not run. It may wait for an approval.
func (e *Executor) admit(ctx context.Context, tool *Tool, x *Execution) (err error) {
	most := e.MaxDepth
	if most <= 0 {
		most = MaxDepth
	}
	if x.Depth > most {
		return protocol.Errorf(protocol.LimitReached, "calls of tools are nested more than %d deep", most).With("call_depth", x.Depth)
	}
	defer func() {
		if p := recover(); p != nil { // a fault denies
			err = e.panicked(x, p)
		}
	}()
	x.Risk = tool.Risk
	if tool.Resolve != nil {
		if err := tool.Resolve(ctx, x); err != nil {
			return err
		}
	}
	switch {
	case x.Risk == RiskDeny && !x.ByHand:
		return notForModels(tool)
	case e.Gate != nil:
		return e.Gate(ctx, tool.withRisk(x.Risk), x)
	case x.Risk == RiskAsk:
		return protocol.Errorf(protocol.PermissionDenied, "the tool %q needs an approval, and there is no decider here", tool.Name)
	}
	return nil
}

// notForModels is the error of a model's call of a tool that no model may call.
func notForModels(tool *Tool) error {
	return protocol.Errorf(protocol.PermissionDenied, "the tool %q may not be called by a model", tool.Name)
}

// withRisk returns a tool for one call, whose risk may be higher than the declared one.
func (t *Tool) withRisk(risk string) *Tool {
	if risk == t.Risk {
		return t
	}
	one := &Tool{Declaration: t.Declaration, Run: t.Run, Begin: t.Begin, Prompt: t.Prompt, Resolve: t.Resolve, MaxArguments: t.MaxArguments}
	one.Risk = risk
	return one
}

// insist runs a call, and repeats it after a transient failure if it may be repeated.
// Each attempt, which are counted from n, requires that the tool is unchanged.
func (e *Executor) insist(a *attempt, n int) (out Output, err error) {
	for ; ; n++ {
		if changed := a.unchanged(); changed != nil {
			return out, changed
		}
		out, err = e.run(a.ctx, a.tool, a.x)
		if err == nil || !e.repeats(a, n, err) || !e.rest(a, n, err) {
			return out, err
		}
	}
}

// repeats reports whether a call is attempted again after an error of its n-th attempt.
func (e *Executor) repeats(a *attempt, n int, err error) bool {
	attempts := e.Attempts
	if attempts <= 0 {
		attempts = 3
	}
	return n < attempts && mayRepeat(a.tool, err)
}

// rest waits before the attempt after the n-th. It reports false if there is no time for
// another.
func (e *Executor) rest(a *attempt, n int, err error) bool {
	wait := e.Backoff
	if wait <= 0 {
		wait = 250 * time.Millisecond
	}
	wait <<= n - 1
	if known := new(protocol.Error); errors.As(err, &known) {
		wait = max(wait, known.RetryAfter())
	}
	if deadline, ok := a.ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false // the error is more informative than a timeout
	}
	select {
	case <-time.After(wait):
		return true
	case <-a.ctx.Done():
		return false
	}
}

// run runs a call once. It waits for it until ctx ends, and grace longer.
func (e *Executor) run(ctx context.Context, tool *Tool, x *Execution) (Output, error) {
	if tool.Prompt {
		return e.call(ctx, tool, x)
	}
	type ended struct {
		out Output
		err error
	}
	done := make(chan ended, 1)
	go func() {
		out, err := e.call(ctx, tool, x)
		done <- ended{out, err}
	}()
	select {
	case end := <-done:
		return end.out, end.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case end := <-done:
		return end.out, end.err
	case <-late.C:
		return Output{}, ctx.Err()
	}
}

// call runs a tool and turns its panic into an error.
func (e *Executor) call(ctx context.Context, tool *Tool, x *Execution) (out Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Output{}, e.panicked(x, p)
		}
	}()
	return tool.Run(ctx, x)
}

// panicked logs a panic and returns an error for callers, without its details.
func (e *Executor) panicked(x *Execution, value any) error {
	if e.Log != nil {
		e.Log.Error("a tool panicked", "tool", x.Name, "trace_id", x.TraceID, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
	return protocol.Errorf(protocol.Internal, "the tool is broken")
}

// inTime returns the error of a call, as a timeout if its time was over.
func inTime(ctx context.Context, err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return protocol.Errorf(protocol.TimedOut, "timed out after %v; whether it has taken effect is not known", timeout)
	}
	return err
}
