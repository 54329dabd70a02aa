package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// named are tools of a source.
func named(source string, names ...string) list {
	var l list
	for _, name := range names {
		l = append(l, &Tool{Declaration: Declaration{Name: name, Source: source, Description: "does " + name}, Run: says(source + " " + name)})
	}
	return l
}

func namesOf(tools []*Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

// broken is a source that fails.
type broken struct{}

func (broken) Tools(context.Context, Environment) ([]*Tool, error) {
	return nil, protocol.Errorf(protocol.TargetUnavailable, "the server files is gone")
}
func (broken) Revision() string { return "" }

func TestPatternsSelect(t *testing.T) {
	c := New(named("skill", "thermostat.set", "thermostat.read", "thermo.set", "lamp.on", "mcp.files.read", "mcp.files.write", "mcp.web.read"))
	for _, q := range []struct{ patterns, want string }{
		{"", ""},
		{"*", "lamp.on mcp.files.read mcp.files.write mcp.web.read thermo.set thermostat.read thermostat.set"},
		{"thermostat.*", "thermostat.read thermostat.set"},
		{"Thermostat.*", "thermostat.read thermostat.set"},
		{"mcp.*.read", "mcp.files.read mcp.web.read"},
		{"*.set", "thermo.set thermostat.set"},
		{"*m*s*d", "mcp.files.read thermostat.read"},
		{"lamp.on", "lamp.on"},
		{"LAMP.ON", "lamp.on"},
		{"lamp.on mcp.files.* lamp.*", "lamp.on mcp.files.read mcp.files.write"},
		{"nobody.*", ""},
	} {
		box, err := c.Select(t.Context(), Environment{}, strings.Fields(q.patterns))
		if err != nil || namesOf(box.Tools()) != q.want {
			t.Errorf("%q selects %q, %v", q.patterns, namesOf(box.Tools()), err)
		}
		for _, tool := range box.Tools() {
			if found, ok := box.Find(strings.ToUpper(tool.Name)); !ok || found != tool {
				t.Errorf("%q: %s is not found", q.patterns, tool.Name)
			}
		}
		if _, ok := box.Find("thermo.set"); ok != strings.Contains(q.want, "thermo.set") {
			t.Errorf("%q: what was not selected is found", q.patterns)
		}
	}
	_, err := c.Select(t.Context(), Environment{}, []string{"lamp.on", "lamp.off"})
	if protocol.CodeOf(err) != protocol.NotFound || protocol.AsError(err).Details["did_you_mean"] != "lamp.on" {
		t.Errorf("a name of nothing: %v", err)
	}
}

func TestTheFirstOfANameHasIt(t *testing.T) {
	c := New(named("command", "task.get"), broken{}, named("mcp:files", "mcp.files.read"), named("skill", "Task.Get", "task.set", "TASK.SET", "bad\nname", "mcp.files.read"))
	box, err := c.Select(t.Context(), Environment{}, []string{"*"})
	if err != nil || namesOf(box.Tools()) != "mcp.files.read task.get task.set" {
		t.Fatalf("selected %q, %v", namesOf(box.Tools()), err)
	}
	if tool, _ := box.Find("task.get"); tool.Source != "command" {
		t.Errorf("task.get is that of %s", tool.Source)
	}
	want := []string{
		"the server files is gone",
		`tool "Task.Get" of skill is left out: the name is that of "task.get" of command`,
		`tool "TASK.SET" of skill is left out: the name is that of "task.set" of skill`,
		`tool "bad\nname": the name has characters that cannot be seen`,
		`tool "mcp.files.read" of skill is left out: the name is that of "mcp.files.read" of mcp:files`,
	}
	if !slices.Equal(box.Warnings(), want) {
		t.Errorf("warnings %q", box.Warnings())
	}
	if c.Revision() != "" {
		t.Error("a source that does not know whether it has changed has a revision")
	}
	if own, err := c.With(named("fs", "task.get")).Select(t.Context(), Environment{}, []string{"task.get"}); err != nil || own.Tools()[0].Source != "fs" {
		t.Errorf("one's own tool does not stand before the others: %v", err)
	}
}

func TestTheSameToolsAreTheSameBox(t *testing.T) {
	source := named("skill", "a.b", "a.c")
	c := New(source)
	select1 := func(patterns ...string) *Toolbox {
		box, err := c.Select(t.Context(), Environment{}, patterns)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	all, some := select1("*"), select1("a.b")
	if select1("*") != all || select1("a.b") != some {
		t.Error("another box is made of the same")
	}
	twins := named("skill", "a.b", "a.c") // as another principal's would be
	other, err := New(twins).Select(t.Context(), Environment{}, []string{"*"})
	if err != nil || other.Revision() != all.Revision() || some.Revision() == all.Revision() {
		t.Errorf("revisions %s, %s, %s, %v", all.Revision(), other.Revision(), some.Revision(), err)
	}
	own, _ := c.With(twins).Select(t.Context(), Environment{}, []string{"a.b"})
	if own.Tools()[0] == some.Tools()[0] {
		t.Error("somebody else's tool is selected")
	}
	for i := range maxBoxes + 5 {
		select1(fmt.Sprintf("a.%d*", i))
	}
	if len(c.boxes) != maxBoxes {
		t.Errorf("%d boxes are kept", len(c.boxes))
	}
	if select1("*") == all {
		t.Error("a box is kept for ever")
	}
}

func TestSelectingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(named("skill", "a")).Select(ctx, Environment{}, []string{"*"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestToolsAreOfferedInTheOrderOfTheirNames(t *testing.T) {
	box := toolbox(t, named("skill", "b.x", "a.y", "a.x")...)
	var names []string
	for _, offer := range ChatTools(box.Relevant("b y", 3)) {
		names = append(names, offer.Name)
		if !json.Valid(offer.Parameters) || offer.Description == "" {
			t.Errorf("%+v", offer)
		}
	}
	if fmt.Sprint(names) != "[a.x a.y b.x]" {
		t.Errorf("offered %v", names)
	}
}

func TestTheMostRelevantToolsAreFound(t *testing.T) {
	box := toolbox(t, append(houseTools(1000),
		&Tool{Declaration: Declaration{Name: "weather.getForecast", Description: "Temperatures and rain of the coming days"}},
		&Tool{Declaration: Declaration{Name: "灯光.打开", Description: "打开客厅的灯"}},
		&Tool{Declaration: Declaration{Name: "skill.read", Description: "Reads about a skill", Pinned: true}},
		&Tool{Declaration: Declaration{Name: "blinds", Schema: json.RawMessage(`{"type":"object","properties":{"slatAngle":{"type":"number"}}}`)}},
	)...)
	for _, q := range []struct{ query, first string }{
		{"set the thermostat of the bathroom", "bathroom-thermostat-0.set"},
		{"calibrate attic valves", "attic-valve-0.calibrate"},
		{"what will the forecast be?", "weather.getForecast"},
		{"get forecast", "weather.getForecast"},
		{"请把客厅的灯打开", "灯光.打开"},
		{"slat angle", "blinds"},
	} {
		got := box.Relevant(q.query, 5)
		if got[0].Name != q.first {
			t.Errorf("%q finds %s", q.query, namesOf(got))
		}
	}
	pinned, _ := box.Find("skill.read")
	for _, n := range []int{1, 2, 20, 1003, 1004, 5000} {
		for _, query := range []string{"set lamp", "", "no such words"} {
			got := box.Relevant(query, n)
			if len(got) != min(n, len(box.Tools())) || !slices.Contains(got, pinned) {
				t.Errorf("%q, %d: %d tools, the pinned one among them: %v", query, n, len(got), slices.Contains(got, pinned))
			}
			if again := box.Relevant(query, n); !slices.Equal(got, again) {
				t.Errorf("%q, %d: found others the second time", query, n)
			}
			distinct := make(map[*Tool]bool)
			for _, tool := range got {
				distinct[tool] = true
			}
			if len(distinct) != len(got) {
				t.Errorf("%q, %d: some are there twice", query, n)
			}
		}
	}
	if got := box.Relevant("set lamp", 0); namesOf(got) != "skill.read" {
		t.Errorf("none of the most relevant: %s", namesOf(got))
	}
	if got := toolbox(t).Relevant("x", 3); len(got) != 0 {
		t.Errorf("an empty box has %s", namesOf(got))
	}
}

func TestMisspeltNamesAreAnsweredWithNearOnes(t *testing.T) {
	box := toolbox(t, named("skill", "thermostat.set", "thermostat.read", "lamp.on", "lamp.off", "window.open")...)
	for name, want := range map[string]string{
		"thermostat.st":  "thermostat.set thermostat.read",
		"thermostat_set": "thermostat.set thermostat.read",
		"set_thermostat": "thermostat.set thermostat.read",
		"lamp.on.off":    "lamp.off lamp.on",
		"open":           "window.open",
		"weather.get":    "",
		"":               "",
	} {
		if got := strings.Join(box.Nearest(name), " "); got != want {
			t.Errorf("%q is near %q", name, got)
		}
	}
}
