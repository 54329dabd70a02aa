package run

import (
	"context"
	"maps"

	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Approvals manages the approvals of calls. *approval.Service is one.
type Approvals interface {
	// Reserve reserves a place among the pending approvals, until release.
	Reserve(r *approval.Record) (release func(), err error)
	// Open opens an approval, once.
	Open(ctx context.Context, r *approval.Record) error
	// Withdraw withdraws an approval that is not in a final state.
	Withdraw(ctx context.Context, id, why string) error
	// Known reports whether there is an approval of an id, and whether it is no longer
	// pending.
	Known(id string) (known, settled bool)
	// Edited returns the deciders' change of an approval's call, nil for none.
	Edited(id string) *approval.Edited
	// OnSettled has f called with a run when its approval is settled. f must not block.
	OnSettled(f func(run string))
}

// nobody is the Approvals of a service without approvals: it refuses every one.
type nobody struct{}

func (nobody) Reserve(*approval.Record) (func(), error) {
	return nil, protocol.Errorf(protocol.PermissionDenied, "there is no decider here")
}
func (nobody) Open(context.Context, *approval.Record) error   { return nil }
func (nobody) Withdraw(context.Context, string, string) error { return nil }
func (nobody) Known(string) (known, settled bool)             { return false, false }
func (nobody) Edited(string) *approval.Edited                 { return nil }
func (nobody) OnSettled(func(string))                         {}

// A Waits is the part of a run's record about the call that waits.
type Waits struct {
	Approval string `json:"approval_id"`
	Tool     string `json:"tool"`
	Why      string `json:"why"`
	Expires  int64  `json:"expires_at"` // Unix ms
}

// event is the data of task.waiting about the call.
func (w *Waits) event(id string) *parked.WaitingEvent {
	if w == nil {
		return nil
	}
	return &parked.WaitingEvent{Task: protocol.TaskID(id), Approval: w.Approval, Tool: w.Tool, Why: w.Why, Expires: w.Expires}
}

// A waitEntry records that a turn waits at a call that needs an approval. It has
// everything to continue the turn, and is durable before the approval is opened.
type waitEntry struct {
	N      int              `json:"n"`             // the turn
	Call   string           `json:"call"`          // id of the waiting call
	Key    string           `json:"key,omitempty"` // its idempotency key
	Done   []doneEntry      `json:"done,omitempty"`
	Asks   *approval.Record `json:"asks"`             // draft of the approval
	Counts map[string]int   `json:"counts,omitempty"` // see effects.count
	Calls  int              `json:"calls,omitempty"`  // since the last input of the user, before the turn
	Rounds int              `json:"rounds,omitempty"` // since the last input of the user
	Fails  loop.Failures    `json:"fails,omitzero"`   // in the node, before the turn
}

// A doneEntry is a call that was answered before the waiting one.
type doneEntry struct {
	ToolRun
	Message  chat.Message `json:"message"`
	Code     fault.Code   `json:"code,omitempty"`
	Question *Question    `json:"question,omitempty"`
	Fatal    bool         `json:"fatal,omitempty"`
}

// handled are the calls that were answered before.
func (w *waitEntry) handled() []handled {
	list := make([]handled, len(w.Done))
	for i, d := range w.Done {
		list[i] = handled{ToolRun: d.ToolRun, message: d.Message, code: d.Code, question: d.Question, fatal: d.Fatal}
	}
	return list
}

// runs returns the calls that were answered before, for callers.
func (w *waitEntry) runs() []ToolRun {
	list := make([]ToolRun, len(w.Done))
	for i, d := range w.Done {
		list[i] = d.ToolRun
	}
	return list
}

// stop returns the stop of a waiting run.
func (w *waitEntry) stop() Stop {
	return Stop{Phase: WaitingApproval, waits: &parking{asks: w.Asks, release: func() {}}}
}

// A parking is an approval that is about to be opened. Its place is reserved until
// release.
type parking struct {
	asks    *approval.Record
	release func()
}

func (p *parking) waits() *Waits {
	if p == nil {
		return nil
	}
	return &Waits{Approval: p.asks.ID, Tool: p.asks.Tool, Why: p.asks.Why, Expires: p.asks.Expires}
}

// A hold is a call that needs an approval, with its question.
type hold struct {
	call string // id of the call
	key  string
	asks *tools.Question
}

// park stops the run at a call that needs an approval. If there is no place for the
// approval, it returns the refusal of the call.
func (e *engine) park(h *hold, done []handled) (refused, err error) {
	asks, ok := h.asks.Draft.(*approval.Record)
	if !ok {
		return protocol.Errorf(protocol.Internal, "the question has no draft"), nil
	}
	release, refused := e.approvals.Reserve(asks)
	if refused != nil {
		return refused, nil
	}
	w := &waitEntry{
		N: e.turns, Call: h.call, Key: h.key, Asks: asks, Counts: e.hands.counts(), Calls: e.calls, Rounds: e.rounds, Fails: e.fails,
	}
	for _, d := range done {
		w.Done = append(w.Done, doneEntry{d.ToolRun, d.message, d.code, d.question, d.fatal})
	}
	if err := e.diary.waits(w); err != nil {
		release()
		return nil, err
	}
	e.stop = &Stop{Phase: WaitingApproval, waits: &parking{asks, release}}
	return nil, nil
}

// takeUp continues the turn of a call that waited: that call runs, or its refusal
// becomes its result, and then the other calls run.
func (e *engine) takeUp(ctx context.Context, w *waitEntry, last *toldTurn) error {
	if _, err := e.mayGoOn(ctx); err != nil {
		return err
	}
	e.at = e.where.stood(e.at, last.Node)
	e.prompt.agent, e.prompt.policy = e.where.agent(e.at)
	e.talk.setSystem(e.prompt.system())
	box, err := e.hands.goOnFrom(ctx, e.prompt.policy, w)
	if err != nil {
		return err
	}
	e.calls, e.rounds, e.fails = w.Calls, w.Rounds, w.Fails
	answer := &chat.Answer{Segments: last.Assistant.Segments}
	e.text = answer.Text()
	again, err := e.act(ctx, box, answer.Calls(), w.handled())
	if err == nil && (e.stop == nil || e.stop.waits == nil) {
		e.withdraw(w.Asks.ID, "the call was not made") // no effect on a used approval
	}
	if err != nil || !again {
		return err
	}
	return e.drive(ctx)
}

// drive runs the loop for the remaining rounds.
func (e *engine) drive(ctx context.Context) error {
	left := e.limits.Rounds
	if left > 0 {
		if left -= e.rounds; left <= 0 {
			return loop.ErrRounds
		}
	}
	return loop.Drive(ctx, e, left)
}

// goOnFrom implements [hands].
func (k *toolkit) goOnFrom(ctx context.Context, policy Policy, w *waitEntry) (*tools.Toolbox, error) {
	k.waited = w
	k.effects.count = make(map[string]int)
	maps.Copy(k.effects.count, w.Counts)
	for {
		box, err := k.offer(ctx, policy)
		if err != nil {
			return nil, err
		}
		if _, ok := box.Find(w.Asks.Tool); ok || k.young == nil || !k.young() {
			return box, nil
		}
		if err := k.pause(ctx, comebackPause); err != nil { // tools of other servers are unknown until the servers are connected again
			return nil, context.Cause(ctx)
		}
	}
}

// counts implements [hands].
func (k *toolkit) counts() map[string]int { return maps.Clone(k.effects.count) }

// refuse implements [hands].
func (k *toolkit) refuse(call string, why error) {
	if k.barred == nil {
		k.barred = make(map[string]error)
	}
	k.barred[call] = why
}

// waitsFor reports whether a call is the one that waited.
func (k *toolkit) waitsFor(c *chat.ToolCall) bool { return k.waited != nil && k.waited.Call == c.ID }

// withApproval sets the approval of a call that waited in its environment, and returns
// the call with the change of its deciders.
func (k *toolkit) withApproval(c *chat.ToolCall, env *tools.Environment) (*chat.ToolCall, *approval.Edited) {
	if !k.waitsFor(c) {
		return c, nil
	}
	env.Approval = k.waited.Asks.ID
	edited := k.approvals.Edited(env.Approval)
	if edited == nil {
		return c, nil
	}
	next := *c
	next.Args, next.Raw = edited.Args, ""
	return &next, edited
}
