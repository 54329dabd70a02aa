package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A step is a round of calls while it is under way.
type step struct {
	Calls    []*chat.ToolCall `json:"calls,omitempty"`
	Outcomes []*outcome       `json:"outcomes,omitempty"` // of each call, nil until it has one
	Last     bool             `json:"last,omitempty"`     // the model is not asked again after it
	Waits    string           `json:"waits,omitempty"`    // the id of the call that needs an approval
	Begun    string           `json:"begun,omitempty"`    // id of the call that was begun last; only in resumed runs
	BegunAt  int64            `json:"begun_at,omitempty"` // Unix ms
	Attempt  int              `json:"attempt,omitempty"`  // number of its harmless repetitions, each under another key
}

// An outcome is the part of a call's result that the loop stores.
type outcome struct {
	Message chat.Message `json:"message"`
	Report  ToolReport   `json:"report"`
	Status  tools.Status `json:"status"`
	Fatal   bool         `json:"fatal,omitempty"`
	Text    string       `json:"text,omitempty"` // of a fatal outcome
}

func outcomeOf(r *tools.Result) *outcome {
	o := &outcome{Message: message(r), Report: Report(r), Status: r.Status, Fatal: r.Fatal}
	if r.Fatal {
		o.Text = r.Text
	}
	return o
}

// pending lists the calls without an outcome, in their order.
func (s *step) pending() (calls []*chat.ToolCall, at []int) {
	for i, c := range s.Calls {
		if s.Outcomes[i] == nil {
			calls, at = append(calls, c), append(at, i)
		}
	}
	return calls, at
}

// perform executes the calls that have no outcome yet. It stops at a call that needs an
// approval, and returns its question.
func (u *run) perform(ctx context.Context) (*tools.Question, error) {
	if u.Keep != nil {
		return u.performKept(ctx)
	}
	calls, at := u.step.pending()
	if len(calls) == 0 {
		return nil, nil
	}
	u.announce(calls)
	return u.take(u.execute(ctx, u.env, calls), at), nil
}

// announce emits llm.tool_call for calls that are about to run.
func (u *run) announce(calls []*chat.ToolCall) {
	if u.Tell == nil {
		return
	}
	for _, c := range calls {
		u.Tell("llm.tool_call", c)
	}
}

// execute runs calls, however many.
func (u *run) execute(ctx context.Context, env tools.Environment, calls []*chat.ToolCall) []tools.Result {
	if u.Tell != nil {
		ctx = tools.WithFollower(ctx, follower(u.Tell))
	}
	if u.Acted != nil {
		ctx = tools.BeforeRun(ctx, u.notesAct)
	}
	results := u.opts.Executor.Execute(ctx, u.box, env, calls)
	for len(results) < len(calls) { // it has one for each
		results = append(results, skipped(calls[len(results)], "it has no result"))
	}
	return results[:len(calls)]
}

// notesAct calls Acted before a call of a tool that may do more than read.
func (u *run) notesAct(tool *tools.Tool) error {
	if tool.Effect != commands.Read {
		u.Acted()
	}
	return nil
}

// take records the outcomes of calls, and returns the first question among them.
func (u *run) take(results []tools.Result, at []int) (question *tools.Question) {
	for i := range results {
		r := &results[i]
		switch {
		case r.Status != tools.Waiting:
			u.step.Outcomes[at[i]] = outcomeOf(r)
		case r.Question != nil && question == nil:
			question = r.Question
			u.step.Waits = r.CallID
		}
	}
	return question
}

