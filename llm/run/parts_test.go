package run

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/tools"
)

func TestAPolicyIsWhatSystemAndAgentAllow(t *testing.T) {
	agent := func(text string) Policy {
		var p pack.ToolPolicy
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		return agentPolicy(p, false)
	}
	strict := DefaultPolicy()
	strict.FS.MaxReadBytes, strict.MCP.AllowedServers = 1000, []string{"files", "web"}
	for name, test := range map[string]struct {
		system Policy
		agent  string
		want   Policy
	}{
		"an agent that says nothing": {DefaultPolicy(), `{}`, Policy{FSPolicy{true, DefaultMaxRead, DefaultMaxWrite}, MCPPolicy{false, []string{}}, []string{}}},
		"the lesser limits":          {strict, `{"fs":{"maxReadBytes":2000,"maxWriteBytes":10}}`, Policy{FSPolicy{true, 1000, 10}, MCPPolicy{false, []string{}}, []string{}}},
		"no files":                   {DefaultPolicy(), `{"fs":{"enabled":false}}`, Policy{FSPolicy{false, DefaultMaxRead, DefaultMaxWrite}, MCPPolicy{false, []string{}}, []string{}}},
		"servers of both":            {strict, `{"mcp":{"enabled":true,"allowedServers":["web","mail"]}}`, Policy{FSPolicy{true, 1000, DefaultMaxWrite}, MCPPolicy{true, []string{"web"}}, []string{}}},
		"an empty list of servers":   {DefaultPolicy(), `{"mcp":{"enabled":true,"allowedServers":[]}}`, Policy{FSPolicy{true, DefaultMaxRead, DefaultMaxWrite}, MCPPolicy{true, []string{}}, []string{}}},
		"tools that it names":        {DefaultPolicy(), `{"bridge":{"allowedTools":["lamp.*"]}}`, Policy{FSPolicy{true, DefaultMaxRead, DefaultMaxWrite}, MCPPolicy{false, []string{}}, []string{"lamp.*"}}},
	} {
		got, _ := json.Marshal(test.system.And(agent(test.agent)))
		want, _ := json.Marshal(test.want)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestAPolicyAllowsWhatItNames(t *testing.T) {
	p := Policy{FS: FSPolicy{}, MCP: MCPPolicy{Enabled: true, AllowedServers: []string{"web"}}, Tools: []string{"lamp.*", "task.get"}}
	all := DefaultPolicy()
	for _, test := range []struct {
		policy Policy
		tool   tools.Declaration
		want   bool
	}{
		{p, tools.Declaration{Name: "fs.read", Source: "fs"}, false},
		{p, tools.Declaration{Name: "ui.ask_user", Source: "ui"}, true},
		{p, tools.Declaration{Name: "lamp.switch", Source: "skill"}, true},
		{p, tools.Declaration{Name: "fan.switch", Source: "skill"}, false},
		{p, tools.Declaration{Name: "mcp.web.get", Source: "mcp:web"}, true},
		{p, tools.Declaration{Name: "mcp.mail.get", Source: "mcp:mail"}, false},
		{p, tools.Declaration{Name: "task.get", Source: "command"}, true},
		{all, tools.Declaration{Name: "task.get", Source: "command"}, false},
		{all, tools.Declaration{Name: "lamp.switch", Source: "skill", Risk: tools.RiskDeny}, false},
		{all, tools.Declaration{Name: "fs.read", Source: "fs"}, true},
	} {
		if got := test.policy.Allows(&test.tool); got != test.want {
			t.Errorf("%s is allowed: %t", test.tool.Name, got)
		}
	}
}

func TestNoPolicyLetsARunStartRuns(t *testing.T) {
	for _, pattern := range []string{"llm.*", "llm.run.*", "llm.run.start", "llm.run.continue", "llm.run.import"} {
		p := Policy{Tools: []string{"*", pattern}}
		for _, name := range []string{"llm.run.start", "llm.run.continue", "llm.run.import"} {
			if p.Allows(&tools.Declaration{Name: name, Source: "command"}) {
				t.Errorf("%s allows %s", pattern, name)
			}
		}
	}
	looks := Policy{Tools: []string{"llm.run.*"}}
	if !looks.Allows(&tools.Declaration{Name: "llm.run.status", Source: "command"}) {
		t.Error("it may not look at runs either")
	}
	w := newWorld(t, script(calls("llm.run.start", `{"input":"again"}`), says("I see")), func(o *Options) {
		starts, err := tools.Fixed(&tools.Tool{
			Declaration: tools.Declaration{Name: "llm.run.start", Effect: commands.Act, Source: "command", Schema: json.RawMessage(`{"type":"object"}`)},
			Run: func(context.Context, *tools.Execution) (tools.Output, error) {
				t.Error("a run started another")
				return tools.Output{Text: "started"}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Catalogue, o.Policy.Tools = tools.New(starts), []string{"*", "llm.run.start"}
	})
	id := w.start(StartParams{Input: ptr("go"), Tools: []string{"llm.run.start"}})
	w.rest(id)
	if got := string(w.turns(id)[0].ToolRuns[0].Result); !strings.Contains(got, `"code":"TOOL_NOT_AVAILABLE"`) {
		t.Errorf("the call is answered with %s", got)
	}
}

func TestAWordToAnAgentIsRouted(t *testing.T) {
	a := &pack.Agent{ID: "a", Menu: []pack.MenuItem{
		{Trigger: "check", Description: "Check the climate of a room"},
		{Cmd: "*explain", Description: "Explain what comfort is"},
		{Trigger: "hidden", Description: "For editors", IDEOnly: true},
		{Triggers: []map[string]any{{"party-mode": map[string]any{"action": "x"}}}, Description: "Heat all rooms at once"},
		{Trigger: "sleep", Description: "Cool the rooms for the night"},
	}}
	for said, want := range map[string]string{
		"": "menu", "help": "menu", "9": "menu",
		"1": "check", "3": "party", "2.": "explain",
		"check": "check", " *CHECK ": "check", "/explain": "explain", "party-mode": "party",
		"chekc": "check", "expalin": "explain", "slep": "sleep",
		"climate": "check", "comfort explain": "explain", "rooms": "ask party sleep", "chick": "check", "chuckl": "ask check",
		"is it warm enough in here for the baby?": "talk", "thanks": "talk",
	} {
		to := route(a, said)
		got := "talk"
		name := func(m *pack.MenuItem) string { n, _, _ := strings.Cut(triggersOf(m)[0], "-"); return n }
		switch {
		case to.menu:
			got = "menu"
		case to.item != nil:
			got = name(to.item)
		case to.offers != nil:
			got = "ask"
			for _, m := range to.offers {
				got += " " + name(m)
			}
		}
		if got != want {
			t.Errorf("%q leads to %s, want %s", said, got, want)
		}
	}
	if text := menuText(a, nil); !strings.Contains(text, "4. Cool the rooms for the night (sleep)") || strings.Contains(text, "editors") {
		t.Errorf("the menu is\n%s", text)
	}
}

func TestAnAgentIsTalkedToAndStartsItsWorkflow(t *testing.T) {
	var requests []string
	answers := script(says("A room is comfortable when…"), says("I am fine"), says("what next?"))
	w := imported(t, func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		requests = append(requests, lastRequest(q))
		return answers(ctx, q)
	})
	id := w.start(StartParams{Package: "climate-check", Mode: ModeAgent, Project: "p"})
	if got := w.rest(id); !strings.Contains(got.Message, "1. Check the climate of a room (check)") || got.Turns != 0 {
		t.Fatalf("the menu: %+v", got)
	}
	w.goOn(id, ptr("2"))
	w.rest(id)
	w.restart(w.opts.Asker.(scripted)) // it remembers what was said
	w.goOn(id, ptr("and how are you today, my dear?"))
	w.rest(id)
	if r := requests[1]; !strings.Contains(r, "[user] USER_INPUT\nExplain in three sentences") || !strings.Contains(r, "[assistant] A room is comfortable when…") ||
		strings.Contains(r, "RUN_DIRECTIVE") || strings.Contains(r, "forNodeId") || !strings.Contains(r, "PERSONA") {
		t.Errorf("the agent's second turn:\n%s", r)
	}
	w.goOn(id, ptr("check"))
	if got := w.rest(id); got.Mode != ModeRun || got.Workflow != "climate-check" || got.Node != "measure" {
		t.Errorf("after its menu has started a workflow: %+v", got)
	}
	if r := requests[2]; !strings.Contains(r, "- intent: start\n") {
		t.Errorf("the workflow begins with\n%s", r)
	}
}

func TestAChatHasNoPersonaAndNoDirective(t *testing.T) {
	var request string
	w := imported(t, func(_ context.Context, q model.Question) (*chat.Answer, error) {
		request = lastRequest(q)
		if _, ok := find(q, "fs.read"); !ok {
			t.Error("a chat has no files")
		}
		return says("Hello"), nil
	})
	id := w.start(StartParams{Package: "climate-check", Mode: ModeChat, Project: "p", Input: ptr("Hi")})
	if got := w.rest(id); got.Phase != WaitingUser || got.Message != "Hello" {
		t.Fatalf("%+v", got)
	}
	if strings.Contains(request, "PERSONA") || strings.Contains(request, "RUN_DIRECTIVE") || !strings.Contains(request, "TOOL_POLICY") || !strings.HasSuffix(request, "[user] USER_INPUT\nHi\n") {
		t.Errorf("a chat begins with\n%s", request)
	}
}

func find(q model.Question, name string) (chat.Tool, bool) {
	i := slices.IndexFunc(q.Request.Tools, func(t chat.Tool) bool { return t.Name == name })
	if i < 0 {
		return chat.Tool{}, false
	}
	return q.Request.Tools[i], true
}

func TestWhatIsShownIsWhatCanBeCalled(t *testing.T) {
	for pattern, want := range map[string]string{
		"thermostat-go.read": "thermostat-go.read",
		"*":                  "thermostat-go.read thermostat-go.set_target",
		"agent.*":            "", // the package does not name it
		"none":               "",
	} {
		var shown []string
		w := imported(t, func(_ context.Context, q model.Question) (*chat.Answer, error) {
			shown = nil
			for _, tool := range q.Request.Tools {
				if !strings.HasPrefix(tool.Name, "fs.") && tool.Name != "ui.ask_user" {
					shown = append(shown, tool.Name)
				}
			}
			if len(q.Request.Messages) > 8 {
				return says("done"), nil
			}
			return calls("thermostat-go.read", `{}`, "thermostat-go.set_target", `{"celsius":21}`, "agent.list", `{}`, "mcp.files.read", `{}`), nil
		})
		id := w.start(StartParams{Package: "climate-check", Project: "p", Tools: []string{pattern}})
		w.rest(id)
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%s shows %q, want %q", pattern, got, want)
		}
		for _, r := range w.turns(id)[0].ToolRuns {
			if ok := strings.HasPrefix(string(r.Result), `{"ok":true`); ok != slices.Contains(shown, r.ToolName) {
				t.Errorf("with %s, %s is answered with %s", pattern, r.ToolName, r.Result)
			}
		}
	}
}

func TestAPackageIsOfferedWhatItNames(t *testing.T) {
	for name, test := range map[string]struct {
		names   string   // what its agent says of the bridge's tools
		starter []string // what its starter does
		want    string
	}{
		"nobody names any":           {``, nil, ""},
		"the starter alone":          {``, []string{"*"}, "thermostat-go.read thermostat-go.set_target"},
		"the package alone":          {`["thermostat-go.read","task.get","agent.list"]`, nil, "agent.list thermostat-go.read"},
		"both":                       {`["thermostat-go.*"]`, []string{"*.none", "thermostat-go.read"}, "thermostat-go.read"},
		"the starter takes all away": {`["thermostat-go.*"]`, []string{}, ""},
		"the package names none":     {`[]`, []string{"*"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			shown := func(q model.Question) string {
				var names []string
				for _, tool := range q.Request.Tools {
					if !strings.HasPrefix(tool.Name, "fs.") && tool.Name != "ui.ask_user" {
						names = append(names, tool.Name)
					}
				}
				return strings.Join(names, " ")
			}
			var got []string
			look := scripted(func(_ context.Context, q model.Question) (*chat.Answer, error) {
				got = append(got, shown(q))
				if _, ok := find(q, "fs.read"); !ok {
					t.Error("it has no files")
				}
				return says("done"), nil
			})
			w := newWorld(t, look)
			files := sampleFiles(t)
			bridge := ""
			if test.names != "" {
				bridge = `"bridge": {"allowedTools": ` + test.names + `}, `
			}
			files["agents.json"] = strings.Replace(files["agents.json"], `"bridge": {"allowedTools": ["thermostat-go.*"]}, `, bridge, 1)
			if _, err := w.Import(t.Context(), callOf(alice), ImportParams{Content: base64Of(zipOf(t, files))}); err != nil {
				t.Fatal(err)
			}
			id := w.start(StartParams{Package: "climate-check", Project: "p", Tools: test.starter})
			w.rest(id)
			w.restart(look)
			w.goOn(id, ptr("and now?"))
			w.rest(id)
			if !slices.Equal(got, []string{test.want, test.want}) {
				t.Errorf("before and after a restart it is offered %q, want %q", got, test.want)
			}
		})
	}
}

func TestADiaryIsCutWhereACrashHasCutIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "diary")
	open := func() (*sealedDiary, []string) {
		var read []string
		d, err := openDiary(t.Context(), &folderBook{path: path}, "run/1", bound{}, func(e *entry) { read = append(read, e.Enter.Node) })
		if err != nil {
			t.Fatal(err)
		}
		return d, read
	}
	d, _ := open()
	for _, node := range []string{"a", "b"} {
		if err := d.add(&entry{Enter: &enterEntry{node}}, node == "b"); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole) - 1; cut >= len(whole)/2; cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		d, read := open()
		if !slices.Equal(read, []string{"a"}) {
			t.Fatalf("cut to %d of %d bytes it says %v", cut, len(whole), read)
		}
		if err := d.add(&entry{Enter: &enterEntry{"c"}}, false); err != nil {
			t.Fatal(err)
		}
		if _, read = open(); !slices.Equal(read, []string{"a", "c"}) {
			t.Fatalf("after that: %v", read)
		}
	}
	if err := readDiary(t.Context(), &folderBook{path: path}, "run/2", bound{}, func(*entry) {}); err == nil {
		t.Error("the diary of one run is taken for that of another")
	}
}

func TestALongConversationLosesItsOldestResults(t *testing.T) {
	var c conversation
	c.restore(nil)
	c.add(chat.TextMessage(chat.User, "go"))
	big := strings.Repeat("x", 300<<10)
	for i := range 5 {
		id := string(rune('a' + i))
		c.answered(chat.Message{Role: chat.Assistant, Segments: []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{ID: id, Name: "f"}}}})
		c.answered(chat.Message{Role: chat.ToolRole, ToolCallID: id, Segments: []chat.Segment{{Type: chat.Text, Text: big}}})
	}
	before := c.messages()
	c.trim()
	got := c.messages()
	if len(got) != len(before) || got[2].Segments[0].Text != dropped || got[10].Segments[0].Text != big || before[2].Segments[0].Text != big {
		t.Error("not the oldest results were left out, or messages that others hold were changed")
	}
	if r := c.since(); !r.Anew || len(r.Added) != len(got) {
		t.Error("the diary is not told of all of it anew")
	}
	if err := chat.Complete(got); err != nil {
		t.Errorf("the conversation is not whole any more: %v", err)
	}
}
