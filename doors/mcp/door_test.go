package mcp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// versions are those of the protocol that everything must work in: the last
// one with sessions, and one without.
var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

func TestClientsSeeAndCallTools(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			c := w.connect(t, "ada", version, nil)
			if got := c.InitializeResult(); got.Instructions != "Be kind to devices." || got.ProtocolVersion != version {
				t.Errorf("initialize: %+v", got)
			}
			list, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			byName := map[string]*sdk.Tool{}
			for _, tool := range list.Tools {
				byName[tool.Name] = tool
			}
			if byName["never.this"] != nil {
				t.Error("a tool that nobody may call is listed")
			}
			set := byName["thermostat.set"]
			if set == nil || set.Title != "Set the target" || set.Annotations.ReadOnlyHint || !set.Annotations.IdempotentHint || *set.Annotations.DestructiveHint {
				t.Fatalf("thermostat.set: %s", jsonOf(set))
			}
			if schema := jsonOf(set.InputSchema); !strings.Contains(schema, `"celsius"`) || !strings.Contains(schema, `"required":["celsius"]`) {
				t.Errorf("its schema: %s", schema)
			}
			if !strings.Contains(jsonOf(set.OutputSchema), `"target"`) {
				t.Errorf("its output schema: %v", set.OutputSchema)
			}
			if look := byName["camera.look"]; !look.Annotations.ReadOnlyHint || !strings.Contains(look.Description, "as data") || strings.Contains(look.Description, "\n") {
				t.Errorf("camera.look: %s", jsonOf(look))
			}
			if open := byName["door.open"]; !*open.Annotations.DestructiveHint || open.Meta["aibridge/risk"] != "ask" {
				t.Errorf("door.open: %s", jsonOf(open))
			}

			result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "thermostat.set", Arguments: map[string]any{"celsius": "21.5"}})
			if err != nil || result.IsError {
				t.Fatalf("call: %v %s", err, jsonOf(result))
			}
			if got := jsonOf(result.StructuredContent); got != `{"target":21.5}` {
				t.Errorf("structured content: %s", got)
			}
			if warning, _ := result.Meta["aibridge/warning"].(string); !strings.Contains(warning, "coerced") {
				t.Errorf("no warning of the coercion: %v", result.Meta)
			}
			env := <-w.env
			if env.Principal.ID != "ada" || env.Space != protocol.DefaultSpace {
				t.Errorf("it ran as %+v", env)
			}
		})
	}
}

func TestResultsOfEveryKindArrive(t *testing.T) {
	w := newWorld(t)
	c := w.connect(t, "ada", "", nil)
	call := func(name string, arguments any) *sdk.CallToolResult {
		t.Helper()
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	text := func(r *sdk.CallToolResult) string { return r.Content[0].(*sdk.TextContent).Text }

	if r := call("camera.look", nil); text(r) != "a cat" || string(r.Content[1].(*sdk.ImageContent).Data) != "hello" || r.IsError {
		t.Errorf("an image: %s", jsonOf(r))
	}
	if r := call("camera.snap", nil); len(r.Content) != 1 || string(r.Content[0].(*sdk.ImageContent).Data) != "hello" {
		t.Errorf("an image alone: %s", jsonOf(r))
	}
	if r := call("fail.always", nil); !r.IsError || !strings.Contains(text(r), "offline") || !strings.Contains(jsonOf(r.Meta), "3005") {
		t.Errorf("a failure: %s", jsonOf(r))
	}
	if r := call("door.open", nil); !r.IsError {
		t.Errorf("a call that nobody approved: %s", jsonOf(r))
	}
	if r := call("thermostat.set", map[string]any{}); !r.IsError || !strings.Contains(text(r), "celsius") || r.StructuredContent != nil {
		t.Errorf("a missing argument: %s", jsonOf(r))
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Meta["aibridge/name"] == "küche.licht" })
	if i < 0 || strings.Contains(list.Tools[i].Name, "ü") {
		t.Fatalf("a name with other letters is not encoded: %s", jsonOf(list.Tools))
	}
	for _, name := range []string{list.Tools[i].Name, "küche.licht"} {
		if r := call(name, nil); text(r) != "hell" {
			t.Errorf("%s: %s", name, jsonOf(r))
		}
	}
	_, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "thermostat.sett"})
	if wrong := new(jsonrpc.Error); !errors.As(err, &wrong) || wrong.Code != jsonrpc.CodeInvalidParams || !strings.Contains(string(wrong.Data), "thermostat.set") {
		t.Errorf("an unknown tool: %v", err)
	}
}