// performKept is perform for a resumed run. It runs one call at a time and stores the
// state before and after each, so that a bridge that resumes the run after a crash
// repeats no call.
func (u *run) performKept(ctx context.Context) (*tools.Question, error) {
	for {
		calls, at := u.step.pending()
		if len(calls) == 0 {
			return nil, nil
		}
		c, at := calls[0], at[:1]
		if lost := u.lost(c); lost != nil {
			u.step.Outcomes[at[0]] = outcomeOf(lost)
			continue
		}
		env := u.env
		var edited *approval.Edited
		if u.step.Waits == c.ID {
			env.Approval = u.approval
			c, edited = u.edited(c)
		}
		if _, begun := u.begun(c); !begun {
			u.step.Attempt = 0
		} else if tool, ok := u.box.Find(c.Name); ok && tool.Idempotent {
			u.step.Attempt++ // under the same key it would not run again
		}
		results, err := u.insist(ctx, env, c)
		if err != nil {
			return nil, err
		}
		if edited != nil {
			u.tellEdited(&results[0], edited)
		}
		question := u.take(results, at)
		u.step.Begun = ""
		if question != nil {
			return question, nil
		}
		made := u.step.Waits != c.ID || u.used()
		if u.step.Waits == c.ID {
			u.step.Waits = ""
		}
		if err := u.keepOutcome(ctx, u.step.Outcomes[at[0]], made); err != nil {
			return nil, err
		}
	}
}

// keepOutcome stores the outcome of a call. For a call that was made it repeats failed
// writes as long as the run has time. An outcome that is too long is shortened to its
// beginning.
func (u *run) keepOutcome(ctx context.Context, o *outcome, made bool) error {
	for shortened := false; ; {
		err := u.Keep(ctx, u.state(), false)
		switch {
		case err == nil:
			return nil
		case parked.TooMuch(err) && !shortened:
			o.shorten()
			shortened = true
			continue
		case !made, protocol.CodeOf(err) != protocol.StoreUnavailable:
			return err
		}
		select {
		case <-time.After(comeback):
		case <-ctx.Done():
			return err
		}
	}
}

// maxKeptText is the length of the shortened text of an outcome that is too long to be
// stored, in bytes.
const maxKeptText = 16 << 10

// shorten cuts an outcome down to the beginning of its text.
func (o *outcome) shorten() {
	said := chat.Answer{Segments: o.Message.Segments}
	text := said.Text()
	if len(text) > maxKeptText {
		text = strings.ToValidUTF8(text[:maxKeptText], "") + "…"
	}
	text += "\n[The rest of the result was too long to be kept.]"
	o.Message.Segments = []chat.Segment{{Type: chat.Text, Text: text}}
}

// edited returns the call that waited, with the change of its deciders.
func (u *run) edited(c *chat.ToolCall) (*chat.ToolCall, *approval.Edited) {
	if u.Edited == nil {
		return c, nil
	}
	e := u.Edited(u.approval)
	if e == nil {
		return c, nil
	}
	next := *c
	next.Args, next.Raw = e.Args, ""
	return &next, e
}

// tellEdited adds to a result that deciders have changed the call. The output for
// programs is not changed.
func (u *run) tellEdited(r *tools.Result, e *approval.Edited) {
	told := e.Told()
	r.Warning = strings.TrimPrefix(r.Warning+"; "+told, "; ")
	if r.Status != tools.Waiting && !u.step.Last {
		r.Text = told + ".\n" + r.Text
	}
}

// comeback is the pause before another attempt to reach a device or the store.
const comeback = time.Second

// electing is the longest outage of the store that is waited for, as during an election
// of a leader in a cluster. It is less than the lifetime of a claim.
const electing = claimed / 2

