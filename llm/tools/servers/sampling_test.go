package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// askArgs are the questions of one call.
type askArgs struct {
	Text  string `json:"text,omitempty"`
	Times int    `json:"times,omitempty"`
	Max   int64  `json:"max,omitempty"`
}

// A curious server asks models while it works on a call, and where it may work.
type curious struct {
	*sdk.Server
	mu       sync.Mutex
	sessions []string // of calls
	able     []string // to what its clients are, for each initialize
}

// newCurious makes the server. As one without sessions it asks by its answer.
func newCurious(sessions bool) *curious {
	c := &curious{Server: sdk.NewServer(&sdk.Implementation{Name: "curious", Version: "1"}, nil)}
	question := func(a askArgs) *sdk.CreateMessageParams {
		return &sdk.CreateMessageParams{
			SystemPrompt: "Be brief.", MaxTokens: max(a.Max, 1), Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: a.Text}}},
		}
	}
	sdk.AddTool(c.Server, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, a askArgs) (*sdk.CallToolResult, any, error) {
		c.mu.Lock()
		c.sessions = append(c.sessions, r.Session.ID())
		c.mu.Unlock()
		var said []string
		if !sessions && r.Params.InputResponses == nil {
			asked := make(sdk.InputRequestMap)
			for i := range max(a.Times, 1) {
				asked[fmt.Sprint("q", i)] = question(a)
			}
			return &sdk.CallToolResult{InputRequests: asked}, nil, nil
		}
		for _, answer := range r.Params.InputResponses {
			said = append(said, answer.(*sdk.CreateMessageWithToolsResult).Content[0].(*sdk.TextContent).Text)
		}
		for range max(a.Times, 1) {
			if !sessions {
				break
			}
			answer, err := r.Session.CreateMessage(ctx, question(a))
			if err != nil {
				said = append(said, err.Error())
				continue
			}
			said = append(said, answer.Content.(*sdk.TextContent).Text+" by "+answer.Model+", "+answer.StopReason)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(said, "; ")}}}, nil, nil
	})
	sdk.AddTool(c.Server, &sdk.Tool{Name: "form"}, func(ctx context.Context, r *sdk.CallToolRequest, a askArgs) (*sdk.CallToolResult, any, error) {
		var said []string
		for range max(a.Times, 1) {
			answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: a.Text, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
			if err != nil {
				said = append(said, err.Error())
				continue
			}
			said = append(said, fmt.Sprint(answer.Action, answer.Content))
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(said, "; ")}}}, nil, nil
	})
	sdk.AddTool(c.Server, &sdk.Tool{Name: "where"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		var all []string
		for _, root := range roots.Roots {
			all = append(all, root.URI)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(all, " ")}}}, nil, nil
	})
	return c
}

