package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An Asker asks a model for one answer. *model.Service is one.
type Asker interface {
	Ask(ctx context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error)
}

// A navigator finds the position of a run in its workflow.
type navigator interface {
	// position returns the position of the run, nil without a workflow.
	position(ctx context.Context) (*Position, error)
	// agent returns the agent that acts at a position, nil for none, with its policy.
	agent(at *Position) (*pack.Agent, Policy)
	// topic is the text of a position, for the choice of tools.
	topic(at *Position) string
	// stood returns a position with an earlier node in place of its own.
	stood(at *Position, node string) *Position
}

// hands runs the calls of a model.
type hands interface {
	// offer returns the tools under a policy.
	offer(ctx context.Context, policy Policy) (*tools.Toolbox, error)
	// execute runs the calls of a turn except for those answered before, and returns
	// all results in the order of the calls. Each new one is passed to done as soon as
	// it is known. execute stops at a call that needs an approval.
	execute(ctx context.Context, box *tools.Toolbox, turn string, calls []*chat.ToolCall, before []handled, began func(i int), done func(i int, h *handled)) ([]handled, *hold)
	// refuse sets the error with which a call is answered instead of running.
	refuse(call string, why error)
	// goOnFrom prepares the run of the call that waited, by its approval. It returns
	// the tools, as offer does.
	goOnFrom(ctx context.Context, policy Policy, w *waitEntry) (*tools.Toolbox, error)
	// counts are the numbers of calls by effect.
	counts() map[string]int
}

// A handled is a call with its result.
type handled struct {
	ToolRun
	message  chat.Message
	code     fault.Code // "" if it succeeded
	question *Question  // to the user
	fatal    bool       // no other call can succeed either
	offline  bool       // not delivered
	unstored bool       // not begun, as nothing could be stored
	unknown  bool       // outcome unknown
	waits    bool       // not begun: the call, or one beside it, needs an approval
	asks     *tools.Question
	key      string
	lost     error // error of its entry in the log
}

// A diary keeps the turns of a run.
type diary interface {
	asked(t *turnEntry) error
	waits(w *waitEntry) error
	did(t *toolsEntry) error
}

// An engine is the loop of one run, from an input to its next rest. It is for one
// goroutine.
type engine struct {
	asker     Asker
	where     navigator
	hands     hands
	diary     diary
	approvals Approvals
	withdraw  func(approval, why string)
	tell      func(event string, data any) // progress
	question  model.Question               // the question to a model, without its messages and tools
	prompt    prompt
	stream    bool
	limits    loop.Limits
	turns     int   // so far, of the whole run
	spent     spent // the same
	calls     int   // since its user said something
	rounds    int   // the same
	now       func() time.Time
	pause     func(ctx context.Context, d time.Duration) error
	// owner returns the current principal of the run, or the error of an owner that may
	// not continue it.
	owner func() (*protocol.Principal, error)
	// relevant ranks tools if there are too many; nil ranks them by words alone.
	relevant tools.Retriever

	talk  conversation
	topic string        // text of the position and input, for the choice of tools
	fails loop.Failures // of calls in the node the run is in

	at    *Position  // where the run is
	entry *turnEntry // the turn under way
	text  string     // of the model's last answer
	stop  *Stop      // rest caused by calls, nil for none
}

// A word is the input that continues a run.
type word struct {
	intent Intent
	input  *string        // of the user, nil for none
	talk   []chat.Message // conversation so far
	wait   *waitEntry     // the call of a settled approval, nil for other words
	last   *toldTurn      // the turn of that call
}

// errClosing is the cause of the end of engines when the service closes. Their runs are
// resumed later.
var errClosing = errors.New("the bridge is stopping")

// errAborted is the cause of the end of cancelled runs.
var errAborted = errors.New("the run was cancelled")

var _ loop.Hooks = (*engine)(nil)

// run continues a run until it comes to rest. The phase Running means that the service
// closes.
func (e *engine) run(ctx context.Context, w word) Stop {
	at, err := e.where.position(ctx)
	if err != nil {
		return e.broken(ctx, err)
	}
	e.at = at
	e.talk.restore(w.talk)
	if w.wait != nil {
		err = e.takeUp(ctx, w.wait, w.last)
	} else {
		e.anchor(w.intent, at)
		if w.input != nil {
			e.topic += "\n" + *w.input
			e.talk.add(e.prompt.userInput(*w.input, at))
		}
		err = e.drive(ctx)
	}
	switch {
	case errors.Is(err, loop.ErrRounds):
		if e.at != nil && e.at.Completed {
			return Stop{Phase: Completed}
		}
		return stopped(Failed, fault.MaxTurns, "the model was asked %d times and has not come to an end", e.limits.Rounds)
	case err != nil:
		return e.broken(ctx, err)
	case e.stop != nil:
		return *e.stop
	}
	return e.rest(e.text, e.at)
}

