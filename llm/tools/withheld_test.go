package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// safe is a skill whose door no model may open.
func safe(opened *int) list {
	return list{
		&Tool{Declaration: Declaration{Name: "safe.open", Description: "Opens the safe", Risk: RiskDeny, RiskWords: "forbidden", Source: "skill"}, Run: func(context.Context, *Execution) (Output, error) {
			*opened++
			return Output{Text: "open"}, nil
		}},
		&Tool{Declaration: Declaration{Name: "safe.open2", Description: "Opens the other safe", Source: "skill"}, Run: says("open")},
		&Tool{Declaration: Declaration{Name: "SAFE.OPEN", Description: "Is not the safe", Source: "skill"}, Run: says("deceived")},
	}
}

func TestModelsAreNotOfferedWhatTheyMayNotCall(t *testing.T) {
	opened := 0
	c := New(safe(&opened))
	box, err := c.Select(t.Context(), Environment{}, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	if names := offeredIn(box); !slices.Equal(names, []string{"safe.open2"}) {
		t.Errorf("a model is offered %q", names)
	}
	if near := box.Nearest("safe.opn"); slices.Contains(near, "safe.open") {
		t.Errorf("a hint names %q", near)
	}
	if found := box.Relevant("opens the safe", 10); len(found) != 1 {
		t.Errorf("the relevant ones are %d", len(found))
	}
	r := new(Executor).Execute(t.Context(), box, Environment{}, []*chat.ToolCall{{ID: "1", Name: "safe.open", Args: json.RawMessage(`{}`)}})[0]
	if r.Text != `Error: the tool "safe.open" may not be called by a model: it declares the risk "forbidden" (code 2003)` || opened != 0 {
		t.Errorf("a call that was made up is answered with %s, and the safe was opened %d times", r.Text, opened)
	}
	_, err = c.Select(t.Context(), Environment{}, []string{"safe.open"})
	if protocol.CodeOf(err) != protocol.PermissionDenied || protocol.AsError(err).Message != `no model may call safe.open: it declares the risk "forbidden"; a person can, by skill.invoke` {
		t.Errorf("named for a model: %v", err)
	}
	if _, err = c.Select(t.Context(), Environment{}, []string{"safe.opem"}); protocol.AsError(err).Details["did_you_mean"] != "safe.open2" {
		t.Errorf("the hint for a model: %v", protocol.AsError(err).Details)
	}
}

// A ban is a law that forbids some names to one principal.
type ban struct {
	who      string
	names    []string
	revision int
	asked    int
}

func (l *ban) Forbids(env Environment, t *Tool) bool {
	l.asked++
	return env.Principal.ID == l.who && slices.Contains(l.names, t.Name)
}

func (l *ban) Standing(env Environment) any { return [2]string{env.Principal.ID, l.Revision()} }

func (l *ban) Revision() string { return strconv.Itoa(l.revision) }

func TestModelsAreNotOfferedWhatTheLawForbids(t *testing.T) {
	law := &ban{who: "otto", names: []string{"light.off", "light.gone"}}
	skill := func(name string) *Tool {
		return &Tool{Declaration: Declaration{Name: name, Description: "Switches the light", Source: "skill"}, Run: says("done")}
	}
	c := New(list{skill("light.on"), skill("light.off")}).Under(law)
	otto, olga := Environment{Principal: &protocol.Principal{ID: "otto"}}, Environment{Principal: &protocol.Principal{ID: "olga"}}
	sees := func(env Environment, want ...string) *Toolbox {
		t.Helper()
		box, err := c.Select(t.Context(), env, []string{"*"})
		if err != nil {
			t.Fatal(err)
		}
		if names := offeredIn(box); !slices.Equal(names, want) {
			t.Errorf("%s is offered %q, want %q", env.Principal.ID, names, want)
		}
		return box
	}
	for range 3 {
		sees(otto, "light.on")
		sees(olga, "light.off", "light.on")
	}
	if law.asked != 4 {
		t.Errorf("the law was asked %d times about two tools for two principals", law.asked)
	}
	box := sees(otto, "light.on")
	r := new(Executor).Execute(t.Context(), box, otto, []*chat.ToolCall{{ID: "1", Name: "light.off", Args: json.RawMessage(`{}`)}})[0]
	if r.Text != `Error: the tool "light.off" may not be called by a model: policy forbids it (code 2003)` {
		t.Errorf("a call that was made up is answered with %s", r.Text)
	}
	_, err := c.Select(t.Context(), otto, []string{"light.off"})
	if protocol.CodeOf(err) != protocol.PermissionDenied || protocol.AsError(err).Message != `no model may call light.off: policy forbids it; a person can, by skill.invoke` {
		t.Errorf("named for a model: %v", err)
	}
	byHand := otto
	byHand.ByHand = true
	sees(byHand, "light.off", "light.on")

	before := c.Revision()
	law.names, law.revision = nil, 1
	if c.Revision() == before {
		t.Error("the law changed and the catalogue did not")
	}
	sees(otto, "light.off", "light.on")
}

func TestAPersonRunsWhatModelsMayNotCall(t *testing.T) {
	opened := 0
	env := Environment{ByHand: true}
	box, err := New(safe(&opened)).Select(t.Context(), env, []string{"safe.open"})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(context.Context, *Tool, *Execution) error { return nil }
	r := (&Executor{Gate: pass}).Execute(t.Context(), box, env, []*chat.ToolCall{{ID: "1", Name: "safe.open", Args: json.RawMessage(`{}`)}})[0]
	if r.Text != "open" || opened != 1 {
		t.Errorf("it is answered with %s", r.Text)
	}
}

func offeredIn(box *Toolbox) (names []string) {
	for _, t := range box.ChatTools() {
		names = append(names, t.Name)
	}
	return names
}

func TestWhatBecameOfACallIsRecordedWithItsArguments(t *testing.T) {
	var recorded []string
	e := &Executor{Record: func(_ context.Context, env Environment, r *Result) {
		recorded = append(recorded, strings.Join([]string{env.TraceID, r.Name, string(r.Status), string(r.Arguments)}, " "))
	}}
	number := Declaration{Name: "set", Parameters: []Parameter{{Name: "n", Kind: Integer, Required: true}}}
	box := toolbox(t, &Tool{Declaration: number, Run: says("set")}, &Tool{Declaration: Declaration{Name: "denied", Risk: RiskDeny}, Run: says("ran")})
	for _, c := range []*chat.ToolCall{
		{Name: "set", Raw: `{"n":"7"}`}, {Name: "set", Raw: `{"n":`}, {Name: "gone", Args: json.RawMessage(`{"x":1}`)}, {Name: "denied", Args: json.RawMessage(`{"y":2}`)},
	} {
		e.Execute(t.Context(), box, Environment{TraceID: "t"}, []*chat.ToolCall{c})
	}
	want := []string{`t set Success {"n":7}`, `t set Failed "{\"n\":"`, `t gone Failed {"x":1}`, `t denied Failed {"y":2}`}
	if !slices.Equal(recorded, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(recorded, "\n"), strings.Join(want, "\n"))
	}
}
