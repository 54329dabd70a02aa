package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
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

// A place is where a run is.
type place interface {
	// position says where in its workflow the run stands, nil without one.
	position(ctx context.Context) (*Position, error)
	// agent is who acts at a position, nil for nobody in particular, with
	// what it may use.
	agent(at *Position) (*pack.Agent, Policy)
	// topic is what a position is about, in words.
	topic(at *Position) string
}

// hands do what a model calls for.
type hands interface {
	// offer says what there is to call under a policy.
	offer(ctx context.Context, policy Policy) (*tools.Toolbox, error)
	// execute runs the calls of a turn, and returns what became of each in the
	// order of the calls. Each is told to done as soon as that is known.
	execute(ctx context.Context, box *tools.Toolbox, turn string, calls []*chat.ToolCall, began func(i int), done func(i int, h *handled)) []handled
}

// A handled call is one that was answered.
type handled struct {
	ToolRun
	message  chat.Message
	code     fault.Code // "" if it succeeded
	question *Question  // to the user
	fatal    bool       // no other call can succeed either
	offline  bool       // it could not be delivered
	unknown  bool       // whether it was done cannot be known
	lost     error      // why it is in no log
}

// A diary keeps the turns of a run.
type diary interface {
	asked(t *turnEntry) error
	did(t *toolsEntry) error
}

// An engine is the loop of one run, from a word of its user to where it comes
// to rest. It is for one goroutine.
type engine struct {
	asker    Asker
	place    place
	hands    hands
	diary    diary
	tell     func(event string, data any) // progress
	question model.Question               // on behalf of what a model is asked, and which
	prompt   prompt
	stream   bool
	maxTurns int
	turns    int // so far, of the whole run
	now      func() time.Time
	pause    func(ctx context.Context, d time.Duration) error
	// owner is for whom the run goes on at this moment, or why it may not.
	owner func() (*protocol.Principal, error)
	// relevant chooses among tools; nil lets their words alone decide.
	relevant func(ctx context.Context, box *tools.Toolbox, topic string, n int) []*tools.Tool

	talk  conversation
	topic string         // what the run is about just now
	fails map[string]int // how often a call failed in a row
}

// A word is what makes a run go on.
type word struct {
	intent Intent
	input  *string        // of the user, nil for none
	talk   []chat.Message // that came before
}

// errClosing ends runs when the service closes: they go on later.
var errClosing = errors.New("the bridge is stopping")

// errAborted ends runs that somebody cancels.
var errAborted = errors.New("the run was cancelled")

// run goes on with a run until it comes to rest. Running means that the
// service closes.
func (e *engine) run(ctx context.Context, w word) Stop {
	at, err := e.place.position(ctx)
	if err != nil {
		return e.broken(ctx, err)
	}
	e.talk.restore(w.talk)
	e.anchor(w.intent, at)
	if w.input != nil {
		e.topic += "\n" + *w.input
		e.talk.add(e.prompt.userInput(*w.input, at))
	}
	for range e.maxTurns {
		who, err := e.mayGoOn(ctx)
		if err != nil {
			return e.broken(ctx, err)
		}
		calls, text, err := e.ask(ctx, who, at)
		if err != nil {
			return e.broken(ctx, err)
		}
		if len(calls.list) == 0 {
			return e.rest(text, at)
		}
		stop, err := e.act(ctx, calls, text)
		if err != nil {
			return e.broken(ctx, err)
		}
		if stop != nil {
			return *stop
		}
		if at, err = e.move(ctx, at); err != nil {
			return e.broken(ctx, err)
		}
	}
	if at != nil && at.Completed {
		return Stop{Phase: Completed}
	}
	return stopped(Failed, fault.MaxTurns, "the model was asked %d times and has not come to an end", e.maxTurns)
}

// mayGoOn says for whom the run goes on, unless somebody has ended it or its
// owner may not have it any more.
func (e *engine) mayGoOn(ctx context.Context) (*protocol.Principal, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return e.owner()
}

