package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// A heater is a device that takes orders. cancelled gets a value for every
// order that is taken back.
func heater(t testing.TB, n *bridgetest.Node, opts ...client.Option) (cancelled chan struct{}) {
	t.Helper()
	cancelled = make(chan struct{}, 4)
	agent := n.Dial(t, append(opts, client.WithAgent(client.Agent{ID: "heater-1"}))...)
	type order struct {
		Celsius float64 `json:"celsius"`
	}
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "heater", Description: "Heats", Capabilities: []client.Capability{
		{
			ID: "set", Description: "Sets the target", Idempotent: true,
			ParamsSchema: json.RawMessage(`{"type":"object","properties":{"celsius":{"type":"number","minimum":5,"maximum":35}},"required":["celsius"]}`),
			ResultSchema: json.RawMessage(`{"type":"object","properties":{"target":{"type":"number"}},"required":["target"]}`),
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, o order) (map[string]float64, error) {
				return map[string]float64{"target": o.Celsius}, nil
			}),
		},
		{
			ID: "warm-up", Handler: client.Handle(func(ctx context.Context, in *client.Invocation, _ struct{}) (struct{}, error) {
				in.Progress(40, "getting warm")
				<-ctx.Done()
				cancelled <- struct{}{}
				return struct{}{}, ctx.Err()
			}),
		},
		{
			ID: "burn", Risk: "high", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
				return struct{}{}, nil
			}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cancelled
}

// mcpClient connects the official SDK's client to /mcp.
func mcpClient(t testing.TB, n *bridgetest.Node, secret, version string, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: n.HTTPURL("/mcp"), HTTPClient: &http.Client{Transport: withBearer{transport, secret}}},
		&sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

type withBearer struct {
	http.RoundTripper
	secret string
}

func (b withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.secret != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.secret)
	}
	return b.RoundTripper.RoundTrip(r)
}

func textOf(r *sdk.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	text, _ := r.Content[0].(*sdk.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}

func TestMCPClientsMakeDevicesAct(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	cancelled := heater(t, n)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			steps := make(chan *sdk.ProgressNotificationParams, 4)
			c := mcpClient(t, n, "", version, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { steps <- r.Params },
			})
			list, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var set *sdk.Tool
			for _, tool := range list.Tools {
				if tool.Name == "heater.set" {
					set = tool
				}
			}
			if set == nil || !set.Annotations.IdempotentHint || set.OutputSchema == nil || !strings.Contains(set.Description, "Sets the target") {
				t.Fatalf("heater.set: %+v", set)
			}
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{"celsius": 21.5}})
			if err != nil || r.IsError || textOf(r) != `{"target":21.5}` || fmt.Sprint(r.StructuredContent) != "map[target:21.5]" {
				t.Errorf("set: %v %+v", err, r)
			}
			if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{"celsius": 99}}); err != nil || !r.IsError || !strings.Contains(textOf(r), "celsius") {
				t.Errorf("99 °C: %v %s", err, textOf(r))
			}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				params := &sdk.CallToolParams{Name: "heater.warm-up"}
				params.SetProgressToken("warm")
				_, err := c.CallTool(ctx, params)
				done <- err
			}()
			select {
			case p := <-steps:
				if p.Message != "getting warm" || p.Progress != 40 || p.Total != 100 {
					t.Errorf("progress %+v", p)
				}
			case <-time.After(bridgetest.Patience):
				t.Fatal("no progress of the device arrives")
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call: %v", err)
			}
			select {
			case <-cancelled:
			case <-time.After(bridgetest.Patience):
				t.Error("the device is not told that its order is taken back")
			}
		})
	}
}

