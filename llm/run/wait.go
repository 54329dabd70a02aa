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

// Approvals are the questions whether calls may be made. *approval.Service is
// them.
type Approvals interface {
	// Reserve takes a place for a question among those that wait, until release.
	Reserve(r *approval.Record) (release func(), err error)
	// Open asks a question, once.
	Open(ctx context.Context, r *approval.Record) error
	// Withdraw takes a question back that is not over.
	Withdraw(ctx context.Context, id, why string) error
	// Known reports whether there is such a question, and whether it needs no
	// decision any more.
	Known(id string) (known, settled bool)
	// Edited is people's change of the call of a question, nil if there is none.
	Edited(id string) *approval.Edited
	// OnSettled has f called with a run when its question is settled. It must not
	// block.
	OnSettled(f func(run string))
}

// nobody is the Approvals of a service that has none: it refuses every question.
type nobody struct{}

func (nobody) Reserve(*approval.Record) (func(), error) {
	return nil, protocol.Errorf(protocol.PermissionDenied, "nobody can be asked here")
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

// event is the event about it for callers.
func (w *Waits) event(id string) *parked.WaitingEvent {
	if w == nil {
		return nil
	}
	return &parked.WaitingEvent{Task: protocol.TaskID(id), Approval: w.Approval, Tool: w.Tool, Why: w.Why, Expires: w.Expires}
}

// A waitEntry says that a turn stands at a call that needs consent. It has
// everything that is needed to go on with the turn, and is on disk before anybody is
// asked.
type waitEntry struct {
	N      int              `json:"n"`             // the turn
	Call   string           `json:"call"`          // that waits, by its id
	Key    string           `json:"key,omitempty"` // by which it is made once
	Done   []doneEntry      `json:"done,omitempty"`
	Asks   *approval.Record `json:"asks"`             // the question
	Counts map[string]int   `json:"counts,omitempty"` // of the effects so far, see [effects]
	Calls  int              `json:"calls,omitempty"`  // before the turn, since the user said something
	Rounds int              `json:"rounds,omitempty"` // so far, the same
	Fails  loop.Failures    `json:"fails,omitzero"`   // in the node, before the turn
}

// A doneEntry is a call that was answered before the one that waits.
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

// runs are the same as callers see them.
func (w *waitEntry) runs() []ToolRun {
	list := make([]ToolRun, len(w.Done))
	for i, d := range w.Done {
		list[i] = d.ToolRun
	}
	return list
}

// stop is the stop of a run that waits.
func (w *waitEntry) stop() Stop {
	return Stop{Phase: WaitingApproval, waits: &parking{asks: w.Asks, release: func() {}}}
}

// A parking is a question that is about to be asked. It has its place until
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

// A hold is a call that waits for consent, as the hands have it.
type hold struct {
	call string // by its id
	key  string
	asks *tools.Question
}

// park stops the run at a call that needs an approval. A question that finds no place is
// refused, with the reason.
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

// takeUp goes on with the turn of a call that waited: that call is made, or its
// refusal told, and then the others.
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
		e.withdraw(w.Asks.ID, "the call was not made") // if it was, that is over
	}
	if err != nil || !again {
		return err
	}
	return e.drive(ctx)
}

// drive asks the model as often as it still may be asked.
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
		if err := k.pause(ctx, comebackPause); err != nil { // tools of other servers are known only when these are connected again
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

// withApproval is a call that waited, by its approval: as people may have changed
// it, and in its environment.
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
