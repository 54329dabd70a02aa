package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A baker is a model that heats the oven when it is told to, and repeats what it
// heard.
type baker struct{ caretaker }

func (m *baker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q openAIRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	last := q.Messages[len(q.Messages)-1]
	heard, _ := last.Content.(string)
	if last.Role != "tool" && strings.Contains(heard, "Heat") {
		m.call(w, "oven_heat", `{"celsius":220}`)
		return
	}
	said, _ := json.Marshal(map[string]string{"content": "I heard " + heard})
	m.say(w, string(said), "stop")
}

// startKitchen is a bridge with a baker.
func startKitchen(t *testing.T, data string, flags ...string) *binary {
	t.Helper()
	server := httptest.NewServer(&baker{})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return startBinary(t, data, append(flags, "--llm-base-url", server.URL+"/v1", "--llm-model", "m-1")...)
}

// serveOven serves an oven that says what it was heated to.
func serveOven(t *testing.T, b *binary, opts ...client.Option) {
	t.Helper()
	c := dial(t, b, append(opts, client.WithAgent(client.Agent{ID: "oven"}))...)
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "oven", Name: "Oven", Description: "Bakes", Version: "1.0.0",
		Capabilities: []client.Capability{{
			ID: "heat", Risk: "high",
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p struct {
				Celsius float64 `json:"celsius"`
			}) (map[string]float64, error) {
				return map[string]float64{"is": p.Celsius}, nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// aWaiting is the answer to a query whose call waits.
type aWaiting struct {
	Task     string `json:"task_id"`
	Approval string `json:"approval_id"`
}

const heatLater = `{"query":"Heat the oven","tools":["oven.*"],"approval_wait_ms":0}`

func heats(t *testing.T, c *client.Client) aWaiting {
	t.Helper()
	var told struct{ Waiting aWaiting }
	ask(t, c, "llm.query", heatLater, &told)
	if told.Waiting.Task == "" {
		t.Fatal("the query does not wait")
	}
	return told.Waiting
}

// TestTheApprovalsPageWorksAsWritten runs every command of the page, each on a
// call of its own.
func TestTheApprovalsPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	bridge := startKitchen(t, t.TempDir(), "--dev")
	serveOven(t, bridge)
	asker := dial(t, bridge)
	want := map[string]string{
		"task list": "waiting", "task follow": "is\":220", "task get": "oven.heat", "task cancel": "", "approvals": "oven.heat {\"celsius\":220}", "approvals watch": "approval.requested",
		"approvals show": "because", "approvals approve": "approved", "approvals deny": "denied", "approvals edit": `{"celsius":180}`, "approvals batch": "approved",
		"chat --tools": "I heard", "chat --session": "I heard Is it too warm?",
	}
	want["approvals show"] = "it declares the risk"
	tried := 0
	for _, block := range blocks(readPage(t, "approvals.md"), "sh") {
		for line := range strings.Lines(block) {
			line = regexp.MustCompile(`\s+# .*`).ReplaceAllString(strings.TrimSpace(line), "")
			words := strings.Fields(strings.TrimPrefix(line, "aibridge "))
			verb := strings.Join(words[:min(2, len(words))], " ")
			promised, known := want[verb]
			if !strings.HasPrefix(line, "aibridge ") || !known {
				continue // in another way of being asked
			}
			tried++
			w := heats(t, asker)
			line = regexp.MustCompile(`\bTASK_ID\b`).ReplaceAllString(line, w.Task)
			line = regexp.MustCompile(`\bID\b`).ReplaceAllString(line, w.Approval)
			if verb == "task follow" {
				bridge.aibridge(t, "approvals", "approve", w.Approval)
			}
			if out := bridge.try(t, asker, verb, line); !strings.Contains(out, promised) {
				t.Errorf("%s must print %q, but printed\n%s", line, promised, out)
			}
		}
	}
	if tried != len(want) {
		t.Errorf("%d of %d commands of the page were tried", tried, len(want))
	}
}

// try runs a line of a page, answering what it asks. One that goes on for ever is
// ended when it has printed something.
func (b *binary) try(t *testing.T, asker *client.Client, verb, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", `aibridge() { exec "`+b.path+`" "$@"; }; `+line)
	cmd.Env = append(os.Environ(), "AIBRIDGE_DATA="+b.data)
	cmd.Stdin = strings.NewReader(map[string]string{"approvals batch": "y\n", "chat --tools": "Good evening\n/quit\n"}[verb])
	if verb != "approvals watch" {
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(pipe).ReadString('\n')
		first <- text
	}()
	var out string
	eventually.Holds(t, "something is shown", func() bool {
		heats(t, asker) // until it listens
		select {
		case out = <-first:
			return true
		default:
			return false
		}
	})
	cancel()
	_ = cmd.Wait()
	return out
}

// TestALaterAnswerFindsItsAsker has people with keys of their own decide about a
// call while its asker is away, and the bridge killed in between. The asker hears
// of the end on the topic of its answers, by HTTP, and by MCP.
func TestALaterAnswerFindsItsAsker(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("approvals:\n  mcp: true\n  rules:\n    - {tools: ['oven.*'], approvals: 2, people: [alice, bob, carol]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	bridge := startKitchen(t, data, "--config", config)
	keys := make(map[string]string)
	for _, who := range []string{"alice", "bob", "carol", "oven"} {
		file := filepath.Join(data, who+".key")
		args := []string{"key", "create", who, "--out", file}
		if who != "oven" {
			args = append(args, "--kind", "operator", "--role", "operator")
		}
		bridge.aibridge(t, args...)
		key, err := readSecret(file)
		if err != nil {
			t.Fatal(err)
		}
		keys[who] = key
	}
	serve := func() { serveOven(t, bridge, client.WithAPIKey(keys["oven"])) }
	as := func(who, id string) *client.Client {
		return dial(t, bridge, client.WithAPIKey(keys[who]), client.WithClientID(id))
	}
	serve()

	w := heats(t, as("alice", "alice-desk"))
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+bridge.addresses.HTTP+"/api/v1/commands/llm.query", strings.NewReader(heatLater))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Authorization", "Bearer "+keys["alice"])
	post.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted || !strings.HasPrefix(answer.Header.Get("Location"), "/api/v1/tasks/") {
		t.Fatalf("by HTTP: %d, %q\n%s", answer.StatusCode, answer.Header.Get("Location"), body)
	}
	bridge.kill()

	bridge = startKitchen(t, data, "--config", config)
	serve()
	asker := as("alice", "alice-desk")
	late := make(chan string, 16)
	if _, err := asker.Subscribe(t.Context(), asker.Topics().ClientResponse("alice-desk"), func(_ context.Context, m client.Message) {
		if e, err := protocol.DecodeEvent(m.Payload, protocol.Limits{}); err == nil {
			late <- e.Name + " " + string(e.Data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	mcpAs := func(who string) *sdk.ClientSession {
		t.Helper()
		session, err := bridge.mcp(t, nil, "--api-key-file", filepath.Join(data, who+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	var list struct {
		Approvals []struct {
			ID    string `json:"approval_id"`
			Nonce string
		}
	}
	bob := as("bob", "bob")
	ask(t, bob, "approval.list", `{"state":"pending","mine":true}`, &list)
	if len(list.Approvals) != 2 {
		t.Fatalf("%d wait", len(list.Approvals))
	}
	shown, _ := json.Marshal(list.Approvals)
	batch := strings.ReplaceAll(`{"decision":"approve","approvals":`+string(shown)+`}`, `"Nonce"`, `"nonce"`)
	var decided struct {
		Decided []struct{ State string }
		Failed  int
	}
	admin := dialAdmin(t, bridge)
	ask(t, admin, "policy.put", `{"name":"ovens","policy":"@id(\"ovens\") forbid (principal == Operator::\"bob\", action == Action::\"approval:decide\", resource) when { resource has tool && resource.tool like \"oven.*\" && resource has requester && resource.requester == \"alice\" && resource has risk && resource.risk == \"high\" };"}`, nil)
	one := `{"decision":"approve","approval_id":"` + list.Approvals[0].ID + `","nonce":"` + list.Approvals[0].Nonce + `"}`
	if _, err := client.Call[json.RawMessage](t.Context(), bob, "approval.decide", json.RawMessage(one)); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("bob decided what policy keeps from him: %v", err)
	}
	var his struct{ Total int }
	if ask(t, bob, "approval.list", `{"state":"pending","mine":true}`, &his); his.Total != 0 {
		t.Errorf("%d wait for bob", his.Total)
	}
	ask(t, admin, "policy.remove", `{"name":"ovens"}`, nil)
	ask(t, bob, "approval.batch", batch, &decided)
	if decided.Failed != 0 || decided.Decided[0].State != "pending" || decided.Decided[1].State != "pending" {
		t.Fatalf("decided %+v", decided)
	}
	carol := mcpAs("carol")
	for _, a := range list.Approvals {
		decision := map[string]any{"approval_id": a.ID, "nonce": a.Nonce, "decision": "approve"}
		if r, err := carol.CallTool(t.Context(), &sdk.CallToolParams{Name: "approvals.decide", Arguments: decision}); err != nil || r.IsError {
			t.Fatalf("carol decides by MCP: %+v, %v", r, err)
		}
	}
	if tools, err := mcpAs("oven").ListTools(t.Context(), nil); err != nil || slices.ContainsFunc(tools.Tools, func(tool *sdk.Tool) bool { return strings.HasPrefix(tool.Name, "approvals.") }) {
		t.Errorf("a device is offered decisions: %v", err)
	}
	if heard := <-late; !strings.HasPrefix(heard, "task.succeeded ") || !strings.Contains(heard, w.Task) || !strings.Contains(heard, `220`) {
		t.Errorf("the asker heard %s", heard)
	}
	eventually.Holds(t, "the task of the request by HTTP has ended", func() bool {
		get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+bridge.addresses.HTTP+answer.Header.Get("Location"), nil)
		if err != nil {
			t.Fatal(err)
		}
		get.Header.Set("Authorization", "Bearer "+keys["alice"])
		r, err := http.DefaultClient.Do(get)
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		body, _ = io.ReadAll(r.Body)
		return strings.Contains(string(body), `"succeeded"`)
	}, &body)

	heat := &sdk.CallToolParams{Name: "oven.heat", Arguments: map[string]any{"celsius": 60}, Meta: sdk.Meta{"aibridge/approval_wait_ms": 0}}
	if r, err := mcpAs("alice").CallTool(t.Context(), heat); err != nil || r.Meta["aibridge/waiting"] == nil {
		t.Errorf("a call by MCP that is told at once: %+v, %v", r, err)
	}
	got, err := mcpAs("alice").CallTool(t.Context(), &sdk.CallToolParams{Name: "task.get", Arguments: map[string]any{"task_id": w.Task}})
	if err != nil || got.IsError {
		t.Fatalf("by MCP: %+v, %v", got, err)
	}
}