// anchor tells the model where it is, and makes it who acts there.
func (e *engine) anchor(intent Intent, at *Position) {
	e.prompt.agent, e.prompt.policy = e.place.agent(at)
	e.talk.setSystem(e.prompt.system())
	e.topic = e.place.topic(at)
	e.talk.add(e.prompt.anchor(intent, at)...)
	e.fails = make(map[string]int)
	if at != nil {
		e.tell(eventNode, nodeEvent{Node: at.Node.ID, Type: string(at.Node.Type), Title: at.Node.Title, Agent: at.Node.AgentID})
	}
}

// move looks where the run is after a turn, and tells the model if that is
// another node.
func (e *engine) move(ctx context.Context, before *Position) (*Position, error) {
	at, err := e.place.position(ctx)
	if err != nil || at == nil {
		return at, err
	}
	if before == nil || at.Node.ID != before.Node.ID {
		e.anchor(IntentContinue, at)
	}
	return at, nil
}

// rest is where a run comes to when its model calls for nothing more.
func (e *engine) rest(text string, at *Position) Stop {
	if at != nil && at.Completed {
		return Stop{Phase: Completed, Message: text}
	}
	return Stop{Phase: WaitingUser, Message: text}
}

// broken is where a run comes to when something is in its way.
func (e *engine) broken(ctx context.Context, err error) Stop {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errClosing):
		return Stop{Phase: Running}
	case errors.Is(cause, errAborted), errors.Is(err, errAborted):
		return stopped(Failed, fault.Aborted, "the run was cancelled")
	}
	if why, ok := errors.AsType[*protocol.Error](cause); ok { // its grant has ended
		err = &endedError{why}
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		return stopped(WaitingUser, fault.Interrupted, "%s", ended)
	}
	f := fault.As(err)
	return Stop{Phase: Failed, Code: f.Code, Reason: f.Message}
}

// An endedError says why who started a run may not have it go on.
type endedError struct{ why error }

func (e *endedError) Error() string {
	return fmt.Sprintf("who started the run may not have it go on: %s; continue it with another credential", protocol.AsError(e.why).Message)
}

// A round is the calls of one answer.
type round struct {
	turn  int
	box   *tools.Toolbox
	list  []*chat.ToolCall // that are executed
	extra []*chat.ToolCall // more than a turn may have
}

// maxCalls is how many calls of one answer are executed.
const maxCalls = 64

// ask asks the model, and keeps what it said.
func (e *engine) ask(ctx context.Context, who *protocol.Principal, at *Position) (*round, string, error) {
	box, err := e.hands.offer(ctx, e.prompt.policy)
	if err != nil {
		return nil, "", err
	}
	q := e.question
	q.Principal = who
	q.Request.Messages, q.Request.Tools = e.talk.messages(), e.offered(ctx, box)
	e.turns++
	r := &round{turn: e.turns, box: box}
	entry := &turnEntry{N: e.turns, At: e.now().UTC(), Before: Running, Request: e.talk.since(), Tools: q.Request.Tools}
	if at != nil {
		entry.Node = at.Node.ID
	}
	e.tell(eventTurn, turnEvent{Message: turnID(e.turns), Node: entry.Node})
	outcome, err := e.answer(ctx, q, turnID(e.turns))
	if err == nil && outcome.Answer.Finish.Reason == chat.Broken {
		err = fault.Errorf(fault.LLMBadResponse, "the model's answer broke off: %s", outcome.Answer.Finish.Detail)
	}
	if err != nil {
		entry.Failure = fault.CodeOf(err)
		if kept := e.diary.asked(entry); kept != nil {
			err = kept
		}
		return nil, "", err
	}
	answer := outcome.Answer
	text, calls := answer.Text(), answer.Calls()
	message := answer.Message()
	if len(calls) == 0 && text == "" && !(at != nil && at.Completed) {
		err = fault.Errorf(fault.LLMBadResponse, "the model's answer has neither a text nor a call")
		entry.Failure = fault.LLMBadResponse
	}
	entry.Assistant, entry.Model, entry.Finish, entry.Usage, entry.Took = &message, outcome.Model, answer.Finish.Reason, outcome.Usage, outcome.Took
	if kept := e.diary.asked(entry); kept != nil {
		return nil, "", kept
	}
	e.talk.answered(message)
	if err != nil {
		return nil, "", err
	}
	r.list = calls
	if len(calls) > maxCalls {
		r.list, r.extra = calls[:maxCalls], calls[maxCalls:]
	}
	if text != "" {
		e.tell(eventMessage, messageEvent{Message: turnID(e.turns), Role: chat.Assistant, Text: text, Final: len(calls) == 0})
	}
	if len(calls) == 0 {
		err = e.diary.did(&toolsEntry{N: r.turn, After: e.rest(text, at).Phase})
	}
	return r, text, err
}

