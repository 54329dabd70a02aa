package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A run is one turn while it is under way.
type run struct {
	*Runner
	Conversation
	env    tools.Environment
	box    *tools.Toolbox
	limits Limits
	watch  *watch
	stream stream

	request chat.Request // of the next round

	ids   map[string]bool // of calls, in the whole conversation
	usage chat.Usage
	cost  float64
	took  time.Duration
	use   ToolUse
	last  *model.Reply
	turn  *Turn
	step  step // the calls of the round under way

	approval string // approval of the step's waiting call
}

var _ Hooks = (*run)(nil)

// all runs rounds until there is an answer.
func (u *run) all(ctx context.Context) error {
	ctx, cancel := u.limited(ctx)
	defer cancel()
	u.use.Notices = append(u.use.Notices, u.box.Warnings()...)
	u.request = u.Request
	u.request.Messages = slices.Clip(u.request.Messages)
	u.request.Tools = u.offer(ctx)
	u.ids = idsOf(u.request.Messages)
	return u.ended(ctx, Drive(ctx, u, 0)) // the limit of rounds leaves the model a last word
}

// ended completes the turn of a run that has ended.
func (u *run) ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errParked):
		u.rest()
		return nil
	case err != nil:
		return u.failed(ctx, err)
	}
	return u.finish()
}

// Begin implements [Hooks].
func (u *run) Begin(ctx context.Context, r *Round) error {
	if u.use.Rounds > 0 {
		u.reselect(ctx)
	}
	if u.ending() {
		u.request.Options.ToolChoice = chat.ToolChoice{Mode: "none"}
	}
	r.Question, r.Box = u.Question, u.box
	r.Question.Request = u.request
	return nil
}

// ending reports whether the model has to answer without tools now.
func (u *run) ending() bool { return u.use.Stop != "" }

// reselect offers the model the current tools, if they have changed since the
// round before.
func (u *run) reselect(ctx context.Context) {
	box, err := u.opts.Tools.Select(ctx, u.env, u.Tools)
	if err != nil || box == u.box { // a removed tool is noticed when it is called
		return
	}
	u.box = box
	u.request.Tools = u.offer(ctx)
}

// errTime is the cause of a run's context that ends at the time limit of the run.
var errTime = protocol.Errorf(protocol.TimedOut, "the time for the answer is over")

// margin is the part of a call's time that is reserved for its answer.
const margin = 200 * time.Millisecond

// limited bounds the time of a run. It leaves a margin for the answer.
func (u *run) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	var until time.Time
	if u.limits.Time > 0 {
		until = time.Now().Add(u.limits.Time)
	}
	if deadline, ok := ctx.Deadline(); ok && (until.IsZero() || deadline.Add(-margin).Before(until)) {
		until = deadline.Add(-margin)
	}
	if until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, until, errTime)
}

// offer returns the tools that the model is offered: all of the box, or the most
// relevant ones for the user's last message.
func (u *run) offer(ctx context.Context) []chat.Tool {
	if all := len(u.box.Tools()); all > u.limits.Offered {
		u.use.Notices = append(u.use.Notices, fmt.Sprintf("of %d tools the model was offered the %d most relevant", all, u.limits.Offered))
	}
	return Offer(ctx, u.box, u.env, u.opts.Retriever, wanted(u.Request.Messages), u.limits.Offered)
}

// wanted returns the text of the user's last message.
func wanted(messages []chat.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == chat.User {
			a := chat.Answer{Segments: m.Segments}
			return a.Text()
		}
	}
	return ""
}

// Ask implements [Hooks].
func (u *run) Ask(ctx context.Context, q *model.Question) (*model.Reply, error) {
	return u.opts.Model.Ask(ctx, *q, u.stream.round())
}

