package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// try puts a text on trial.
func try(t testing.TB, e *Engine, name, text string) {
	t.Helper()
	if err := e.set(Source{Trial, name}, text, "test", e.opts.Now()); err != nil {
		t.Fatal(err)
	}
}

// found are the findings of a trial as texts.
func found(t testing.TB, e *Engine) (list []string) {
	t.Helper()
	for _, f := range e.trial.Load().report.findings() {
		list = append(list, fmt.Sprintf("%s %s %s by %s ×%d", f.Outcome, f.Action, f.Kind, f.Policy, f.Count))
	}
	return list
}

const nobodyInvokes = `@id("night") forbid (principal, action == Action::"skill:invoke", resource == Skill::"door");`

func TestATrialDecidesNothingAndTellsWhatItWould(t *testing.T) {
	e := newEngine(t)
	put(t, e, "own", `@id("no") forbid (principal in Role::"operator", action == Action::"agent:list", resource);`)
	try(t, e, "doors", nobodyInvokes)
	for range 3 {
		for _, who := range []*protocol.Principal{operator, router, operator} {
			if !allowed(e, who, "skill:invoke", "skill", "door") {
				t.Fatalf("%s is refused by a trial", who.ID)
			}
		}
	}
	if !allowed(e, operator, "skill:invoke", "skill", "lamp") {
		t.Fatal("refused")
	}
	try(t, e, "own", `permit (principal in Role::"operator", action == Action::"agent:list", resource);`)
	if allowed(e, operator, "agent:list", "", "") {
		t.Fatal("what is forbidden is permitted by a trial")
	}
	want := []string{"allow agent:list operator by trial:own ×1"}
	if got := found(t, e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q: what was found by other texts is forgotten", got, want)
	}
	e.remove(Source{Trial, "own"})
	for range 3 {
		allowed(e, operator, "skill:invoke", "skill", "door")
	}
	allowed(e, router, "skill:invoke", "skill", "door")
	want = []string{"refuse skill:invoke operator by trial:doors/night ×3", "refuse skill:invoke agent by trial:doors/night ×1"}
	if got := found(t, e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
	e.remove(Source{Trial, "doors"})
	if e.trial.Load() != nil {
		t.Error("the trial goes on")
	}
}

func TestATextOnTrialTakesThePlaceOfThatOfItsName(t *testing.T) {
	e := newEngine(t)
	put(t, e, "doors", nobodyInvokes)
	try(t, e, "doors", `@id("night") forbid (principal, action == Action::"skill:invoke", resource == Skill::"safe");`)
	if allowed(e, operator, "skill:invoke", "skill", "door") || !allowed(e, operator, "skill:invoke", "skill", "safe") {
		t.Fatal("the trial decides")
	}
	want := []string{"allow skill:invoke operator by doors/night ×1", "refuse skill:invoke operator by trial:doors/night ×1"}
	if got := found(t, e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestWhatATrialWouldAskAbout(t *testing.T) {
	e := newEngine(t)
	try(t, e, "doors", `forbid (principal, action == Action::"tool:unattended", resource) when { resource.id like "door.*" };
		forbid (principal, action == Action::"tool:run", resource) when { resource.id == "safe.open" };`)
	allowed(e, operator, "tool:unattended", "tool", "door.open")
	allowed(e, operator, "tool:run", "tool", "safe.open")
	want := []string{"refuse tool:run operator by trial:doors/2 ×1", "ask tool:unattended operator by trial:doors/1 ×1"}
	if got := found(t, e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestDecisionsThatATrialDiffersFromAreAskedForEveryTime(t *testing.T) {
	e := newEngine(t)
	q := &Query{Who: operator, Action: "skill:invoke", Type: "skill", ID: "door"}
	if d := e.Decide(q); d.Until.IsZero() || d.Tried {
		t.Errorf("without a trial %+v", d)
	}
	try(t, e, "doors", nobodyInvokes)
	if d := e.Decide(q); !d.Until.IsZero() || !d.Tried {
		t.Errorf("where it differs %+v", d)
	}
	q.ID = "lamp"
	if d := e.Decide(q); d.Until.IsZero() || d.Tried {
		t.Errorf("where it agrees %+v", d)
	}
	try(t, e, "doors", `forbid (principal, action == Action::"skill:invoke", resource) when { context.time > datetime("2001-01-01") };`)
	if d := e.Decide(q); !d.Until.IsZero() || d.Passing || !d.Allowed {
		t.Errorf("where it looks at the time %+v", d)
	}
}

func TestAReportIsBounded(t *testing.T) {
	e := newEngine(t)
	try(t, e, "doors", nobodyInvokes)
	for i := range 20 {
		allowed(e, someone(protocol.KindOperator, fmt.Sprint("o", i), protocol.RoleOperator), "skill:invoke", "skill", "door")
	}
	r := e.trial.Load().report
	if f := r.findings(); len(f) != 1 || f[0].Count != 20 || len(f[0].Examples) != maxExamples {
		t.Errorf("found %+v", f)
	}
	w := &world{query: &Query{Who: operator, ID: strings.Repeat("x", 1000)}}
	for i := range maxDifferences + 10 {
		r.add(WouldRefuse, fmt.Sprint("p", i), w, time.Now())
	}
	if n, more := len(r.findings()), r.others.count.Load(); n != maxDifferences || more != 11 {
		t.Errorf("%d findings and %d more", n, more)
	}
	if got := r.findings()[5].Examples[0].Resource; len(got) != maxExampleText {
		t.Errorf("an id of %d bytes is kept", len(got))
	}
}

func TestATrialIsPutAndPromoted(t *testing.T) {
	e := newEngine(t)
	s := NewService(ServiceOptions{Engine: e, Records: recordstest.New[Record](), Trials: recordstest.New[Record]()})
	call := &commands.Call{Principal: root}
	if _, err := s.Report(t.Context(), call, ReportParams{}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("a report without a trial: %v", err)
	}
	made, err := s.Put(t.Context(), call, PutParams{Name: "doors", Policy: nobodyInvokes, Mode: Observe})
	if err != nil || made.Name != "trial:doors" {
		t.Fatalf("%+v, %v", made, err)
	}
	if !allowed(e, operator, "skill:invoke", "skill", "door") {
		t.Fatal("it decides")
	}
	report, err := s.Report(t.Context(), call, ReportParams{})
	if err != nil || len(report.Findings) != 1 || fmt.Sprint(report.Trials) != "[trial:doors]" || report.Judged != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if x, err := s.Explain(t.Context(), call, ExplainParams{Action: "skill:invoke", Resource: &On{Type: "skill", ID: "door"}, Trial: true}); err != nil || x.Decision != "deny" {
		t.Errorf("explained by the trial: %+v, %v", x, err)
	}
	if got, err := s.Get(t.Context(), call, NameParams{"trial:doors"}); err != nil || got.Revision != made.Revision || got.From != Trial {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Promote(t.Context(), call, PromoteParams{Name: "doors", Revision: made.Revision + 1}); protocol.CodeOf(err) != protocol.RevisionConflict {
		t.Errorf("promoted what was not observed: %v", err)
	}
	if _, err := s.Promote(t.Context(), call, PromoteParams{Name: "trial:doors", Revision: made.Revision}); err != nil {
		t.Fatal(err)
	}
	if allowed(e, operator, "skill:invoke", "skill", "door") || e.trial.Load() != nil {
		t.Error("it is not in force, or still on trial")
	}
	if _, err := s.Put(t.Context(), call, PutParams{Name: "doors", Policy: nobodyInvokes, Mode: Observe}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), call, NameParams{"trial:doors"}); err != nil || e.trial.Load() != nil {
		t.Errorf("the trial does not end: %v", err)
	}
	if _, err := s.Get(context.Background(), call, NameParams{"doors"}); err != nil {
		t.Errorf("with the trial went what is in force: %v", err)
	}
}

func BenchmarkDecideKeptOnTrial(b *testing.B) {
	for name, text := range map[string]string{
		"agrees":  `forbid (principal, action == Action::"skill:invoke", resource == Skill::"other");`,
		"differs": `forbid (principal, action == Action::"skill:invoke", resource == Skill::"s");`,
	} {
		b.Run(name, func(b *testing.B) {
			e := fifty(b)
			try(b, e, "tried", text)
			q := &Query{Who: caller, Action: "skill:invoke", Type: "skill", ID: "s", Door: "mqtt", SenderID: "router"}
			b.ReportAllocs()
			for b.Loop() {
				if !e.Decide(q).Allowed {
					b.Fatal("refused")
				}
			}
		})
	}
}