// url serves the server over HTTP, for clients of versions with sessions if it is one
// with sessions.
func (c *curious) url(t *testing.T, sessions bool) string {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return c.Server }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Capabilities json.RawMessage `json:"capabilities"`
			} `json:"params"`
		}
		_ = json.Unmarshal(body, &m)
		if sessions && m.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			return
		}
		if m.Method == "initialize" {
			c.mu.Lock()
			c.able = append(c.able, string(m.Params.Capabilities))
			c.mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range c.Sessions() {
			_ = session.Close()
		}
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// A modelStub stands for the command that asks models.
type modelStub struct {
	mu    sync.Mutex
	asked []string // who, and with what params
	err   error
}

type stubParams struct {
	Query      string          `json:"query"`
	Parameters json.RawMessage `json:"parameters" type:"object"`
	Options    json.RawMessage `json:"options" type:"object"`
}

type stubResult struct {
	Result string `json:"result"`
	Tokens int    `json:"tokens_used"`
	Model  string `json:"model"`
	Finish string `json:"finish_reason"`
}

func (m *modelStub) command() commands.Command {
	return commands.New(commands.Spec{Name: queryCommand, Summary: "Ask.", Effect: commands.Write, Action: "llm:query"},
		func(_ context.Context, call *commands.Call, p stubParams) (stubResult, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.asked = append(m.asked, fmt.Sprintf("%s@%s depth %d: %s %s %s", call.Principal.ID, call.Principal.Home(), call.Depth, p.Query, p.Parameters, p.Options))
			return stubResult{"Yes.", 30, "small", "end_turn"}, m.err
		})
}

// curiosity is a world with a curious server, and models that it may ask.
func curiosity(t *testing.T, sessions bool, change func(*Config)) (*world, *curious, *modelStub) {
	t.Helper()
	server, models := newCurious(sessions), new(modelStub)
	config := Config{Name: "notes", URL: server.url(t, sessions), Spaces: []string{"*"}, Sampling: Sampling{On: true, Model: "small", Requests: 3, Tokens: 1000}}
	if change != nil {
		change(&config)
	}
	w := startBeside(t, recordstest.New[Approved](), []commands.Command{models.command()}, config)
	eventually.Holds(t, "the tools are there", func() bool { return strings.Contains(w.offers(t), "mcp.notes.ask") })
	return w, server, models
}

func (w *world) ask(t *testing.T, who *protocol.Principal, arguments string) (CallResult, error) {
	t.Helper()
	return runAs[CallResult](t, w, tools.Environment{Principal: who, Depth: 1}, "mcp.tool.call", `{"server":"notes","tool":"ask","arguments":`+arguments+`}`)
}

var (
	ada = &protocol.Principal{Kind: protocol.KindOperator, ID: "ada"}
	bob = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: "acme"}
)

func TestAServerAsksModelsOnBehalfOfItsCall(t *testing.T) {
	for name, sessions := range map[string]bool{"with sessions": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w, server, models := curiosity(t, sessions, nil)
			for _, who := range []*protocol.Principal{ada, bob} {
				r, err := w.ask(t, who, `{"text":"Is it late?","max":50}`)
				if err != nil || r.IsError || !strings.HasPrefix(r.Text, "Yes.") {
					t.Fatalf("%s: %v %+v", who.ID, err, r)
				}
				if r.Sampled == nil || *r.Sampled != (Sampled{Requests: 1, Tokens: 30}) {
					t.Errorf("%s: sampled %+v", who.ID, r.Sampled)
				}
			}
			const said = ` depth 2: Is it late? {"system":"Be brief."} {"model":"small","max_tokens":50}`
			if want := []string{"ada@default" + said, "bob@acme" + said}; !slices.Equal(models.asked, want) {
				t.Errorf("models were asked %q, want %q", models.asked, want)
			}
			if sessions && (len(server.sessions) != 2 || server.sessions[0] == server.sessions[1]) {
				t.Errorf("two calls were made in the sessions %q", server.sessions)
			}
		})
	}
}

func TestWhatAServerAsksIsBounded(t *testing.T) {
	w, _, models := curiosity(t, true, nil)
	r, err := w.ask(t, ada, `{"text":"Again?","times":6,"max":50}`)
	if err != nil || strings.Count(r.Text, "Yes. by small, endTurn") != 3 || strings.Count(r.Text, "at most 3 times") != 3 || *r.Sampled != (Sampled{Requests: 3, Refused: 3, Tokens: 90}) {
		t.Errorf("six questions: %v %s %+v", err, r.Text, r.Sampled)
	}
	r, err = w.ask(t, ada, `{"text":"`+strings.Repeat("long ", 1000)+`"}`)
	if err != nil || !strings.Contains(r.Text, "at most 1000 tokens") || *r.Sampled != (Sampled{Refused: 1}) {
		t.Errorf("a long question: %v %s %+v", err, r.Text, r.Sampled)
	}
	if _, err = w.ask(t, ada, `{"text":"More?","max":5000}`); err != nil || !strings.Contains(models.asked[len(models.asked)-1], `"max_tokens":997`) {
		t.Errorf("an answer without end: %v %s", err, models.asked)
	}
	r, err = w.ask(t, ada, `{"text":""}`)
	if err != nil || !strings.Contains(r.Text, "must have a text") {
		t.Errorf("nothing: %v %s", err, r.Text)
	}
}

