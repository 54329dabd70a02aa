package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

var (
	dora = &protocol.Principal{Kind: protocol.KindOperator, ID: "dora", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	emil = &protocol.Principal{Kind: protocol.KindOperator, ID: "emil", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
)

// A tower has a bell that people have to agree to. It and the tables outlive the
// bridges of a test, each of which is a process that may be killed.
type tower struct {
	*world
	t         testing.TB
	approvals *recordstest.Memory[approval.Record]
	runs      *recordstest.Memory[Record]
	process   *recordstest.Process
	desk      *approval.Service
	grants    *authority
	rules     []approval.Rule
	script    []*chat.Answer // the model's wishes, before it repeats its input

	mu       sync.Mutex
	claims   map[string]bool
	rings    []string // the arguments of each
	unsure   bool     // a ring was claimed by a process that has died
	declared string
	gone     bool
}

func newTower(t testing.TB, change ...func(*tower)) *tower {
	w := &tower{
		t: t, approvals: recordstest.New[approval.Record](), claims: make(map[string]bool), declared: "Rings the bell.", grants: &authority{revoked: make(map[string]bool)},
		script: []*chat.Answer{calls("bell.ring", `{"at":"door"}`)},
	}
	for _, f := range change {
		f(w)
	}
	w.begin(&recordstest.Process{})
	return w
}

// begin starts a bridge on the remains of earlier ones.
func (w *tower) begin(p *recordstest.Process) {
	w.process = p
	if w.world == nil {
		w.world = newWorld(w.t, nil, w.options)
		w.runs = w.opts.Runs.(recordstest.Mortal[Record]).Memory
	} else {
		w.world.stop()
		w.runs.Restart()
		w.approvals.Restart()
		w.options(&w.opts)
		w.Service = New(w.opts)
	}
	if err := w.desk.Recover(context.Background()); err != nil && !errors.Is(err, recordstest.ErrKilled) {
		w.t.Fatal(err)
	}
	w.Recover(context.Background())
}

// options are those of a bridge.
func (w *tower) options(o *Options) {
	p := w.process
	if w.runs == nil {
		o.Runs = recordstest.Mortal[Record]{Memory: recordstest.New[Record](), Name: "run", Process: p}
	} else {
		o.Runs = recordstest.Mortal[Record]{Memory: w.runs, Name: "run", Process: p}
	}
	w.desk = approval.New(approval.Options{
		Approvals: recordstest.Mortal[approval.Record]{Memory: w.approvals, Name: "approval", Process: p}, Rules: w.rules,
		MayDecide: func(who *protocol.Principal, space protocol.SpaceID, _ string) bool { return who.Manages(space) },
	})
	o.Approvals = w.desk
	o.Executor = &tools.Executor{Gate: w.desk.Gate, Attempts: 1}
	o.Catalogue = tools.New(w)
	o.Asker = scripted(w.answer)
	o.Sealer = mortalSealer{p}
	o.Grants = w.grants
	w.desk.OnEdit(func(ctx context.Context, r *approval.Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
		who, err := w.Principal(r.Task)
		if err != nil {
			return nil, nil, err
		}
		env := tools.Environment{Principal: who, TraceID: r.TraceID, Task: r.Task, Parks: true}
		box, err := tools.New(w).Select(ctx, env, []string{r.Tool})
		if err != nil {
			return nil, nil, err
		}
		return (&tools.Executor{}).Preview(ctx, box, env, &chat.ToolCall{ID: "c", Name: r.Tool, Args: args})
	})
}

// An authority grants everything, but to credentials that were revoked.
type authority struct {
	grant.Unlimited
	mu      sync.Mutex
	revoked map[string]bool
}

func (a *authority) revoke(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[id] = true
}

func (a *authority) Principal(of grant.Grant) (*protocol.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.revoked[of.ID] {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "the key was revoked")
	}
	return grant.Original(of), nil
}

// A mortalSealer seals nothing. Every entry of a diary passes it before it is
// written, which is a step.
type mortalSealer struct{ p *recordstest.Process }

func (s mortalSealer) Seal(plain []byte, purpose string) ([]byte, error) {
	if _, alive := s.p.Step("diary"); !alive {
		return nil, recordstest.ErrKilled
	}
	return bound{}.Seal(plain, purpose)
}

func (mortalSealer) Open(sealed []byte, purpose string) ([]byte, error) {
	return bound{}.Open(sealed, purpose)
}

// Tools implements [tools.Source]: the bell, and a look at the clock beside it.
func (w *tower) Tools(context.Context, tools.Environment) ([]*tools.Tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, nil
	}
	return []*tools.Tool{{
		Declaration: tools.Declaration{Name: "bell.ring", Description: w.declared, Risk: tools.RiskAsk, RiskWords: "high", Effect: commands.Act, Source: "skill", Schema: json.RawMessage(`{"type":"object"}`)},
		Run:         w.ring,
	}, {
		Declaration: tools.Declaration{Name: "clock.read", Effect: commands.Read, Source: "skill", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *tools.Execution) (tools.Output, error) {
			return tools.Output{Content: json.RawMessage(`"noon"`)}, nil
		},
	}}, nil
}

