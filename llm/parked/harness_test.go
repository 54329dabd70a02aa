package parked_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var (
	alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	bob   = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	dora  = &protocol.Principal{Kind: protocol.KindOperator, ID: "dora", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	carol = &protocol.Principal{Kind: protocol.KindOperator, ID: "carol", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
)

// plain seals nothing.
type plain struct{}

func (plain) Seal(text []byte, purpose string) ([]byte, error) {
	return append([]byte(purpose+"\n"), text...), nil
}

func (plain) Open(sealed []byte, purpose string) ([]byte, error) {
	if text, ok := bytesAfter(sealed, purpose+"\n"); ok {
		return text, nil
	}
	return nil, errors.New("sealed for something else")
}

func bytesAfter(text []byte, prefix string) ([]byte, bool) {
	if len(text) < len(prefix) || string(text[:len(prefix)]) != prefix {
		return nil, false
	}
	return text[len(prefix):], true
}

// grants are an authority whose credentials can be revoked.
type grants struct {
	grant.Unlimited
	mu      sync.Mutex
	revoked map[string]bool
}

func (g *grants) revoke(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked[id] = true
}

func (g *grants) Principal(of grant.Grant) (*protocol.Principal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revoked[of.ID] {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "the key was revoked")
	}
	return grant.Original(of), nil
}

// A bell is a device that outlives bridges. It knows which rings were asked for
// under which key, as the claims of the bridge do.
type bell struct {
	mu     sync.Mutex
	claims map[string]bool
	rings  int
	says   string // "rung" if empty
	during func() // the ring; nil does nothing
	asked  string // the arguments of the last ring
	unsure bool   // a ring was claimed by a process that has died
}

// A bridge is a process that takes up parked calls.
type bridge struct {
	process *recordstest.Process
	desk    *approval.Service
	parked  *parked.Service
	runner  *loop.Runner
	events  chan string
	elect   func() // has it go on with the tasks of all
	stop    func()
}

// A world is what outlives bridges, and the present one.
type world struct {
	*bridge
	t         testing.TB
	tasks     *recordstest.Memory[parked.Record]
	approvals *recordstest.Memory[approval.Record]
	bell      *bell
	grants    *grants
	rules     rules
	declared  atomic.Pointer[string] // what the bell says of itself
	roster    []string
	away      atomic.Int32 // how often the bell is looked for until it is back
	unstored  atomic.Int32 // how often a call is claimed in vain
	now       func() time.Time
	change    func(*parked.Options, *approval.Options)
}

// rules are the policies about tools.
type rules struct {
	mu      sync.Mutex
	forbid  bool
	judging func() // while a call is judged; nil does nothing
}

func (r *rules) MayRun(context.Context, *tools.Execution) bool {
	r.mu.Lock()
	forbid, judging := r.forbid, r.judging
	r.mu.Unlock()
	if judging != nil {
		judging()
	}
	return !forbid
}

// whileJudged has f called while calls are judged.
func (r *rules) whileJudged(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judging = f
}

func (r *rules) Unattended(context.Context, *tools.Execution) bool { return true }

func newWorld(t testing.TB, change ...func(*parked.Options, *approval.Options)) *world {
	w := &world{
		t: t, tasks: recordstest.New[parked.Record](), approvals: recordstest.New[approval.Record](), bell: &bell{claims: make(map[string]bool)},
		grants: &grants{revoked: make(map[string]bool)}, now: time.Now,
	}
	w.redeclare("Rings the bell.")
	w.change = func(p *parked.Options, a *approval.Options) {
		for _, f := range change {
			f(p, a)
		}
	}
	w.begin(&recordstest.Process{})
	t.Cleanup(func() { w.stop() })
	return w
}

// begin starts a bridge on what earlier ones have left.
func (w *world) begin(p *recordstest.Process) {
	b := w.another(p)
	if err := b.desk.Recover(context.Background()); err != nil && !errors.Is(err, recordstest.ErrKilled) {
		w.t.Fatal(err)
	}
	b.elect()
	stop := b.stop
	b.stop = func() {
		stop()
		w.tasks.Restart()
		w.approvals.Restart()
	}
	w.bridge = b
}

// another starts a bridge beside others. It takes nothing up until it is elected.
func (w *world) another(p *recordstest.Process) *bridge {
	b := &bridge{process: p, events: make(chan string, 1024)}
	ao := approval.Options{
		Approvals: recordstest.Mortal[approval.Record]{Memory: w.approvals, Name: "approval", Process: p}, Policy: &w.rules, Now: func() time.Time { return w.now() },
		MayDecide: func(who *protocol.Principal, space protocol.SpaceID, _ string) bool { return who.Manages(space) },
	}
	po := parked.Options{
		Tasks: recordstest.Mortal[parked.Record]{Memory: w.tasks, Name: "task", Process: p}, Grants: w.grants, Sealer: plain{}, Now: func() time.Time { return w.now() },
		Publish: func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
			select {
			case b.events <- e.Name:
			default:
			}
		},
	}
	w.change(&po, &ao)
	b.desk = approval.New(ao)
	po.Approvals = b.desk
	b.parked = parked.New(po)
	bells := catalogue{w, p}
	b.runner = loop.New(loop.Options{Model: talker{p}, Tools: tools.New(bells), Executor: &tools.Executor{Gate: b.desk.Gate, Attempts: 1}, Now: func() time.Time { return w.now() }})
	b.parked.Handle("llm.query", b.goesOnQuery)
	b.desk.OnEdit(func(ctx context.Context, r *approval.Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
		who, err := b.parked.Principal(protocol.TaskID(r.Task))
		if err != nil {
			return nil, nil, err
		}
		env := tools.Environment{Principal: who, TraceID: r.TraceID, Task: r.Task, Parks: true}
		box, err := tools.New(bells).Select(ctx, env, []string{r.Tool})
		if err != nil {
			return nil, nil, err
		}
		return (&tools.Executor{}).Preview(ctx, box, env, &chat.ToolCall{ID: "c", Name: r.Tool, Args: args})
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.desk.Run(ctx) })
	b.elect = func() { running.Go(func() { _ = b.parked.Run(ctx) }) }
	b.stop = func() {
		cancel()
		_ = b.parked.Close(context.Background())
		running.Wait()
	}
	return b
}