func TestMCPClientsReadFilesAgentsAndDocuments(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	heater(t, n)
	for _, file := range []string{"a b.txt", "deep/ü.bin", "page.html", "noname"} {
		request, err := http.NewRequest(http.MethodPut, n.HTTPURL("/vfs/upload"), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := "text of " + file
		if strings.HasSuffix(file, "bin") {
			body = "\x00\xff"
		}
		q := request.URL.Query()
		q.Set("group_name", "notes")
		q.Set("path", file)
		request.URL.RawQuery = q.Encode()
		request.Body = io.NopCloser(strings.NewReader(body))
		response, err := bridgetest.HTTPClient(t).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode >= 300 {
			t.Fatalf("upload: %s %s", response.Status, text)
		}
	}
	c := mcpClient(t, n, "", "", nil)
	contents := map[string]*sdk.ResourceContents{}
	for resource, err := range c.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: resource.URI})
		if err != nil {
			t.Errorf("%s: %v", resource.URI, err)
			continue
		}
		contents[resource.Name] = read.Contents[0]
	}
	for name, want := range map[string]string{
		"commands": "skill.invoke", "tools": "heater.set", "heater-1": `"status":"online"`, "notes/a b.txt": "text of a b.txt",
	} {
		if got := contents[name]; got == nil || !strings.Contains(got.Text, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := contents["notes/deep/ü.bin"]; got == nil || string(got.Blob) != "\x00\xff" || got.MIMEType == "" {
		t.Errorf("binary file: %+v", got)
	}
	for name, want := range map[string]string{"notes/noname": "text/plain", "notes/page.html": "text/html"} {
		if got := contents[name]; got == nil || got.MIMEType != want {
			t.Errorf("%s is %+v, want %s", name, got, want)
		}
	}
	for _, version := range []string{"", "2026-07-28"} {
		c := mcpClient(t, n, "", version, nil)
		complete := func(template, argument, typed string, given map[string]string) string {
			t.Helper()
			r, err := c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &sdk.CompleteReference{Type: "ref/resource", URI: template}, Argument: sdk.CompleteParamsArgument{Name: argument, Value: typed},
				Context: &sdk.CompleteContext{Arguments: given},
			})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(r.Completion.Values, r.Completion.HasMore)
		}
		const agents, files = "aibridge:///agents/{agent_id}", "vfs:///{group_name}/{+path}"
		inNotes := map[string]string{"group_name": "notes"}
		for _, test := range []struct {
			template, argument, typed string
			given                     map[string]string
			want                      string
		}{
			{agents, "agent_id", "", nil, "[heater-1] false"},
			{agents, "agent_id", "heat", nil, "[heater-1] false"},
			{agents, "agent_id", "eater", nil, "[] false"},
			{files, "group_name", "no", nil, "[notes] false"},
			{files, "path", "", inNotes, "[a b.txt deep/ noname page.html] false"},
			{files, "path", "de", inNotes, "[deep/] false"},
			{files, "path", "deep/", inNotes, "[deep/ü.bin] false"},
			{files, "path", "none/x", inNotes, "[] false"},
			{files, "path", "", map[string]string{"group_name": "of nobody"}, "[] false"},
			{files, "path", "", nil, "[] false"},
		} {
			if got := complete(test.template, test.argument, test.typed, test.given); got != test.want {
				t.Errorf("%q: %s of %s, typed %q: %s, want %s", version, test.argument, test.template, test.typed, got, test.want)
			}
		}
		if got := complete(agents, "path", "", nil); !strings.Contains(got, "argument.name") {
			t.Errorf("an argument of another template: %s", got)
		}
		if got := complete("file:///{x}", "x", "", nil); !strings.Contains(got, "ref.uri") {
			t.Errorf("a strange template: %s", got)
		}
	}
	for _, uri := range []string{"vfs:///notes/none", "vfs:///notes/../../etc/passwd", "vfs:///notes/%zz", "aibridge:///agents/none", "file:///etc/passwd", "vfs:///"} {
		if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s can be read", uri)
		}
	}
}

// A guest is somebody with a key of their own.
func keyFor(t *testing.T, admin *bridgetest.Raw, params string) string {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(must(t, admin, "key.create", params), &made); err != nil {
		t.Fatal(err)
	}
	return made.Key
}

func TestMCPClientsDoNoMoreThanTheirCredentialAllows(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	heater(t, n, client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`)))

	operator := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`), "", nil)
	if r, err := operator.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{"celsius": 20}}); err != nil || r.IsError {
		t.Errorf("an operator: %v %s", err, textOf(r))
	}
	observer := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"eve","kind":"operator","roles":["observer"]}`), "", nil)
	list, err := observer.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.HasPrefix(tool.Name, "heater.") {
			t.Errorf("an observer is offered %s", tool.Name)
		}
	}
	if r, err := observer.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{"celsius": 20}}); err == nil && !r.IsError {
		t.Error("an observer makes a device act")
	}
	elsewhere := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"],"space_id":"elsewhere"}`), "", nil)
	if _, err := elsewhere.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{"celsius": 20}}); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
		t.Errorf("somebody of another space: %v", err)
	}
}