// Revision implements [tools.Source].
func (*tower) Revision() string { return "" }

// ring is a call as the router makes it: claimed under its key, then made.
func (w *tower) ring(ctx context.Context, x *tools.Execution) (tools.Output, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := tools.KeyOf(ctx)
	if key == "" {
		w.t.Error("a call has no key")
	}
	if w.claims[key] {
		return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was taken up before")
	}
	done, alive := w.process.Step("claim")
	w.claims[key] = done
	if !alive {
		w.unsure = done
		return tools.Output{}, recordstest.ErrKilled
	}
	if done, alive = w.process.Step("act"); done {
		w.rings = append(w.rings, string(x.ArgumentsJSON))
	}
	if !alive {
		w.unsure = true
		return tools.Output{}, recordstest.ErrKilled
	}
	return tools.Output{Content: json.RawMessage(`"rung"`)}, nil
}

// answer is a model that follows the script, one answer for each that it has had,
// and then repeats the last message.
func (w *tower) answer(_ context.Context, q model.Question) (*chat.Answer, error) {
	if _, alive := w.process.Step("model"); !alive {
		return nil, recordstest.ErrKilled
	}
	had, heard := 0, ""
	for _, m := range q.Request.Messages {
		said := chat.Answer{Segments: m.Segments}
		switch m.Role {
		case chat.Assistant:
			had++
		case chat.ToolRole:
			heard = said.Text()
		}
	}
	if had >= len(w.script) {
		return says("I heard " + heard), nil
	}
	a := *w.script[had]
	for i, c := range a.Calls() {
		c.ID = fmt.Sprintf("call_%d_%d", had, i)
	}
	return &a, nil
}

// pending is the approval that waits, nil if there is none.
func (w *tower) pending() *approval.Approval {
	list, err := w.desk.List(context.Background(), &commands.Call{Principal: dora}, approval.ListParams{State: approval.Pending})
	if err != nil || len(list.Approvals) == 0 {
		return nil
	}
	return &list.Approvals[0]
}

func (w *tower) asked() approval.Approval {
	w.t.Helper()
	var a *approval.Approval
	eventually.Holds(w.t, "somebody is asked", func() bool { a = w.pending(); return a != nil })
	return *a
}

func (w *tower) decide(a approval.Approval, decision, reason string) error {
	_, err := w.desk.Decide(context.Background(), &commands.Call{Principal: dora}, approval.DecideParams{ID: a.ID, Nonce: a.Nonce, Decision: decision, Reason: reason})
	return err
}

// record is the only run, nil if there is none.
func (w *tower) record() *Record {
	for _, r := range w.runs.All() {
		return r
	}
	return nil
}

// waits waits until the run waits for somebody to agree.
func (w *tower) waits(id string) StatusResult {
	w.t.Helper()
	var got StatusResult
	eventually.Holds(w.t, "the run waits for an approval", func() bool {
		var err error
		if got, err = w.Status(context.Background(), callOf(alice), StatusParams{Run: id}); err != nil {
			w.t.Fatal(err)
		}
		return got.Phase == WaitingApproval && w.find(id) == nil
	})
	return got
}