// mayGoOn returns the current principal of the run, or an error if the run was ended or
// its owner has lost the right to it.
func (e *engine) mayGoOn(ctx context.Context) (*protocol.Principal, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return e.owner()
}

// anchor adds the messages about the position, and sets the agent that acts there.
func (e *engine) anchor(intent Intent, at *Position) {
	e.prompt.agent, e.prompt.policy = e.where.agent(at)
	e.talk.setSystem(e.prompt.system())
	e.topic = e.where.topic(at)
	e.talk.add(e.prompt.anchor(intent, at)...)
	e.fails = loop.Failures{}
	if at != nil {
		e.tell(eventNode, nodeEvent{Node: at.Node.ID, Type: string(at.Node.Type), Title: at.Node.Title, Agent: at.Node.AgentID})
	}
}

// move returns the position after a turn, and anchors the model if the node has
// changed.
func (e *engine) move(ctx context.Context, before *Position) (*Position, error) {
	at, err := e.where.position(ctx)
	if err != nil || at == nil {
		return at, err
	}
	if before == nil || at.Node.ID != before.Node.ID {
		e.anchor(IntentContinue, at)
	}
	return at, nil
}

// rest is the stop of a run whose model makes no more calls.
func (e *engine) rest(text string, at *Position) Stop {
	if at != nil && at.Completed {
		return Stop{Phase: Completed, Message: text}
	}
	return Stop{Phase: WaitingUser, Message: text}
}

// broken is the stop of a run after an error.
func (e *engine) broken(ctx context.Context, err error) Stop {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errClosing):
		return Stop{Phase: Running}
	case errors.Is(cause, errAborted), errors.Is(err, errAborted):
		return stopped(Failed, fault.Aborted, "the run was cancelled")
	}
	if why, ok := errors.AsType[*protocol.Error](cause); ok { // the grant has ended
		err = &endedError{why}
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		return stopped(WaitingUser, fault.Interrupted, "%s", ended)
	}
	f := fault.As(err)
	return Stop{Phase: Failed, Code: f.Code, Reason: f.Message}
}

// An endedError is the error of a run whose starter may not continue it any more.
type endedError struct{ why error }

func (e *endedError) Error() string {
	return fmt.Sprintf("the principal that started the run may not continue it: %s; continue it with another credential", protocol.AsError(e.why).Message)
}

// Begin implements [loop.Hooks].
func (e *engine) Begin(ctx context.Context, r *loop.Round) error {
	who, err := e.mayGoOn(ctx)
	if err != nil {
		return err
	}
	if r.Box, err = e.hands.offer(ctx, e.prompt.policy); err != nil {
		return err
	}
	q := &r.Question
	*q = e.question
	q.Principal = who
	q.Request.Messages, q.Request.Tools = e.talk.messages(), e.offered(ctx, r.Box, who)
	e.turns++
	e.rounds++
	e.entry = &turnEntry{N: e.turns, At: e.now().UTC(), Before: Running, Request: e.talk.since(), Tools: q.Request.Tools}
	if e.at != nil {
		e.entry.Node = e.at.Node.ID
	}
	e.tell(eventTurn, turnEvent{Message: turnID(e.turns), Node: e.entry.Node, n: e.turns})
	return nil
}

// Heard implements [loop.Hooks]: it writes the answer to the diary before it has any
// effect.
func (e *engine) Heard(_ context.Context, r *loop.Round, err error) error {
	if err == nil && r.Reply.Answer.Finish.Reason == chat.Broken {
		err = fault.Errorf(fault.LLMBadResponse, "the model's answer broke off: %s", r.Reply.Answer.Finish.Detail)
	}
	if err != nil {
		e.entry.Failure = fault.CodeOf(err)
		if kept := e.diary.asked(e.entry); kept != nil {
			err = kept
		}
		return err
	}
	answer := r.Reply.Answer
	message := answer.Message()
	e.text, r.Calls = answer.Text(), answer.Calls()
	if len(r.Calls) == 0 && e.text == "" && !(e.at != nil && e.at.Completed) {
		err = fault.Errorf(fault.LLMBadResponse, "the model's answer has neither a text nor a call")
		e.entry.Failure = fault.LLMBadResponse
	}
	e.entry.Assistant, e.entry.Finish = &message, answer.Finish.Reason
	e.entry.Model, e.entry.Provider, e.entry.Usage, e.entry.Cost, e.entry.Took = r.Reply.Model, r.Reply.Provider, r.Reply.Usage, r.Reply.Cost, r.Reply.Took
	e.spent.add(e.entry)
	if kept := e.diary.asked(e.entry); kept != nil {
		return kept
	}
	e.tell(eventAnswer, answerEvent{Message: turnID(e.turns), Turns: e.turns, Tokens: e.spent.tokens, Cost: e.spent.cost})
	e.talk.answered(message)
	if err != nil {
		return err
	}
	if e.text != "" {
		e.tell(eventMessage, messageEvent{Message: turnID(e.turns), Role: chat.Assistant, Text: e.text, Final: len(r.Calls) == 0})
	}
	if len(r.Calls) == 0 {
		err = e.diary.did(&toolsEntry{N: e.turns, After: e.rest(e.text, e.at).Phase})
	}
	return err
}