func TestListsComeInPages(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.PageSize = 2 })
	for i := range 5 {
		w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: fmt.Sprintf("page.%d", i)}, Run: nothing})
	}
	c := w.connect(t, "ada", "", nil)
	var names []string
	pages := 0
	for cursor := ""; ; pages++ {
		list, err := c.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if len(names) != 12 || !slices.IsSorted(names) || pages < 4 {
		t.Errorf("%d pages: %v", pages, names)
	}
	_, err := c.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: "no cursor!"})
	if wrong := new(jsonrpc.Error); !errors.As(err, &wrong) || wrong.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("a wrong cursor: %v", err)
	}
}

func nothing(context.Context, *tools.Execution) (tools.Output, error) { return tools.Output{}, nil }

func TestEverybodyHasToolsOfTheirOwn(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			w.source.add("ada", &tools.Tool{Declaration: tools.Declaration{Name: "ada.only"}, Run: nothing})
			ada, eve := w.connect(t, "ada", version, nil), w.connect(t, "eve", version, nil)
			for c, want := range map[*sdk.ClientSession]bool{ada: true, eve: false} {
				list, err := c.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := slices.ContainsFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "ada.only" }); got != want {
					t.Errorf("ada.only is listed: %v, want %v", got, want)
				}
			}
			if _, err := eve.CallTool(t.Context(), &sdk.CallToolParams{Name: "ada.only"}); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
				t.Errorf("somebody else's tool: %v", err)
			}
		})
	}
}

func TestClientsHearWhenTheirToolsChange(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			heard := make(chan string, 8)
			hear := func(name string) *sdk.ClientSession {
				return w.connect(t, name, version, &sdk.ClientOptions{
					ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { heard <- name },
				})
			}
			for _, c := range []*sdk.ClientSession{hear("ada"), hear("eve")} {
				if _, err := c.ListTools(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			w.source.add("ada", &tools.Tool{Declaration: tools.Declaration{Name: "new.one"}, Run: nothing})
			select {
			case name := <-heard:
				if name != "ada" {
					t.Errorf("%s hears of it", name)
				}
			case <-time.After(bridgetest.Patience):
				t.Fatal("nobody hears of a new tool")
			}
			w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: "new.two"}, Run: nothing})
			both := map[string]bool{}
			for len(both) < 2 {
				select {
				case name := <-heard:
					both[name] = true
				case <-time.After(bridgetest.Patience):
					t.Fatalf("only %v hear of a tool for both", both)
				}
			}
		})
	}
}

func TestCallsTellTheirProgressAndCanBeCancelled(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			steps := make(chan *sdk.ProgressNotificationParams, 8)
			c := w.connect(t, "ada", version, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { steps <- r.Params },
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				params := &sdk.CallToolParams{Name: "wait.here"}
				params.SetProgressToken("p1")
				_, err := c.CallTool(ctx, params)
				done <- err
			}()
			last := 0.0
			for _, want := range []string{"begun", "going on"} {
				select {
				case p := <-steps:
					if p.Message != want || p.ProgressToken != "p1" || p.Progress <= last {
						t.Errorf("progress %+v after %v, want %q", p, last, want)
					}
					last = p.Progress
				case <-time.After(bridgetest.Patience):
					t.Fatal("no progress")
				}
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call ended with %v", err)
			}
			select {
			case <-w.gone:
			case <-time.After(bridgetest.Patience):
				t.Error("the tool runs on after its call was cancelled")
			}
		})
	}
}

func TestWarningsAreLoggedToWhoWantsThem(t *testing.T) {
	w := newWorld(t)
	logged := make(chan *sdk.LoggingMessageParams, 1)
	c := w.connect(t, "ada", "2025-11-25", &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) { logged <- r.Params },
	})
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "thermostat.set", Arguments: map[string]any{"celsius": "7"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-logged:
		if p.Level != "warning" || p.Logger != "thermostat.set" || !strings.Contains(fmt.Sprint(p.Data), "coerced") {
			t.Errorf("logged %+v", p)
		}
	case <-time.After(bridgetest.Patience):
		t.Error("nothing is logged")
	}
}