// ends waits until the run waits for nobody but its user.
func (w *tower) ends(id string) StatusResult {
	w.t.Helper()
	var got StatusResult
	eventually.Holds(w.t, "the run is at rest", func() bool {
		var err error
		if got, err = w.Status(context.Background(), callOf(alice), StatusParams{Run: id}); err != nil {
			w.t.Fatal(err)
		}
		return got.Phase != Running && got.Phase != WaitingApproval && w.find(id) == nil
	})
	return got
}

func (w *tower) ringsSoFar() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.rings...)
}

// TestARunThatWaitsIsDoneOnceWhereverTheBridgeIsKilled kills the bridge at every
// step from the model's wish to the result that it hears, before the step and after
// it. The next bridge goes on.
func TestARunThatWaitsIsDoneOnceWhereverTheBridgeIsKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		steps := 0
		for dies := 1; ; dies++ {
			w := newTower(t)
			w.begin(&recordstest.Process{Dies: dies, After: after})
			if !w.untilItDies() {
				if len(w.rings) != 1 {
					t.Errorf("without a kill the bell is rung %d times", len(w.rings))
				}
				break
			}
			steps++
			_, at := w.process.Dead()
			t.Run(fmt.Sprintf("%d %s %v", dies, at, after), func(t *testing.T) { w.goesOn(t) })
		}
		if steps < 14 {
			t.Errorf("there were only %d steps to be killed at", steps)
		}
	}
}

// untilItDies has a run ring the bell, with an approval, and reports whether the
// bridge was killed meanwhile.
func (w *tower) untilItDies() bool {
	dead := func() bool { is, _ := w.process.Dead(); return is }
	r, err := w.Start(context.Background(), callOf(alice), StartParams{Input: ptr("Ring!")})
	if err != nil {
		return dead()
	}
	eventually.Holds(w.t, "somebody is asked, or the bridge is dead", func() bool { return dead() || w.pending() != nil })
	if a := w.pending(); a != nil {
		_ = w.decide(*a, "approve", "")
	}
	eventually.Holds(w.t, "the run is at rest, or the bridge is dead", func() bool {
		now, ok := w.Standing(r.ID)
		return dead() || ok && now.Phase == WaitingUser && w.find(r.ID) == nil
	})
	return dead()
}