// goesOnQuery goes on with a parked conversation.
func (b *bridge) goesOnQuery(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
	var state loop.State
	if err := job.Read(&state); err != nil {
		return nil, err
	}
	turn, err := loop.Continue(ctx, b.runner, job, &state, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(turn.Answer.Text())
}

// restart ends the bridge, as dead as it may be, and begins another one.
func (w *world) restart() {
	w.stop()
	w.begin(&recordstest.Process{})
}

// redeclare has the bell say something else of itself.
func (w *world) redeclare(text string) { w.declared.Store(&text) }

// catalogue is the bell as a tool, as a process calls it.
type catalogue struct {
	w *world
	p *recordstest.Process
}

func (c catalogue) Tools(context.Context, tools.Environment) ([]*tools.Tool, error) {
	w := c.w
	if w.away.Add(-1) >= 0 {
		return nil, nil
	}
	t := &tools.Tool{
		Declaration: tools.Declaration{
			Name: "bell.ring", Description: *w.declared.Load(), Risk: tools.RiskAsk, RiskWords: "high", Effect: commands.Act, Source: "skill", Schema: json.RawMessage(`{"type":"object"}`),
		},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) { return w.ring(ctx, c.p, x) },
	}
	if len(w.roster) > 0 {
		t.Resolve = func(_ context.Context, x *tools.Execution) error {
			x.Roster = w.roster
			return nil
		}
	}
	return []*tools.Tool{t}, nil
}

func (catalogue) Revision() string { return "" }