// Heard implements [Hooks].
func (u *run) Heard(_ context.Context, r *Round, err error) error {
	if err != nil {
		return err
	}
	got := r.Reply
	u.use.Rounds++
	u.usage, u.cost, u.took, u.last = plus(u.usage, got.Usage), u.cost+got.Cost, u.took+got.Took, got
	segments, calls := u.own(got.Answer)
	if len(segments) > 0 {
		u.add(chat.Message{Role: chat.Assistant, Segments: segments})
	}
	r.Calls = calls
	return nil
}

// Act implements [Hooks].
func (u *run) Act(ctx context.Context, r *Round) (again bool, err error) {
	u.step = u.admit(r.Calls, u.ending())
	return u.act(ctx)
}

// act runs the calls of the round and adds their outcomes to the conversation, or parks
// the run at a call that needs an approval.
func (u *run) act(ctx context.Context) (again bool, err error) {
	for {
		question, err := u.perform(ctx)
		if err != nil {
			return false, err
		}
		if question == nil {
			break
		}
		if err := u.park(ctx, question); err != nil {
			return false, err
		}
	}
	last := u.step.Last
	first := len(u.turn.Messages)
	notice := u.conclude()
	u.request.Messages = append(u.request.Messages, u.turn.Messages[max(first-1, 0):]...)
	if notice != "" {
		u.request.Messages = append(u.request.Messages, u.add(chat.TextMessage(chat.User, notice)))
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return !last && !u.over(), nil
}

func (u *run) add(m chat.Message) chat.Message {
	u.turn.Messages = append(u.turn.Messages, m)
	return m
}

// own returns the segments of an answer with ids of calls that are unique in the
// conversation: some providers count anew in each answer, and an answer from the cache
// repeats its ids.
func (u *run) own(a *chat.Answer) (segments []chat.Segment, calls []*chat.ToolCall) {
	segments = slices.Clone(a.Segments)
	for i := range segments {
		if segments[i].Type != chat.Call {
			continue
		}
		call := *segments[i].ToolCall
		if call.ID == "" || u.ids[call.ID] {
			call.ID = protocol.NewID()
		}
		u.ids[call.ID] = true
		segments[i].ToolCall = &call
		calls = append(calls, &call)
	}
	return segments, calls
}

func idsOf(messages []chat.Message) map[string]bool {
	ids := make(map[string]bool)
	for _, m := range messages {
		for _, s := range m.Segments {
			if s.Type == chat.Call && s.ToolCall != nil {
				ids[s.ToolCall.ID] = true
			}
		}
	}
	return ids
}

// admit returns the step of a new round of calls. Calls beyond the limits have the
// outcome Skipped already.
func (u *run) admit(calls []*chat.ToolCall, last bool) step {
	run, why := u.limits.Admit(len(u.use.Calls), len(calls))
	switch {
	case last:
		run, why = 0, "no tool may be called any more"
	case u.usage.Total() >= u.limits.Tokens:
		run, why = 0, fmt.Sprintf("the limit of %d tokens is reached", u.limits.Tokens)
		u.stop("tokens")
	case u.limits.Calls < len(u.use.Calls)+len(calls):
		u.stop("calls")
	}
	s := step{Calls: calls, Outcomes: make([]*outcome, len(calls)), Last: last}
	for i := run; i < len(calls); i++ {
		r := skipped(calls[i], why)
		s.Outcomes[i] = outcomeOf(&r)
	}
	return s
}

// conclude adds the outcomes of a round to the conversation, in the order of the calls,
// and returns the loop's own notice to the model.
func (u *run) conclude() (notice string) {
	var warnings []string
	for i, o := range u.step.Outcomes {
		u.add(o.Message)
		u.use.Add(o.Report)
		if w := u.watch.see(o.Report.Name, o.Status, argumentsOf(u.step.Calls[i])); w != "" {
			warnings = append(warnings, w)
		}
		if o.Fatal {
			u.stop("fatal")
			u.use.Detail = o.Text
		}
		if u.Tell != nil {
			u.Tell("llm.tool_result", o.Report)
		}
	}
	u.step = step{}
	return u.notice(warnings)
}

func argumentsOf(c *chat.ToolCall) []byte {
	if c.Raw != "" {
		return []byte(c.Raw)
	}
	var compact bytes.Buffer
	if err := compactJSON(&compact, c.Args); err != nil {
		return c.Args
	}
	return compact.Bytes()
}

func skipped(c *chat.ToolCall, why string) tools.Result {
	return tools.Result{CallID: c.ID, Name: c.Name, Arguments: c.Args, Status: tools.Skipped, Text: "Skipped: " + why + "."}
}

// stop records the reason for the end of the loop; the first reason stays.
func (u *run) stop(why string) {
	if u.use.Stop == "" {
		u.use.Stop = why
	}
}

// notice returns the loop's own message to the model, behind the results:
// warnings, and the demand for an answer.
func (u *run) notice(warnings []string) string {
	if locked := u.Health.Locked; locked != "" {
		u.use.Stop, u.use.Detail = "halted", locked
		return ""
	}
	switch {
	case u.use.Stop == "" && u.watch.exhausted():
		u.stop("ask_user")
		warnings = append(warnings, fmt.Sprintf("%d calls of tools have failed in a row. Call no tool now: tell the user what you tried and why it failed, and ask how to go on.", u.watch.row))
	case u.use.Stop == "calls":
		warnings = append(warnings, "No tool may be called any more. Answer with what you know.")
	case u.use.Stop == "" && u.use.Rounds >= u.limits.Rounds:
		u.stop("rounds")
		warnings = append(warnings, fmt.Sprintf("The limit of %d rounds of tools is reached. No tool may be called any more: answer with what you know.", u.limits.Rounds))
	}
	u.use.Notices = append(u.use.Notices, warnings...)
	return joined(warnings)
}

// over reports whether the model must not be asked again.
func (u *run) over() bool {
	switch u.use.Stop {
	case "halted", "tokens", "fatal":
		return true
	}
	return false
}

// failed ends a run after an error. At the end of its own time the turn has a reply
// with the last answer, if there is one.
func (u *run) failed(ctx context.Context, err error) error {
	for _, o := range u.step.Outcomes { // of calls that were made in the last round
		if o != nil {
			u.use.Add(o.Report)
		}
	}
	if ctx.Err() != nil && context.Cause(ctx) == error(errTime) {
		u.use.Stop = "time"
		if u.last != nil {
			return u.finish()
		}
		return errTime
	}
	return err
}

// finish sets the turn's reply to the last answer.
func (u *run) finish() error {
	answer := u.conclusion()
	if u.over() || u.use.Stop == "time" {
		answer.Finish.Detail = u.use.Detail
		if answer.Finish.Detail == "" {
			answer.Finish.Detail = "stopped by the limit: " + u.use.Stop
		}
	}
	if u.use.Stop == "halted" {
		answer.Finish.Reason = chat.Broken
	}
	return u.stream.finish(answer.Finish)
}

// rest sets the reply of a parked run.
func (u *run) rest() {
	answer := u.conclusion()
	answer.Finish.Reason, answer.Finish.Detail = chat.Waiting, "a call waits for an approval"
}

// conclusion returns the last answer and sets the turn's reply to it, with the usage of
// all answers.
func (u *run) conclusion() *chat.Answer {
	var o model.Reply
	answer := new(chat.Answer)
	if u.last != nil { // a call that was made without a model has none
		o, *answer = *u.last, *u.last.Answer
	}
	answer.Finish.Usage = u.usage
	o.Answer, o.Usage, o.Cost, o.Took = answer, u.usage, u.cost, u.took
	use := u.use
	use.Elapsed = math.Round(use.Elapsed*1000) / 1000
	u.turn.Reply, u.turn.Tools = &o, &use
	return answer
}