// goesOn starts the next bridge, and sees how the story ends.
func (w *tower) goesOn(t *testing.T) {
	w.t = t
	w.begin(&recordstest.Process{})
	r := w.record()
	if r == nil { // the caller was told that it failed
		if len(w.rings) != 0 || w.approvals.Len() != 0 {
			t.Errorf("nothing is kept, and the bell was rung %d times with %d approvals", len(w.rings), w.approvals.Len())
		}
		return
	}
	rested := func() bool {
		now, _ := w.Standing(r.ID)
		return now.Phase == WaitingUser && w.find(r.ID) == nil
	}
	var a *approval.Approval
	eventually.Holds(t, "somebody is asked, or it is at rest", func() bool { a = w.pending(); return a != nil || rested() })
	if a != nil {
		if err := w.decide(*a, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	got := w.ends(r.ID)
	switch {
	case strings.Contains(got.Message, `"rung"`):
		if len(w.rings) != 1 {
			t.Errorf("it was rung %d times", len(w.rings))
		}
	case strings.Contains(got.Message, "TOOL_OUTCOME_UNKNOWN"):
		if len(w.rings) > 1 || len(w.rings) == 0 && !w.unsure {
			t.Errorf("the model heard that the outcome is unknown, and it was rung %d times", len(w.rings))
		}
	default:
		t.Errorf("it is %+v", got.Result)
	}
	for _, r := range w.approvals.All() {
		if r.State == approval.Pending || r.State == approval.Approved {
			t.Errorf("an approval is still %s", r.State)
		}
	}
}

func TestARunHearsWhatBecameOfItsQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(w *tower, a approval.Approval) error
		hears  []string
		rings  int
	}{
		"approved": {func(w *tower, a approval.Approval) error { return w.decide(a, "approve", "") }, []string{`"result":"rung"`}, 1},
		"denied": {func(w *tower, a approval.Approval) error { return w.decide(a, "deny", "they sleep") },
			[]string{"dora denied the call: they sleep", `"reason":"denied"`}, 0},
		"withdrawn": {func(w *tower, a approval.Approval) error {
			return w.desk.Withdraw(context.Background(), a.ID, "by the guard")
		},
			[]string{"was withdrawn: by the guard", `"reason":"withdrawn"`}, 0},
		"expired": {func(w *tower, a approval.Approval) error {
			r, revision, _ := w.approvals.Get(a.ID)
			over := *r
			over.State = approval.Expired
			_, err := w.approvals.Update(context.Background(), a.ID, &over, revision)
			return err
		}, []string{"nobody approved the call within", `"reason":"expired"`}, 0},
		"changed": {func(w *tower, a approval.Approval) error {
			_, err := w.desk.Edit(context.Background(), &commands.Call{Principal: emil}, approval.EditParams{ID: a.ID, Nonce: a.Nonce, Args: json.RawMessage(`{"at":"gate"}`), Reason: "the door is ajar"})
			if err != nil {
				return err
			}
			return w.decide(w.asked(), "approve", "")
		}, []string{`"result":"rung"`, `emil has changed the arguments to {\"at\":\"gate\"}: the door is ajar`}, 1},
		"without its tool": {func(w *tower, a approval.Approval) error {
			w.mu.Lock()
			w.gone = true
			w.mu.Unlock()
			w.recovered.Store(0) // it is no time since the start in which tools come back
			return w.decide(a, "approve", "")
		}, []string{"TOOL_NOT_AVAILABLE"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTower(t)
			id := w.start(StartParams{Input: ptr("Ring!")})
			got := w.waits(id)
			a := w.asked()
			if got.Waiting == nil || got.Waiting.Approval != a.ID || got.Waiting.Tool != "bell.ring" || string(got.Waiting.Task) != id || a.Task != id || got.Waiting.Expires != a.Expires {
				t.Fatalf("it waits for %+v, and %+v is asked", got.Waiting, a)
			}
			if err := test.settle(w, a); err != nil {
				t.Fatal(err)
			}
			end := w.ends(id)
			for _, part := range test.hears {
				if !strings.Contains(end.Message, part) {
					t.Errorf("the model heard %q, which has no %q", end.Message, part)
				}
			}
			if rings := w.ringsSoFar(); len(rings) != test.rings {
				t.Errorf("the bell was rung with %v", rings)
			}
			eventually.Holds(t, "the question is over", func() bool {
				r, _, _ := w.approvals.Get(a.ID)
				return r.State != approval.Pending && r.State != approval.Approved
			})
			if end.Waiting != nil {
				t.Errorf("it still says that it waits for %+v", end.Waiting)
			}
		})
	}
}

// The calls of an answer are made once each and in their order, wherever one of them
// waits.
func TestTheCallsAroundOneThatWaitsAreMadeOnce(t *testing.T) {
	w := newTower(t, func(w *tower) {
		w.script = []*chat.Answer{calls(
			"clock.read", `{}`,
			"bell.ring", `{"at":"door"}`,
			"clock.read", `{}`,
			"bell.ring", `{"at":"door"}`, // the same once more is another question
			"fs.write", `{"path":"@project/log.txt","content":"rung twice"}`)}
	})
	id := w.start(StartParams{Input: ptr("Ring twice!"), Project: "p"})
	for n := range 2 {
		w.waits(id)
		turn := w.turns(id)[0]
		if got, want := len(turn.ToolRuns), 1+2*n; got != want || turn.UIAfter == nil || turn.UIAfter.Phase != WaitingApproval {
			t.Errorf("at question %d, %d calls are shown, after which it is %+v", n, got, turn.UIAfter)
		}
		a := w.asked()
		if err := w.decide(a, "approve", ""); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "the approval is used", func() bool { r, _, _ := w.approvals.Get(a.ID); return r.State == approval.Used })
	}
	w.ends(id)
	turn := w.turns(id)[0]
	if len(turn.ToolRuns) != 5 || len(w.rings) != 2 {
		t.Fatalf("%d calls have ended, and the bell was rung with %v", len(turn.ToolRuns), w.rings)
	}
	for i, name := range []string{"clock.read", "bell.ring", "clock.read", "bell.ring", "fs.write"} {
		if r := turn.ToolRuns[i]; r.ToolName != name || codeIn(r.Result) != "" || r.Replayed {
			t.Errorf("call %d is %+v", i, r)
		}
	}
}