// ring is a call as the router makes it: claimed under its key, then made.
func (w *world) ring(ctx context.Context, p *recordstest.Process, x *tools.Execution) (tools.Output, error) {
	key := tools.KeyOf(ctx)
	w.bell.mu.Lock()
	defer w.bell.mu.Unlock()
	if key == "" {
		w.t.Error("a call has no key")
	}
	if w.bell.claims[key] {
		return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was taken up before")
	}
	if w.unstored.Add(-1) >= 0 {
		return tools.Output{}, protocol.Errorf(protocol.StoreUnavailable, "the store does not answer")
	}
	if done, alive := p.Step("claim"); !alive {
		w.bell.claims[key] = done
		w.bell.unsure = done
		return tools.Output{}, recordstest.ErrKilled
	}
	w.bell.claims[key] = true
	done, alive := p.Step("act")
	if done {
		w.bell.rings++
		w.bell.asked = string(x.ArgumentsJSON)
	}
	if !alive {
		w.bell.unsure = true
		return tools.Output{}, recordstest.ErrKilled
	}
	if w.bell.during != nil {
		w.bell.during()
	}
	return tools.Output{Text: cmp.Or(w.bell.says, "rung")}, nil
}

// A talker is a model that rings the bell and repeats what it heard.
type talker struct{ p *recordstest.Process }

func (m talker) Ask(ctx context.Context, q model.Question, _ func(chat.Event) error) (*model.Reply, error) {
	if _, alive := m.p.Step("model"); !alive {
		return nil, recordstest.ErrKilled
	}
	last := q.Request.Messages[len(q.Request.Messages)-1]
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.EndTurn}}
	heard := chat.Answer{Segments: last.Segments}
	if last.Role == chat.ToolRole {
		a.Segments = []chat.Segment{{Type: chat.Text, Text: "I heard " + heard.Text()}}
	} else {
		a.Segments = []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "call_0", Name: "bell.ring", Args: json.RawMessage(`{"at":"door"}`)}}}
		a.Finish.Reason = chat.ToolUse
	}
	return &model.Reply{Answer: a, Model: "m", From: "provider"}, nil
}

// ask has somebody ask the model to ring.
func (w *world) ask(who *protocol.Principal) (*loop.Turn, *parked.Place, error) {
	call := &commands.Call{Principal: who, Command: "llm.query"}
	place := w.parked.Place(call, parked.Patience{})
	turn, err := w.runner.Converse(context.Background(), loop.Conversation{
		Question: model.Question{Principal: who, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "Ring!")}}},
		Tools:    []string{"bell.*"},
		Parking: loop.Parking{
			Park: func(ctx context.Context, q *tools.Question, s *loop.State) error { return place.Park(ctx, q, s) },
		},
	}, nil)
	return turn, place, err
}

// task is the only task, nil if there is none.
func (w *world) task() *parked.Record {
	for _, r := range w.tasks.All() {
		return r
	}
	return nil
}

// pending is the approval that waits, once there is one.
func (b *bridge) pending() *approval.Approval {
	list, err := b.desk.List(context.Background(), &commands.Call{Principal: alice}, approval.ListParams{State: approval.Pending})
	if err != nil || len(list.Approvals) == 0 {
		return nil
	}
	return &list.Approvals[0]
}

func (w *world) asked() approval.Approval {
	w.t.Helper()
	var a *approval.Approval
	eventually.Holds(w.t, "somebody is asked", func() bool { a = w.pending(); return a != nil })
	return *a
}

// shown is an approval as its deciders see it.
func (w *world) shown(id string) (approval.Approval, error) {
	return w.desk.Get(context.Background(), &commands.Call{Principal: alice}, approval.GetParams{ID: id})
}

func (w *world) decide(who *protocol.Principal, a approval.Approval, decision, reason string) error {
	_, err := w.desk.Decide(context.Background(), &commands.Call{Principal: who}, approval.DecideParams{ID: a.ID, Nonce: a.Nonce, Decision: decision, Reason: reason})
	return err
}

// ended waits until the task has ended, and returns what the model said then.
func (w *world) ended() string {
	w.t.Helper()
	var r *parked.Record
	eventually.Holds(w.t, "the task has ended", func() bool { r = w.task(); return r != nil && r.State.Over() })
	if r.Failure != nil {
		return fmt.Sprintf("%s: %s %s", r.State, string(r.Failure.Code), r.Failure.Message)
	}
	v, _ := w.parked.Get(r.ID)
	var said string
	if err := json.Unmarshal(v.Result, &said); err != nil {
		w.t.Fatal(err)
	}
	return said
}