// A call that needs nothing but its answer takes a shorter way, on which the log of
// its tool is not lost.
func TestTheLogOfAToolReachesTheSessionThatWantsIt(t *testing.T) {
	w := newWorld(t)
	w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: "talks.much", Effect: commands.Read}, Run: func(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
		tools.TellLog(ctx, tools.Log{Level: "info", Text: "warming up"})
		return tools.Output{Text: "done"}, nil
	}})
	heard := make(chan string, 4)
	c := w.connect(t, "ada", "2025-11-25", &sdk.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
		heard <- fmt.Sprint(r.Params.Level, r.Params.Logger, r.Params.Data)
	}})
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "talks.much"}); err != nil || r.IsError {
		t.Fatalf("call: %v %s", err, jsonOf(r))
	}
	select {
	case got := <-heard:
		if got != "infotalks.muchwarming up" {
			t.Errorf("heard %q", got)
		}
	case <-time.After(bridgetest.Patience):
		t.Error("nothing was heard")
	}
}

func TestResourcesAndPromptsAreForWhoMayReadThem(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			ada, eve := w.connect(t, "ada", version, nil), w.connect(t, "eve", version, nil)
			list, err := ada.ListResources(t.Context(), nil)
			if err != nil || len(list.Resources) != 1 || list.Resources[0].URI != secretPlans {
				t.Fatalf("resources: %v %s", err, jsonOf(list))
			}
			read, err := ada.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: secretPlans})
			if err != nil || read.Contents[0].Text != "rule the world" || read.Contents[0].MIMEType != "text/plain" {
				t.Errorf("read: %v %s", err, jsonOf(read))
			}
			templates, err := ada.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 1 {
				t.Errorf("templates: %v %s", err, jsonOf(templates))
			}
			if list, err := eve.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 0 {
				t.Errorf("resources of somebody else: %v %s", err, jsonOf(list))
			}
			_, err = eve.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: secretPlans})
			if wrong := new(jsonrpc.Error); !errors.As(err, &wrong) || wrong.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("reading somebody else's: %v", err)
			}

			prompts, err := eve.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Title != "Weather" {
				t.Fatalf("prompts: %v %s", err, jsonOf(prompts))
			}
			prompt, err := eve.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "weather"})
			if err != nil || !strings.HasPrefix(prompt.Messages[0].Content.(*sdk.TextContent).Text, "# Weather") {
				t.Errorf("prompt: %v %s", err, jsonOf(prompt))
			}
			if _, err := eve.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "none"}); err == nil {
				t.Error("a prompt that is not there is given")
			}
		})
	}
}

func TestSchemasAskForNoHeaders(t *testing.T) {
	w := newWorld(t)
	w.source.add("", &tools.Tool{Declaration: tools.Declaration{
		Name: "sly.one", Source: "skill",
		Schema: json.RawMessage(`{"type":"object","properties":{"token":{"type":"string","x-mcp-header":"Authorization"}}}`),
	}, Run: nothing})
	c := w.connect(t, "ada", "2026-07-28", nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "sly.one" })
	if i < 0 || strings.Contains(jsonOf(list.Tools[i]), "x-mcp-header") || !strings.Contains(jsonOf(list.Tools[i]), `"token"`) {
		t.Errorf("its schema: %s", jsonOf(list.Tools))
	}
}