func TestAChangedCallOfARunIsAskedAboutAnew(t *testing.T) {
	w := newTower(t)
	id := w.start(StartParams{Input: ptr("Ring!")})
	w.waits(id)
	first := w.asked()
	w.mu.Lock()
	w.declared = "Rings the bell of the neighbours."
	w.mu.Unlock()
	if err := w.decide(first, "approve", ""); err != nil {
		t.Fatal(err)
	}
	var second *approval.Approval
	eventually.Holds(t, "somebody is asked anew", func() bool { second = w.pending(); return second != nil })
	if second.Replaces != first.ID || len(second.Changes) == 0 {
		t.Errorf("asked %+v", second)
	}
	if got := w.waits(id); got.Waiting.Approval != second.ID {
		t.Errorf("it waits for %+v", got.Waiting)
	}
	if err := w.decide(*second, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if end := w.ends(id); !strings.Contains(end.Message, "rung") || len(w.ringsSoFar()) != 1 {
		t.Errorf("it heard %q, and the bell was rung %d times", end.Message, len(w.ringsSoFar()))
	}
}

func TestARunThatWaitsCanBeCancelled(t *testing.T) {
	w := newTower(t)
	id := w.start(StartParams{Input: ptr("Ring!")})
	w.waits(id)
	a := w.asked()
	if _, err := w.Continue(t.Context(), callOf(alice), ContinueParams{Run: id, Input: ptr("now!")}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("going on with it without the approval: %v", err)
	}
	if r, err := w.Cancel(t.Context(), callOf(alice), CancelParams{Run: id}); err != nil || r.Phase != Failed || r.Waiting != nil {
		t.Fatalf("cancelled: %+v, %v", r, err)
	}
	if r, _, _ := w.approvals.Get(a.ID); r.State != approval.Withdrawn {
		t.Errorf("the question is %s", r.State)
	}
	w.begin(&recordstest.Process{})
	w.goOn(id, ptr("then do")) // the conversation begins before the call
	w.waits(id)
	if err := w.decide(w.asked(), "approve", ""); err != nil {
		t.Fatal(err)
	}
	if end := w.ends(id); len(w.ringsSoFar()) != 1 {
		t.Errorf("it heard %q, and the bell was rung %d times", end.Message, len(w.ringsSoFar()))
	}
}

func TestARunWhoseStarterLostItsRightDoesNotGoOn(t *testing.T) {
	w := newTower(t)
	id := w.start(StartParams{Input: ptr("Ring!")})
	w.waits(id)
	a := w.asked()
	w.grants.revoke("alice")
	if err := w.decide(a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	end := w.ends(id)
	if end.Phase != WaitingUser || end.Code != "ENGINE_INTERRUPTED" || len(w.ringsSoFar()) != 0 {
		t.Errorf("it is %+v, and the bell was rung %d times", end.Result, len(w.ringsSoFar()))
	}
	if r, _, _ := w.approvals.Get(a.ID); r.State != approval.Withdrawn {
		t.Errorf("the question is %s", r.State)
	}
}

// A run that waits keeps neither a place among those that run nor a goroutine, and
// is not forgotten before its question.
func TestARunThatWaitsTakesNoPlace(t *testing.T) {
	w := newTower(t)
	w.Service.opts.MaxRunning, w.Service.opts.Keep = 1, time.Nanosecond
	var ids []string
	for range 20 {
		id := w.start(StartParams{Input: ptr("Ring!")})
		w.waits(id)
		ids = append(ids, id)
	}
	w.tidy()
	for _, id := range ids {
		w.waits(id)
	}
	for a := w.pending(); a != nil; a = w.pending() {
		if err := w.decide(*a, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	w.Service.opts.Keep = time.Hour
	for _, id := range ids {
		if end := w.ends(id); !strings.Contains(end.Message, "rung") {
			t.Errorf("it heard %q", end.Message)
		}
	}
}
