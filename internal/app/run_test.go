package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// callsFor is a provider's answer that calls a tool.
func callsFor(name, arguments string) scripted.Reply {
	raw, _ := json.Marshal(map[string]any{"index": 0, "id": "call_" + name, "type": "function", "function": map[string]string{"name": name, "arguments": arguments}})
	return scripted.Stream(`{"model":"m-1","choices":[{"delta":{"tool_calls":[`+string(raw)+`]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]")
}

// runAs starts a run and returns its id.
func runAs(t *testing.T, c *bridgetest.Raw, params string) string {
	t.Helper()
	var started struct {
		ID    string `json:"run_id"`
		Phase string `json:"phase"`
	}
	if err := json.Unmarshal(must(t, c, "llm.run.start", params), &started); err != nil || started.Phase != "Running" {
		t.Fatalf("started as %+v, %v", started, err)
	}
	return started.ID
}

// restOf waits until a run is at rest.
func restOf(t *testing.T, c *bridgetest.Raw, id string) (phase, message string) {
	t.Helper()
	for {
		var got struct{ Phase, Message, Reason string }
		if err := json.Unmarshal(must(t, c, "llm.run.status", fmt.Sprintf(`{"run_id":%q,"wait_ms":10000}`, id)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Phase != "Running" {
			return got.Phase, got.Message + got.Reason
		}
	}
}

func TestARunWaitsForAnApprovalOverARestart(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, callsFor("door_open", `{"for":"the cat"}`), says("The door is open."))
	n := bridgetest.Start(t, withModel(s))
	opened := make(chan string, 2)
	door := func() {
		t.Helper()
		_, err := n.Dial(t, client.WithAgent(client.Agent{ID: "door-1"})).ServeSkill(t.Context(), client.Skill{
			ID: "door", Name: "Door", Description: "A door", Version: "1.0.0",
			Capabilities: []client.Capability{{ID: "open", Risk: "high", Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p map[string]string) (map[string]bool, error) {
				opened <- p["for"]
				return map[string]bool{"open": true}, nil
			})}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	door()
	c, watcher := n.Caller(t, "me"), n.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/task/+/event")
	id := runAs(t, c, `{"input":"Let the cat in","approval_expires_ms":3600000}`)
	told := toldOfRun(t, watcher, id, "task.waiting")
	if answer := c.Ask(t, bridgetest.Request("where", "task.get", fmt.Sprintf(`{"task_id":%q}`, id))); answer.Err == nil || answer.Err.Code != protocol.NotFound || !strings.Contains(answer.Err.Message, "llm.run.status shows it") {
		t.Errorf("as a task it is %v", answer.Err)
	}
	if want := []string{"run.phase Running", "run.turn", "run.answer", "run.tool started", "run.phase WaitingApproval", "task.waiting"}; !slices.Equal(told, want) {
		t.Errorf("it was told that %q", told)
	}
	mcp := &taskClient{url: n.HTTPURL("/mcp"), can: canForm}
	if got := mcp.get(t, id); got.Result.Status != "input_required" || !strings.Contains(got.text, `May door.open be called?`) {
		t.Errorf("to an MCP client it is %s", got.text)
	}

	n.Restart(t)
	door()
	c, watcher = n.Caller(t, "me"), n.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/task/+/event")
	var waiting struct {
		Phase   string `json:"phase"`
		Waiting struct {
			Approval string `json:"approval_id"`
			Tool     string `json:"tool"`
		} `json:"waiting"`
	}
	if err := json.Unmarshal(must(t, c, "llm.run.status", fmt.Sprintf(`{"run_id":%q}`, id)), &waiting); err != nil || waiting.Phase != "WaitingApproval" || waiting.Waiting.Tool != "door.open" || len(opened) > 0 {
		t.Fatalf("after a restart it is %+v, %v; the door was opened %d times", waiting, err, len(opened))
	}
	var asked struct {
		Nonce   string `json:"nonce"`
		Task    string `json:"task_id"`
		Asked   int64  `json:"asked_at"`
		Expires int64  `json:"expires_at"`
	}
	if err := json.Unmarshal(must(t, c, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, waiting.Waiting.Approval)), &asked); err != nil || asked.Task != id || asked.Expires-asked.Asked != 3_600_000 {
		t.Fatalf("it is asked %+v, %v", asked, err)
	}
	// Other arguments are judged for the run, and make it another question.
	changed := must(t, c, "approval.edit", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"arguments":{"for":"both cats"}}`, waiting.Waiting.Approval, asked.Nonce))
	if err := json.Unmarshal(changed, &asked); err != nil {
		t.Fatal(err)
	}
	must(t, c, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, waiting.Waiting.Approval, asked.Nonce))
	told = toldOfRun(t, watcher, id, "run.phase WaitingUser")
	if want := []string{"run.phase Running", "run.tool started", "run.tool ok", "run.turn", "run.answer", "run.message", "run.phase WaitingUser"}; !slices.Equal(told, want) {
		t.Errorf("it was told that %q", told)
	}
	if phase, message := restOf(t, c, id); phase != "WaitingUser" || message != "The door is open." {
		t.Errorf("the run is %s: %s", phase, message)
	}
	if got := <-opened; got != "both cats" {
		t.Errorf("it was opened for %q", got)
	}
	if body := string(s.Requests()[1].Body); !strings.Contains(body, `{\"ok\":true,\"result\":`) || !strings.Contains(body, "has changed the arguments to") {
		t.Errorf("the model reads\n%s", body)
	}
}