// insist makes one call of a resumed run. Devices need a moment to reconnect after the
// start of a bridge: a call that could not be delivered is repeated under another key.
// A call that failed because the store was unavailable is repeated under the same key,
// so that it runs once even if the failed attempt did run.
func (u *run) insist(ctx context.Context, env tools.Environment, c *chat.ToolCall) ([]tools.Result, error) {
	if err := u.comesBack(ctx, c); err != nil {
		return nil, err
	}
	for began, first := time.Now(), true; ; first = false {
		err := u.begin(ctx, c)
		if first && (err == nil || parked.TooMuch(err)) { // after any other error the call does not run here
			u.announce([]*chat.ToolCall{c})
		}
		if parked.TooMuch(err) {
			u.step.Begun = ""
			return []tools.Result{failed(tools.Result{CallID: c.ID, Name: c.Name, Arguments: c.Args}, err)}, nil
		}
		if err != nil {
			return nil, err
		}
		results := u.execute(tools.WithKey(ctx, keyOf(u.Task, c, u.step.Attempt)), env, []*chat.ToolCall{c})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // the resumed run looks again at the call begun here
		}
		code := protocol.CodeOf(results[0].Err)
		away, unstored := code == protocol.AgentOffline && u.Young != nil && u.Young(), code == protocol.StoreUnavailable && time.Since(began) < electing
		if !away && !unstored {
			return results, nil
		}
		select {
		case <-time.After(comeback):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if away {
			u.step.Attempt++
			u.step.BegunAt = u.opts.Now().UnixMilli()
		}
	}
}

// begin stores that a call is about to run. For the call that waited, the use of its
// approval stores that.
func (u *run) begin(ctx context.Context, c *chat.ToolCall) error {
	if u.step.Waits == c.ID && !u.used() {
		return u.Start()
	}
	at, begun := u.begun(c)
	if !begun {
		at = u.opts.Now().UnixMilli()
	}
	u.step.Begun, u.step.BegunAt = c.ID, at
	return u.Keep(ctx, u.state(), true)
}

// begun returns the time at which a call was begun, in Unix ms, and whether it was.
func (u *run) begun(c *chat.ToolCall) (at int64, begun bool) {
	switch {
	case u.step.Begun == c.ID:
		return u.step.BegunAt, true
	case u.step.Waits == c.ID && u.UsedAt != nil:
		at = u.UsedAt(u.approval)
	}
	return at, at != 0
}

// comesBack waits for the tool of the call that waited: tools of other servers are
// unknown until the servers are connected again.
func (u *run) comesBack(ctx context.Context, c *chat.ToolCall) error {
	for u.step.Waits == c.ID && u.Young != nil && u.Young() {
		if _, ok := u.box.Find(c.Name); ok {
			return nil
		}
		select {
		case <-time.After(comeback):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		u.reselect(ctx)
	}
	return nil
}

// keyOf is the idempotency key of one attempt at a call of a resumed run.
func keyOf(task string, c *chat.ToolCall, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", task, c.ID, attempt))
	return "parked-" + hex.EncodeToString(sum[:16])
}

// claimed is the guaranteed lifetime of a call's claim: within it, a repetition under
// the same key returns the first outcome instead of running the call again. It is less
// than the time limit of any call.
const claimed = time.Minute

// lost is the result of a call that was begun before a crash and must not be repeated,
// since it might run twice; nil if it may be made.
func (u *run) lost(c *chat.ToolCall) *tools.Result {
	at, begun := u.begun(c)
	if !begun {
		return nil
	}
	since := u.opts.Now().Sub(time.UnixMilli(at))
	tool, ok := u.box.Find(c.Name)
	switch {
	case u.step.Waits == c.ID && !u.used(), ok && (tool.Effect == commands.Read || tool.Idempotent):
		return nil
	case ok && tool.Effect == commands.Act && since >= 0 && since < claimed:
		return nil
	}
	r := &tools.Result{CallID: c.ID, Name: c.Name, Arguments: c.Args, Status: tools.Failed}
	r.Err = protocol.Errorf(protocol.OutcomeUnknown, "the bridge stopped while the call was made; whether it has taken effect is not known")
	r.Text = "Error: the bridge stopped while the call was made; whether it has taken effect is not known (code " + string(protocol.OutcomeUnknown) + ")"
	return r
}

// used reports whether the call that waited has used its approval. Without the use it
// was not made.
func (u *run) used() bool { return u.UsedAt == nil || u.UsedAt(u.approval) != 0 }