func TestAServerIsToldNothingOfWhyNoModelAnswers(t *testing.T) {
	w, _, models := curiosity(t, true, nil)
	for code, told := range map[protocol.Code]string{
		protocol.PermissionDenied: "may not ask this model now", protocol.BudgetSpent: "may not ask this model now",
		protocol.LLMUnavailable: "the model does not answer", protocol.Internal: "the model does not answer",
	} {
		models.mu.Lock()
		models.err = protocol.Errorf(code, "the secret reason")
		models.mu.Unlock()
		r, err := w.ask(t, ada, `{"text":"Well?"}`)
		if err != nil || !strings.Contains(r.Text, told) || strings.Contains(r.Text, "secret") {
			t.Errorf("%s: %v %s", code, err, r.Text)
		}
	}
}

func TestModelsAreAskedOnlyByServersThatMayAndWithinCalls(t *testing.T) {
	w, server, models := curiosity(t, true, func(c *Config) { c.Sampling.On = false })
	if r, err := w.ask(t, ada, `{"text":"May I?"}`); err != nil || strings.HasPrefix(r.Text, "Yes.") || r.Sampled != nil {
		t.Errorf("without sampling: %v %+v", err, r)
	}
	server.mu.Lock()
	able := slices.Clone(server.able)
	server.mu.Unlock()
	if len(able) != 1 || able[0] != "{}" {
		t.Errorf("the bridge declares %q", able)
	}

	w, server, models = curiosity(t, true, nil)
	for session := range server.Sessions() { // the one that is always there
		if answer, err := session.CreateMessage(t.Context(), &sdk.CreateMessageParams{MaxTokens: 1, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "Psst!"}}}}); err == nil || !strings.Contains(err.Error(), "on behalf of a call") {
			t.Errorf("outside of calls: %v %+v", err, answer)
		}
	}
	if len(models.asked) != 0 {
		t.Errorf("models were asked %q", models.asked)
	}
}

func TestSessionsOfCallsEndWithThem(t *testing.T) {
	w, server, _ := curiosity(t, true, nil)
	for range 5 {
		if _, err := w.ask(t, ada, `{"text":"Still there?"}`); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Holds(t, "one session is left", func() bool {
		n := 0
		for range server.Sessions() {
			n++
		}
		return n == 1
	})
	l := w.at("notes")
	if used := l.places.Used(); used != 0 {
		t.Errorf("%d places are taken", used)
	}
}

func TestAServerIsToldItsRoots(t *testing.T) {
	for name, sampling := range map[string]bool{"in the session of all": false, "in that of a call": true} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := curiosity(t, true, func(c *Config) {
				c.Sampling.On, c.Roots = sampling, []string{"file:///srv/shared", "file:///srv/more"}
			})
			r, err := runAs[CallResult](t, w, w.env, "mcp.tool.call", `{"server":"notes","tool":"where"}`)
			if err != nil || !strings.Contains(r.Text, "file:///srv/shared") || !strings.Contains(r.Text, "file:///srv/more") {
				t.Errorf("got %v %+v", err, r)
			}
		})
	}
	w, _, _ := curiosity(t, true, nil)
	if r, err := runAs[CallResult](t, w, w.env, "mcp.tool.call", `{"server":"notes","tool":"where"}`); err != nil || strings.Contains(r.Text, "file:") {
		t.Errorf("without roots: %v %+v", err, r)
	}
}

func TestSettingsOfWhatServersAskAreChecked(t *testing.T) {
	for want, c := range map[string]Config{
		"sampling.requests": {Sampling: Sampling{Requests: 101}},
		"sampling.tokens":   {Sampling: Sampling{Tokens: -1}},
		"sampling.model":    {Sampling: Sampling{Model: strings.Repeat("m", 129)}},
		"roots":             {Roots: []string{"http://example.com/"}},
		"roots: more":       {Roots: slices.Repeat([]string{"file:///a"}, 65)},
	} {
		c.Name, c.URL = "notes", "http://127.0.0.1/mcp"
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