func TestMCPWantsAGoodCredentialFromAGoodOrigin(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	key := keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for name, test := range map[string]struct {
		headers map[string]string
		status  int
	}{
		"a key":                     {map[string]string{"Authorization": "Bearer " + key}, 200},
		"a token":                   {map[string]string{"Authorization": "Bearer " + hs(t, "lamp")}, 200},
		"nothing":                   {nil, 401},
		"a wrong key":               {map[string]string{"Authorization": "Bearer " + key[:len(key)-4] + "aaaa"}, 401},
		"a token for somebody else": {map[string]string{"Authorization": "Bearer " + hs(t, "lamp", "aud", "another")}, 401},
		"a page of another site":    {map[string]string{"Authorization": "Bearer " + key, "Origin": "https://evil.example"}, 403},
		"a page of its own":         {map[string]string{"Authorization": "Bearer " + key, "Origin": "http://" + n.HTTP}, 200},
		"a rebound name":            {map[string]string{"Authorization": "Bearer " + key, "Host": "evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPost, n.HTTPURL("/mcp"), strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			for k, v := range test.headers {
				request.Header.Set(k, v)
				if k == "Host" {
					request.Host = v
				}
			}
			response, err := bridgetest.HTTPClient(t).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.status {
				t.Errorf("answered %s: %s", response.Status, body)
			}
			if challenge := response.Header.Get("WWW-Authenticate"); (test.status == 401) != strings.HasPrefix(challenge, "Bearer ") {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
}

func TestARevokedKeyEndsStreamsOfMCP(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	var made struct {
		ID  string `json:"key_id"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal(must(t, admin, "key.create", `{"principal_id":"ada","kind":"operator","roles":["operator"]}`), &made); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{}, 8)
	c := mcpClient(t, n, made.Key, "2025-11-25", &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { heard <- struct{}{} },
	})
	if _, err := c.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	heater(t, n, client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`)))
	select {
	case <-heard:
	case <-time.After(bridgetest.Patience):
		t.Fatal("word of a new skill does not arrive")
	}
	must(t, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, made.ID))
	eventually.Holds(t, "the key is of no use", func() bool {
		_, err := c.ListTools(t.Context(), nil)
		return err != nil
	})
}