// Act implements [loop.Hooks].
func (e *engine) Act(ctx context.Context, r *loop.Round) (again bool, err error) {
	return e.act(ctx, r.Box, r.Calls, nil)
}

// act runs the calls of an answer, except for those answered before, and moves the run.
func (e *engine) act(ctx context.Context, box *tools.Toolbox, calls []*chat.ToolCall, before []handled) (again bool, err error) {
	all, err := e.handle(ctx, box, calls, before)
	if err != nil || e.stop != nil {
		return false, err
	}
	entry := &toolsEntry{N: e.turns, After: Running}
	stop := Stop{Phase: WaitingUser, Message: e.text}
	looping := ""
	var end *handled // the call that ends the run, if any
	for i := range all {
		h := &all[i]
		entry.Runs = append(entry.Runs, h.ToolRun)
		entry.Messages = append(entry.Messages, h.message)
		e.talk.answered(h.message)
		if h.question != nil {
			stop.Questions = append(stop.Questions, *h.question)
		}
		if e.fails.See(h.ToolName, []byte(canonical(h.Args)), h.code != "") >= e.limits.Repeats {
			looping = h.ToolName
		}
		if h.fatal || h.lost != nil {
			end = h
		}
	}
	aborted := ctx.Err() != nil
	switch {
	case aborted: // broken makes the stop
	case looping != "":
		stop.Code, stop.Reason = fault.LoopDetected, fmt.Sprintf("the same call of %s failed %d times", looping, e.limits.Repeats)
		entry.After, entry.Stop = WaitingUser, fault.LoopDetected
	case len(stop.Questions) > 0:
		entry.After = WaitingUser
	}
	if err := e.diary.did(entry); err != nil {
		return false, err
	}
	e.talk.trim()
	switch {
	case aborted:
		return false, context.Cause(ctx)
	case end != nil:
		return false, end.fatality()
	case entry.After == WaitingUser:
		e.stop = &stop
		return false, nil
	}
	e.at, err = e.move(ctx, e.at)
	return true, err
}

// handle executes the calls of an answer: one result for each, in the order of the calls.
// Those beyond the limit are refused. At a call that needs an approval the run stops.
func (e *engine) handle(ctx context.Context, box *tools.Toolbox, calls []*chat.ToolCall, before []handled) ([]handled, error) {
	id := turnID(e.turns)
	most, beyond := e.limits.Admit(e.calls, len(calls))
	most = max(most, len(before))
	all, held := before, (*hold)(nil)
	for {
		all, held = e.hands.execute(ctx, box, id, calls[:most], all,
			func(i int) { e.tell(eventTool, toolBegan(id, i, calls[i])) },
			func(i int, h *handled) { e.tell(eventTool, toolEnded(id, i, h)) })
		if held == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		refused, err := e.park(held, all)
		if err != nil || refused == nil {
			return nil, err
		}
		e.hands.refuse(held.call, refused)
	}
	e.calls += most
	for _, c := range calls[most:] {
		all = append(all, refused(c, fault.Errorf(fault.NotAvailable, "%s", beyond)))
	}
	return all, nil
}

// fatality is the error of a call that ends the run.
func (h *handled) fatality() error {
	if h.lost != nil {
		return fault.Wrap(fault.Internal, h.lost, "the calls of the run cannot be recorded")
	}
	return fault.Errorf(fault.ToolFailed, "%s failed in a way that ends the run", h.ToolName)
}

// offered returns the tools for the model: all, or the pinned ones and the most
// relevant others. A tool that is not offered can be called nevertheless.
func (e *engine) offered(ctx context.Context, box *tools.Toolbox, who *protocol.Principal) []chat.Tool {
	env := tools.Environment{Principal: who, Space: e.question.Space, Skill: e.question.Skill}
	return loop.Offer(ctx, box, env, e.relevant, e.topic, e.limits.Offered)
}
