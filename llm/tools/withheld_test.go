package tools

import (
	"context"
	"encoding/json"
	"slices"
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
	if r.Text != `Error: the tool "safe.open" may not be called by a model (code 2003)` || opened != 0 {
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