// toldOfRun are the events of a run up to one with the name last.
func toldOfRun(t *testing.T, watcher *bridgetest.Raw, id, last string) (told []string) {
	t.Helper()
	for !slices.Contains(told, last) {
		e, err := protocol.DecodeEvent(watcher.Next(t).Payload, protocol.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Run   string `json:"run_id"`
			Phase string `json:"phase"`
			State string `json:"state"`
		}
		if err := json.Unmarshal(e.Data, &about); err != nil || about.Run != id {
			t.Fatalf("event %s %s", e.Name, e.Data)
		}
		told = append(told, strings.TrimSpace(e.Name+" "+about.Phase+about.State))
	}
	return told
}

func TestRunsBelongToWhoStartedThem(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, callsFor("fs_write", `{"path":"@project/note.md","content":"mine"}`), says("Written."))
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false }, withModel(s))
	admin := n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
	someone := func(name string) *bridgetest.Raw {
		key := field(t, must(t, admin, "key.create", fmt.Sprintf(`{"principal_id":%q}`, name)), "key")
		return n.Caller(t, name, withPassword("apikey", key))
	}
	alice, bob := someone("alice"), someone("bob")
	id := runAs(t, alice, `{"input":"Write a note","project":"notes"}`)
	if phase, message := restOf(t, alice, id); phase != "WaitingUser" || message != "Written." {
		t.Fatalf("alice's run is %s: %s", phase, message)
	}
	of := fmt.Sprintf(`{"run_id":%q}`, id)
	for _, command := range []string{"llm.run.status", "llm.run.turns", "llm.run.continue", "llm.run.cancel"} {
		if answer := bob.Ask(t, bridgetest.Request(protocol.NewID(), command, of)); protocol.CodeOf(errorOf(answer)) != protocol.NotFound {
			t.Errorf("bob's %s: %v", command, answer.Err)
		}
	}
	if answer := bob.Ask(t, bridgetest.Request("1", "llm.run.start", `{"input":"x","project":"notes"}`)); protocol.CodeOf(errorOf(answer)) != protocol.VFSPermission {
		t.Errorf("bob works on alice's files: %v", answer.Err)
	}
	if answer := bob.Ask(t, bridgetest.Request("2", "llm.run.import", `{"content":"UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
		t.Errorf("an end agent imports packages: %v", answer.Err)
	}
	if answer := admin.Ask(t, bridgetest.Request("3", "llm.run.import", `{"content":"UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}`)); protocol.CodeOf(errorOf(answer)) != protocol.InvalidParameter || !strings.Contains(answer.Err.Message, "bmad.json") {
		t.Errorf("an empty package: %v", answer.Err)
	}
}

func TestRunsReachNoFilesThatTheirStarterMayNot(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, callsFor("fs_write", `{"path":"@project/note.md","content":"mine"}`), says("Written."))
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false }, withModel(s))
	admin := n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
	limited := func(id, scopes string) *bridgetest.Raw {
		key := field(t, must(t, admin, "key.create", fmt.Sprintf(`{"principal_id":"olga","kind":"operator","roles":["operator"],"scopes":%s}`, scopes)), "key")
		return n.Caller(t, id, withPassword("apikey", key))
	}
	for name, scopes := range map[string]string{"models": `["llm:*"]`, "reader": `["llm:*","vfs:read"]`} {
		c := limited(name, scopes)
		for i, params := range []string{`{"input":"x","project":"notes"}`, `{"input":"x"}`} {
			if answer := c.Ask(t, bridgetest.Request(fmt.Sprint(name, i), "llm.run.start", params)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
				t.Errorf("%s works on files: %s: %v", name, params, answer.Err)
			}
		}
	}
	if answer := limited("importer", `["llm:*"]`).Ask(t, bridgetest.Request("1", "llm.run.import", `{"group_name":"notes","path":"a.zip"}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
		t.Errorf("a credential for models reads files: %v", answer.Err)
	}
	c := limited("writer", `["llm:*","vfs:*"]`)
	if phase, message := restOf(t, c, runAs(t, c, `{"input":"Write a note","project":"notes"}`)); phase != "WaitingUser" || message != "Written." {
		t.Errorf("the run is %s: %s", phase, message)
	}
	must(t, admin, "policy.put", `{"name":"notes","policy":"forbid (principal, action == Action::\"vfs:write\", resource == Vfs::\"notes\");"}`)
	if answer := c.Ask(t, bridgetest.Request("2", "llm.run.start", `{"input":"x","project":"notes"}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
		t.Errorf("policy does not hold for runs: %v", answer.Err)
	}
}