func TestResultsSayThatTheyAreWholeWhereTheVersionWantsIt(t *testing.T) {
	w := newWorld(t)
	for method, params := range map[string]string{
		"tools/call":               `"name":"camera.look"`,
		"prompts/get":              `"name":"weather"`,
		"resources/read":           `"uri":"` + secretPlans + `"`,
		"tools/list":               ``,
		"prompts/list":             ``,
		"resources/list":           ``,
		"resources/templates/list": ``,
	} {
		t.Run(method, func(t *testing.T) {
			meta := strings.TrimSuffix(modern, "}") + `,"progressToken":1}` // such calls are for the SDK
			if params != "" {
				meta = params + "," + meta
			}
			body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + `}}`
			name := map[string]string{"tools/call": "camera.look", "prompts/get": "weather", "resources/read": secretPlans}[method]
			headers := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
			const want = `"resultType":"complete"`
			r := (&raw{t: t, url: w.url, who: "ada", headers: headers}).send("POST", body)
			if r.status != 200 || strings.Count(string(r.Result), want) != 1 || !strings.Contains(string(r.Result), "io.modelcontextprotocol/serverInfo") {
				t.Errorf("by HTTP: %d %s", r.status, r.body)
			}
			if back := w.take(t.Context(), body); len(back) != 1 || strings.Count(back[0], want) != 1 {
				t.Errorf("as a single message: %s", back)
			}
			old := strings.ReplaceAll(body, meta, cmp.Or(params, `"cursor":""`))
			if back := w.take(t.Context(), old); len(back) != 1 || strings.Contains(back[0], "resultType") || !strings.Contains(back[0], `"result":{`) {
				t.Errorf("of an older version: %s", back)
			}
		})
	}
}

func TestSchemasKeepTheirDialect(t *testing.T) {
	w := newWorld(t)
	const old = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"tuple":{"type":"array","items":[{"type":"string"}]}}}`
	w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: "older.one", Source: "skill", Untrusted: true, Schema: json.RawMessage(old)}, Run: nothing})
	list, err := w.connect(t, "ada", "2025-11-25", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		schema := jsonOf(tool.InputSchema)
		if has := strings.Contains(schema, `"$schema":"http://json-schema.org/draft-07/schema#"`); has != (tool.Name == "older.one") {
			t.Errorf("the schema of %s: %s", tool.Name, schema)
		}
	}
}

func TestCallsSayHowLongTheyWait(t *testing.T) {
	w := newWorld(t)
	for _, version := range versions {
		c := w.connect(t, "ada", version, nil)
		for said, want := range map[any]time.Duration{0: 0, 1500: 1500 * time.Millisecond, -1: 0, 1e300: 10 * time.Minute, nil: -1} {
			for _, token := range []any{nil, "with progress"} {
				params := &sdk.CallToolParams{Name: "thermostat.set", Arguments: map[string]any{"celsius": 20}, Meta: sdk.Meta{}}
				if said != nil {
					params.Meta["aibridge/approval_wait_ms"] = said
				}
				if token != nil {
					params.SetProgressToken(token)
				}
				if r, err := c.CallTool(t.Context(), params); err != nil || r.IsError {
					t.Fatalf("%s: a wait of %v: %v %s", version, said, err, jsonOf(r))
				}
				if env := <-w.env; want < 0 && env.Held != nil || want >= 0 && (env.Held == nil || *env.Held != want) {
					t.Errorf("%s: a wait of %v is one of %v", version, said, env.Held)
				}
			}
		}
	}
}

func TestCallsSayHowDeepTheyAre(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.Instance = "bridge-1" })
	for _, version := range versions {
		c := w.connect(t, "ada", version, nil)
		bridge, _ := c.InitializeResult().Capabilities.Experimental["aibridge"].(map[string]any)
		if bridge["instance"] != "bridge-1" {
			t.Errorf("%s: which bridge it is: %s", version, jsonOf(c.InitializeResult().Capabilities))
		}
		for claimed, want := range map[any]int{3: 3, -3: 0, 1e300: 1 << 20} {
			for _, token := range []any{nil, "with progress"} { // by the short way, and by the SDK
				params := &sdk.CallToolParams{Name: "thermostat.set", Arguments: map[string]any{"celsius": 20}, Meta: sdk.Meta{"aibridge/depth": claimed}}
				if token != nil {
					params.SetProgressToken(token)
				}
				r, err := c.CallTool(t.Context(), params)
				if want > tools.MaxDepth { // which is refused
					if err != nil || !r.IsError || !strings.Contains(jsonOf(r), "nested") {
						t.Errorf("%s: %v deep: %v %s", version, claimed, err, jsonOf(r))
					}
					continue
				}
				if err != nil || r.IsError {
					t.Fatalf("%s: %v deep: %v %s", version, claimed, err, jsonOf(r))
				}
				if env := <-w.env; env.Depth != want+1 {
					t.Errorf("%s: %v deep: the tool sees %d", version, claimed, env.Depth)
				}
			}
		}
	}
}