// act executes the calls of an answer and backfills what came of them: one
// tool message for each, in the order of the calls. The stop is nil if the
// model is to be asked again.
func (e *engine) act(ctx context.Context, r *round, text string) (*Stop, error) {
	id := turnID(r.turn)
	all := e.hands.execute(ctx, r.box, id, r.list,
		func(i int) { e.tell(eventTool, toolBegan(id, i, r.list[i])) },
		func(i int, h *handled) { e.tell(eventTool, toolEnded(id, i, h)) })
	for _, c := range r.extra {
		all = append(all, refused(c, fault.Errorf(fault.NotAvailable, "only %d calls of one answer are executed", maxCalls)))
	}
	entry := &toolsEntry{N: r.turn, After: Running}
	stop := Stop{Phase: WaitingUser, Message: text}
	looping := ""
	var end *handled // after which there is no going on
	for i := range all {
		h := &all[i]
		entry.Runs = append(entry.Runs, h.ToolRun)
		entry.Messages = append(entry.Messages, h.message)
		e.talk.answered(h.message)
		if h.question != nil {
			stop.Questions = append(stop.Questions, *h.question)
		}
		if e.failed(h) {
			looping = h.ToolName
		}
		if h.fatal || h.lost != nil {
			end = h
		}
	}
	aborted := ctx.Err() != nil
	switch {
	case aborted: // broken says where that leads
	case looping != "":
		stop.Code, stop.Reason = fault.LoopDetected, fmt.Sprintf("the same call of %s failed %d times", looping, maxFails)
		entry.After, entry.Stop = WaitingUser, fault.LoopDetected
	case len(stop.Questions) > 0:
		entry.After = WaitingUser
	}
	if err := e.diary.did(entry); err != nil {
		return nil, err
	}
	e.talk.trim()
	if end != nil && !aborted {
		return nil, end.fatality()
	}
	if aborted {
		return nil, context.Cause(ctx)
	}
	if entry.After == WaitingUser {
		return &stop, nil
	}
	return nil, nil
}

// fatality is why a run ends with a call.
func (h *handled) fatality() error {
	if h.lost != nil {
		return fault.Wrap(fault.Internal, h.lost, "what the run does cannot be recorded")
	}
	return fault.Errorf(fault.ToolFailed, "%s failed in a way that ends the run", h.ToolName)
}

// maxFails is how often the same call may fail before the user is asked.
const maxFails = 3

// failed counts the failures of a call and reports whether they are too many.
func (e *engine) failed(h *handled) bool {
	key := h.ToolName + "\x00" + canonical(h.Args)
	if h.code == "" {
		delete(e.fails, key)
		return false
	}
	e.fails[key]++
	return e.fails[key] >= maxFails
}

// maxOffered is how many tools a model is offered; providers take no more.
const maxOffered = 128

// offered are the tools as a model gets them: all, or those that are always
// offered and the most relevant others. What is not offered can be called
// nevertheless.
func (e *engine) offered(ctx context.Context, box *tools.Toolbox) []chat.Tool {
	all := box.Tools()
	if len(all) <= maxOffered {
		return box.ChatTools()
	}
	var chosen []*tools.Tool
	for _, t := range all {
		if t.Pinned {
			chosen = append(chosen, t)
		}
	}
	var relevant []*tools.Tool
	if e.relevant != nil {
		relevant = e.relevant(ctx, box, e.topic, maxOffered)
	} else {
		relevant = box.Relevant(e.topic, maxOffered)
	}
	for _, t := range relevant {
		if !t.Pinned && len(chosen) < maxOffered {
			chosen = append(chosen, t)
		}
	}
	slices.SortFunc(chosen, func(a, b *tools.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools.ChatTools(chosen)
}
