package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
)

// A caretaker plays a model behind OpenAI's protocol. It executes the sample
// workflow by what it reads in the conversation, as a model does, and not by
// counting: where it is comes from the last NODE_BRIEF.
type caretaker struct {
	mu       sync.Mutex
	requests []string
	hold     map[string]chan struct{} // node → until when it thinks there
	holding  chan string
}

type openAIRequest struct {
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
		Calls   []any  `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct{ Name string } `json:"function"`
	} `json:"tools"`
}

func (m *caretaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q openAIRequest
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") || json.NewDecoder(r.Body).Decode(&q) != nil {
		http.NotFound(w, r)
		return
	}
	node, since := "", ""
	for _, msg := range q.Messages {
		text, _ := msg.Content.(string)
		if _, brief, ok := strings.Cut(text, "NODE_BRIEF\n- currentNodeId: "); ok {
			node, _, _ = strings.Cut(brief, "\n")
			since = ""
		}
		since += "[" + msg.Role + "] " + text + "\n"
	}
	m.mu.Lock()
	m.requests = append(m.requests, since)
	hold := m.hold[node]
	delete(m.hold, node)
	m.mu.Unlock()
	if hold != nil {
		m.holding <- node
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	m.answer(w, node, since)
}

// answer says what a good model says at a node, after what was said there.
func (m *caretaker) answer(w http.ResponseWriter, node, since string) {
	move := func(done, next, more string) []string {
		return []string{"fs_apply_patch", fmt.Sprintf(`{"path":"@state/workflow.md","operation":"updateFrontmatter","update":{"stepsCompleted":{"append":[%q]},"currentNodeId":{"set":%q}%s}}`, done, next, more)}
	}
	results := strings.Count(since, "[tool] ")
	switch {
	case node == "measure" && results == 0:
		m.call(w, "thermostat-go_read", `{}`)
	case node == "measure":
		m.call(w, move("measure", "judge", `,"variables":{"set":{"celsius":17.5}}`)...)
	case node == "judge" && results == 0:
		m.call(w, move("judge", "report", "")...) // which no edge allows
	case node == "judge":
		m.call(w, move("judge", "adjust", `,"decisionLog":{"append":[{"from":"judge","to":"adjust","label":"uncomfortable","reason":"17.5 is below 19"}]}`)...)
	case node == "adjust" && !strings.Contains(since, "USER_INPUT"):
		m.call(w, "ui_ask_user", `{"question":"How warm would you like it?"}`)
	case node == "adjust" && !strings.Contains(since, `"target":21`):
		m.call(w, "thermostat-go_set_target", `{"celsius":21}`)
	case node == "adjust":
		m.call(w, move("adjust", "gather", "")...)
	case node == "gather":
		m.call(w, move("gather", "report", "")...)
	case node == "report" && results == 0:
		m.call(w, "fs_write", `{"path":"@project/artifacts/climate/report.md","content":"# Report\n"}`,
			"fs_apply_patch", `{"path":"@state/workflow.md","operation":"updateFrontmatter","update":{"stepsCompleted":{"append":["report"]}}}`)
	default:
		m.say(w, `{"content":"It is set to 21 degrees."}`, "stop")
	}
}

func (m *caretaker) call(w http.ResponseWriter, list ...string) {
	var calls []map[string]any
	for i := 0; i < len(list); i += 2 {
		calls = append(calls, map[string]any{
			"index": i / 2, "id": fmt.Sprintf("call_%d_%d", time.Now().UnixNano(), i), "type": "function",
			"function": map[string]any{"name": list[i], "arguments": list[i+1]},
		})
	}
	raw, _ := json.Marshal(map[string]any{"tool_calls": calls})
	m.say(w, string(raw), "tool_calls")
}

func (m *caretaker) say(w http.ResponseWriter, delta, reason string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"model\":\"m-1\",\"choices\":[{\"delta\":%s}]}\n\n", delta)
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n", reason)
}

// aibridge runs the program against a bridge and returns what it prints.
func (b *binary) aibridge(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, append(args, "--data", b.data)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("aibridge %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serveThermostat is the thermostat of examples/thermostat-go. It tells set
// when it is set.
func serveThermostat(t *testing.T, b *binary, set func(float64)) {
	t.Helper()
	type target struct {
		Celsius float64 `json:"celsius"`
	}
	c := dial(t, b, client.WithAgent(client.Agent{ID: "thermostat-go"}))
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "thermostat-go", Name: "Thermostat", Description: "Reads and sets the temperature of a room", Version: "1.0.0",
		Capabilities: []client.Capability{
			{ID: "read", Idempotent: true, Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]float64, error) {
				return map[string]float64{"celsius": 17.5, "target": 20}, nil
			})},
			{ID: "set_target", Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p target) (map[string]float64, error) {
				set(p.Celsius)
				return map[string]float64{"celsius": 17.5, "target": p.Celsius}, nil
			})},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAWorkflowSurvivesTheBridge runs the sample with the real program and a
// model behind OpenAI's protocol, kills the bridge twice, and finds that it
// went on where it was: the user was asked once, and the thermostat was set
// once.
func TestAWorkflowSurvivesTheBridge(t *testing.T) {
	before, after := make(chan struct{}), make(chan struct{})
	model := &caretaker{holding: make(chan string, 2), hold: map[string]chan struct{}{"judge": before}}
	server := httptest.NewServer(model)
	defer server.Close()
	defer server.CloseClientConnections()
	var mu sync.Mutex
	var sets []float64
	set := func(celsius float64) {
		mu.Lock()
		defer mu.Unlock()
		sets = append(sets, celsius)
	}
	flags := []string{"--dev", "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}
	data := t.TempDir()

	bridge := startBinary(t, data, flags...)
	serveThermostat(t, bridge, set)
	bridge.aibridge(t, "run", "import", "../../examples/workflow/climate-check")
	id := strings.TrimSpace(bridge.aibridge(t, "run", "start", "climate-check", "--project", "home", "--detach"))
	<-model.holding // it thinks about the decision
	bridge.kill()

	bridge = startBinary(t, data, flags...)
	serveThermostat(t, bridge, set)
	asked := bridge.aibridge(t, "run", "follow", id)
	if !strings.Contains(asked, "How warm would you like it?") || !strings.Contains(asked, "WaitingUser") {
		t.Fatalf("after the first crash:\n%s\n%s", asked, bridge.log)
	}
	model.mu.Lock()
	model.hold["gather"] = after
	model.mu.Unlock()
	bridge.aibridge(t, "run", "continue", id, "21", "please", "--detach")
	<-model.holding // the thermostat is set
	bridge.kill()

	bridge = startBinary(t, data, flags...)
	done := bridge.aibridge(t, "run", "follow", id)
	if !strings.Contains(done, "Completed") {
		t.Fatalf("after the second crash:\n%s\n%s", done, bridge.log)
	}
	mu.Lock()
	if len(sets) != 1 || sets[0] != 21 {
		t.Errorf("the thermostat was set to %v", sets)
	}
	mu.Unlock()
	if text := bridge.aibridge(t, "vfs", "get", "home/artifacts/climate/report.md", "-"); !strings.Contains(text, "# Report") {
		t.Errorf("the report is %q", text)
	}
	turns := bridge.aibridge(t, "run", "turns", id)
	if !strings.Contains(turns, "E_INVALID_TRANSITION") || strings.Count(turns, "ui.ask_user") != 1 || !strings.Contains(turns, "Completed") {
		t.Errorf("its turns:\n%s", turns)
	}
	if log := bridge.aibridge(t, "call", "audit.query", "event=llm.run.call", "--json"); strings.Count(log, `"event": "llm.run.call"`) < 8 {
		t.Errorf("its audit:\n%s", log)
	}
}
