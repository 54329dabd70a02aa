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
	"github.com/aibridge/aibridge/internal/records"
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
	asked  string // the arguments of the last ring
	unsure bool   // a ring was claimed by a process that has died
}

// A process is one life of a bridge, until it is killed.
type process struct {
	mu    sync.Mutex
	steps int    // so far
	dies  int    // the step at which it is killed, 0 for none
	at    string // the first step of this name kills it, too
	after bool
	dead  chan struct{}
	name  string // of the step at which it died
}

// step is a moment at which the process may be killed. It reports whether the
// step is done, and whether anybody is there to hear of it.
func (p *process) step(name string) (done, alive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		return false, false
	default:
	}
	if p.steps++; p.steps == p.dies || name == p.at {
		p.name = name
		close(p.dead)
		return p.after, false
	}
	return true, true
}

var errKilled = protocol.Errorf(protocol.StoreUnavailable, "the process is dead")

// A table is one as a process that may be killed has it.
type table[T any] struct {
	*recordstest.Memory[T]
	name string
	p    *process
}

func (t table[T]) write(what string, do func() (uint64, error)) (revision uint64, err error) {
	done, alive := t.p.step(what + " " + t.name)
	if done {
		revision, err = do()
	}
	if !alive {
		return 0, errKilled
	}
	return revision, err
}

func (t table[T]) Create(ctx context.Context, key string, v *T) (uint64, error) {
	return t.write("create", func() (uint64, error) { return t.Memory.Create(ctx, key, v) })
}

func (t table[T]) Update(ctx context.Context, key string, v *T, expect uint64) (uint64, error) {
	return t.write("update", func() (uint64, error) { return t.Memory.Update(ctx, key, v, expect) })
}

func (t table[T]) Delete(ctx context.Context, key string, expect uint64) error {
	_, err := t.write("delete", func() (uint64, error) { return 0, t.Memory.Delete(ctx, key, expect) })
	return err
}

var _ records.Table[int] = table[int]{}

// A world is what outlives bridges, and the present one.
type world struct {
	t         testing.TB
	tasks     *recordstest.Memory[parked.Record]
	approvals *recordstest.Memory[approval.Record]
	bell      *bell
	grants    *grants
	rules     rules
	declared  atomic.Pointer[string] // what the bell says of itself
	roster    []string
	away      atomic.Int32 // how often the bell is looked for until it is back
	now       func() time.Time
	change    func(*parked.Options, *approval.Options)

	process *process
	desk    *approval.Service
	parked  *parked.Service
	runner  *loop.Runner
	events  chan string
	stop    func()
}

// rules are what policy says of tools.
type rules struct {
	mu     sync.Mutex
	forbid bool
}

func (r *rules) MayRun(context.Context, *tools.Execution) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.forbid
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
	w.begin(&process{})
	t.Cleanup(func() { w.stop() })
	return w
}

// begin starts a bridge on what earlier ones have left.
func (w *world) begin(p *process) {
	w.process, p.dead = p, make(chan struct{})
	w.events = make(chan string, 1024)
	events := w.events
	ao := approval.Options{
		Approvals: table[approval.Record]{w.approvals, "approval", p}, Policy: &w.rules, Now: func() time.Time { return w.now() },
		MayDecide: func(who *protocol.Principal, space protocol.SpaceID, _ string) bool { return who.Manages(space) },
	}
	po := parked.Options{
		Tasks: table[parked.Record]{w.tasks, "task", p}, Grants: w.grants, Sealer: plain{}, Now: func() time.Time { return w.now() },
		Publish: func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
			select {
			case events <- e.Name:
			default:
			}
		},
	}
	w.change(&po, &ao)
	w.desk = approval.New(ao)
	po.Approvals = w.desk
	w.parked = parked.New(po)
	w.runner = loop.New(loop.Options{Model: talker{p}, Tools: tools.New(catalogue{w}), Executor: &tools.Executor{Gate: w.desk.Gate, Attempts: 1}})
	w.parked.Handle("llm.query", func(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
		var state loop.State
		if err := job.Read(&state); err != nil {
			return nil, err
		}
		turn, err := loop.Continue(ctx, w.runner, job, &state, nil)
		if err != nil {
			return nil, err
		}
		return json.Marshal(turn.Answer.Text())
	})
	w.desk.OnEdit(func(ctx context.Context, r *approval.Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
		who, err := w.parked.Principal(protocol.TaskID(r.Task))
		if err != nil {
			return nil, nil, err
		}
		env := tools.Environment{Principal: who, TraceID: r.TraceID, Task: r.Task, Parks: true}
		box, err := tools.New(catalogue{w}).Select(ctx, env, []string{r.Tool})
		if err != nil {
			return nil, nil, err
		}
		return (&tools.Executor{}).Preview(ctx, box, env, &chat.ToolCall{ID: "c", Name: r.Tool, Args: args})
	})
	if err := w.desk.Recover(context.Background()); err != nil && !errors.Is(err, errKilled) {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.desk.Run(ctx) })
	running.Go(func() { _ = w.parked.Run(ctx) })
	w.stop = func() {
		cancel()
		_ = w.parked.Close(context.Background())
		running.Wait()
		w.tasks.Restart()
		w.approvals.Restart()
	}
}

// restart ends the bridge, as dead as it may be, and begins another one.
func (w *world) restart() {
	w.stop()
	w.begin(&process{})
}

// redeclare has the bell say something else of itself.
func (w *world) redeclare(text string) { w.declared.Store(&text) }

// catalogue is the bell as a tool.
type catalogue struct{ w *world }

func (c catalogue) Tools(context.Context, tools.Environment) ([]*tools.Tool, error) {
	w := c.w
	if w.away.Add(-1) >= 0 {
		return nil, nil
	}
	t := &tools.Tool{
		Declaration: tools.Declaration{
			Name: "bell.ring", Description: *w.declared.Load(), Risk: tools.RiskAsk, RiskWords: "high", Effect: commands.Act, Source: "skill", Schema: json.RawMessage(`{"type":"object"}`),
		},
		Run: w.ring,
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
func (w *world) ring(ctx context.Context, x *tools.Execution) (tools.Output, error) {
	p := w.process
	key := tools.KeyOf(ctx)
	w.bell.mu.Lock()
	defer w.bell.mu.Unlock()
	if key == "" {
		w.t.Error("a call has no key")
	}
	if w.bell.claims[key] {
		return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was taken up before")
	}
	if done, alive := p.step("claim"); !alive {
		w.bell.claims[key] = done
		w.bell.unsure = done
		return tools.Output{}, errKilled
	}
	w.bell.claims[key] = true
	done, alive := p.step("act")
	if done {
		w.bell.rings++
		w.bell.asked = string(x.ArgumentsJSON)
	}
	if !alive {
		w.bell.unsure = true
		return tools.Output{}, errKilled
	}
	return tools.Output{Text: cmp.Or(w.bell.says, "rung")}, nil
}

// A talker is a model that rings the bell and repeats what it heard.
type talker struct{ p *process }

func (m talker) Ask(ctx context.Context, q model.Question, _ func(chat.Event) error) (*model.Reply, error) {
	if _, alive := m.p.step("model"); !alive {
		return nil, errKilled
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
func (w *world) pending() *approval.Approval {
	list, err := w.desk.List(context.Background(), &commands.Call{Principal: alice}, approval.ListParams{State: approval.Pending})
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