func TestMCPOverMQTTIsOneMessageForEachCall(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	cancelled := heater(t, n)
	c := n.Caller(t, "thin")
	ask := func(correlation, body string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
		defer cancel()
		if _, err := c.Publish(ctx, &paho.Publish{Topic: "aibridge/bridge/mcp", QoS: 1, Payload: []byte(body), Properties: &paho.PublishProperties{
			ResponseTopic: "aibridge/client/thin/response", CorrelationData: []byte(correlation), MessageExpiry: paho.Uint32(60),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(correlation string) string {
		t.Helper()
		p := c.Next(t)
		if string(p.Properties.CorrelationData) != correlation || p.Properties.ContentType != "application/json" {
			t.Errorf("answer with %q, %q", p.Properties.CorrelationData, p.Properties.ContentType)
		}
		return string(p.Payload)
	}
	ask("c1", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"heater.set","arguments":{"celsius":19}}}`)
	if got := next("c1"); !strings.Contains(got, `"structuredContent":{"target":19}`) {
		t.Errorf("call: %s", got)
	}
	ask("c2", `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if got := next("c2"); !strings.Contains(got, `"supportedVersions"`) {
		t.Errorf("discover: %s", got)
	}
	ask("c3", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"heater.warm-up","_meta":{"progressToken":3}}}`)
	if got := next("c3"); !strings.Contains(got, "getting warm") {
		t.Errorf("progress: %s", got)
	}
	ask("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	select {
	case <-cancelled:
	case <-time.After(bridgetest.Patience):
		t.Error("the device is not told that its order is taken back")
	}
	ask("c4", `nonsense`)
	if got := next("c4"); !strings.Contains(got, "-32700") {
		t.Errorf("nonsense: %s", got)
	}
	c.Send(t, "aibridge/bridge/mcp", `{"jsonrpc":"2.0","id":5,"method":"ping"}`) // as a 3.1.1 client would
	if got := c.Next(t); !strings.Contains(string(got.Payload), `"result":{}`) {
		t.Errorf("without a response topic: %s", got.Payload)
	}
}

func TestToolsOfExternalServersAreOfferedToModels(t *testing.T) {
	t.Parallel()
	external := bridgetest.Start(t)
	heater(t, external)
	n, admin, _ := guarded(t, func(c *app.Config) {
		c.MCP.Servers = []servers.Config{{Name: "other", URL: external.HTTPURL("/mcp"), Tools: []string{"heater.*"}}}
	})
	c := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`), "", nil)
	eventually.Holds(t, "the tool of the other bridge can be called", func() bool {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "mcp.other.heater.set", Arguments: map[string]any{"celsius": 18}})
		return err == nil && !r.IsError && fmt.Sprint(r.StructuredContent) == "map[target:18]"
	})
	device := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"lamp"}`), "", nil)
	if _, err := device.CallTool(t.Context(), &sdk.CallToolParams{Name: "mcp.other.heater.set", Arguments: map[string]any{"celsius": 18}}); err == nil {
		t.Error("a device calls tools of other servers")
	}
	var list struct {
		Servers []struct {
			State    string `json:"state"`
			Revision string `json:"revision"`
			Tools    []struct{ Tool, State string }
		} `json:"servers"`
	}
	if err := json.Unmarshal(must(t, admin, "mcp.server.list", `{}`), &list); err != nil || list.Servers[0].State != "connected" || len(list.Servers[0].Tools) != 3 {
		t.Errorf("mcp.server.list: %v %+v", err, list)
	}
	if answer := admin.Ask(t, bridgetest.Request("a1", "mcp.server.approve", fmt.Sprintf(`{"server":"other","revision":%q}`, list.Servers[0].Revision))); answer.Err != nil {
		t.Errorf("mcp.server.approve: %v", answer.Err)
	}
	ada := n.Caller(t, "ada2", withPassword("apikey", keyFor(t, admin, `{"principal_id":"ada2","kind":"operator","roles":["operator"]}`)))
	if answer := ada.Ask(t, bridgetest.Request("a2", "mcp.server.approve", fmt.Sprintf(`{"server":"other","revision":%q}`, list.Servers[0].Revision))); protocol.CodeOf(answer.Err) != protocol.PermissionDenied {
		t.Errorf("an operator approves tools: %v", answer.Err)
	}
}

func TestABridgeIsNoMCPServerOfItsOwn(t *testing.T) {
	t.Parallel()
	var target atomic.Pointer[url.URL]
	entrance := httptest.NewServer(&httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0), // nobody is there before the bridge is
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := target.Load(); to != nil {
				r.SetURL(to)
			}
		},
	})
	t.Cleanup(entrance.Close)
	n := bridgetest.Start(t, func(c *app.Config) { c.MCP.Servers = []servers.Config{{Name: "self", URL: entrance.URL + "/mcp"}} })
	heater(t, n)
	to, err := url.Parse(n.HTTPURL(""))
	if err != nil {
		t.Fatal(err)
	}
	target.Store(to)
	caller := n.Caller(t, "looker")
	eventually.Holds(t, "the bridge knows itself", func() bool {
		return strings.Contains(string(must(t, caller, "mcp.server.list", `{}`)), "this bridge itself")
	})
	list, err := mcpClient(t, n, "", "", nil).ListTools(t.Context(), nil)
	if err != nil || strings.Contains(fmt.Sprint(list.Tools), "mcp.self") {
		t.Errorf("its tools: %v %v", err, list)
	}
}

func TestMCPCanBeOff(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.MCP.Off = true })
	response, err := bridgetest.HTTPClient(t).Post(n.HTTPURL("/mcp"), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("/mcp answers %s", response.Status)
	}
}

func TestPromptsAreTheManualsOfSkills(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "shelf"}))
	manual := filepath.Join(t.TempDir(), "SKILL.md")
	if err := os.WriteFile(manual, []byte("# Lamp\nTurn it on."), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "lamp", Description: "Lights", Capabilities: []client.Capability{{
		ID: "skill.document", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]any, error) {
			text, err := os.ReadFile(manual)
			return map[string]any{"path": "SKILL.md", "text": string(text), "sha256": "", "resources": []string{}}, err
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	heater(t, n)
	c := mcpClient(t, n, "", "", nil)
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) != 1 || list.Prompts[0].Name != "lamp" || list.Prompts[0].Description != "Lights" {
		t.Fatalf("prompts: %v %+v", err, list)
	}
	p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "lamp"})
	if err != nil || p.Messages[0].Content.(*sdk.TextContent).Text != "# Lamp\nTurn it on." {
		t.Errorf("prompt: %v %+v", err, p)
	}
	if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "none"}); err == nil {
		t.Error("a prompt that is not there is given")
	}
	_, err = agent.ServeSkill(t.Context(), client.Skill{ID: "safe", Description: "Keeps things", Capabilities: []client.Capability{{
		ID: "skill.document", Risk: "deny", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]any, error) {
			t.Error("what may not be read was asked for")
			return map[string]any{"path": "SKILL.md", "text": "1-2-3-4", "sha256": "", "resources": []string{}}, nil
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "safe"}); err == nil || !strings.Contains(err.Error(), "may not be called") {
		t.Errorf("a prompt whose skill denies it: %v, %v", p, err)
	}
}

// The arguments of the prompt of a skill are declared beside the params of the capability
// by which its manual is read, and filled in by the bridge.
func TestPromptsOfSkillsTakeArguments(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "shelf"}))
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "lamp", Description: "Lights", Capabilities: []client.Capability{{
		ID: "skill.document",
		ParamsSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false,"$defs":{"prompt":{"type":"object","required":["room"],"properties":{
			"room":{"type":"string","enum":["kitchen","cellar","kiosk"],"description":"room to light"},"mood":{"type":"string","default":"{room} as usual","maxLength":10},"agent_id":{"type":"string"}}}}}`),
		Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]any, error) {
			return map[string]any{"path": "SKILL.md", "text": "Light the {room}: {mood}. {unknown}", "sha256": "", "resources": []string{}}, nil
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	c := mcpClient(t, n, "", "", nil)
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) != 1 {
		t.Fatalf("prompts: %v %+v", err, list)
	}
	var told []string
	for _, a := range list.Prompts[0].Arguments {
		told = append(told, fmt.Sprint(a.Name, " ", a.Required, " ", a.Description))
	}
	if want := []string{"room true room to light", "mood false ", "agent_id false "}; !slices.Equal(told, want) {
		t.Errorf("its arguments are %q", told)
	}
	for name, test := range map[string]struct {
		arguments map[string]string
		text      string
		fault     string
	}{
		"all":            {arguments: map[string]string{"room": "cellar", "mood": "{mood} dim"}, text: "Light the cellar: {mood} dim. {unknown}"},
		"required alone": {arguments: map[string]string{"room": "kitchen"}, text: "Light the kitchen: {room} as usual. {unknown}"},
		"none":           {fault: "arguments.room: is missing"},
		"another value":  {arguments: map[string]string{"room": "garden"}, fault: "arguments.room: "},
		"too long":       {arguments: map[string]string{"room": "cellar", "mood": "as bright as day"}, fault: "arguments.mood: "},
		"unknown":        {arguments: map[string]string{"room": "cellar", "colour": "red"}, fault: "arguments.colour: is none of the prompt's"},
	} {
		p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "lamp", Arguments: test.arguments})
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, %v", name, p, err)
			}
		case err != nil || p.Messages[0].Content.(*sdk.TextContent).Text != test.text:
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
	for typed, want := range map[[2]string]string{{"room", "ki"}: "[kiosk kitchen]", {"agent_id", "sh"}: "[shelf]", {"mood", ""}: "[]"} {
		got, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "lamp"}, Argument: sdk.CompleteParamsArgument{Name: typed[0], Value: typed[1]}})
		if err != nil || fmt.Sprint(got.Completion.Values) != want {
			t.Errorf("%v is completed by %v, %v", typed, got, err)
		}
	}
	if _, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "lamp"}, Argument: sdk.CompleteParamsArgument{Name: "colour"}}); err == nil || !strings.Contains(err.Error(), "is none of the prompt's") {
		t.Errorf("an argument that is not there is completed: %v", err)
	}
}
