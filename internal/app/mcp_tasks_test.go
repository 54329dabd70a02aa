package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// soon has calls go on as tasks before a test loses patience.
func soon(c *app.Config) { c.MCP.TaskMS = 20 }

// A taskClient speaks MCP as a client does that takes tasks.
type taskClient struct {
	url, secret string
	can         string // further capabilities, as JSON behind a comma
}

// A taskReply is what it is answered.
type taskReply struct {
	Result struct {
		Type    string          `json:"resultType"`
		ID      string          `json:"taskId"`
		Status  string          `json:"status"`
		Message string          `json:"statusMessage"`
		Result  json.RawMessage `json:"result"`
		Inputs  map[string]struct {
			Params struct{ Mode, Message, URL string }
		} `json:"inputRequests"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	text string
}

// send sends one message. The name is what it is about: a tool or a task.
func (c *taskClient) send(t testing.TB, method, name, params string) *taskReply {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}%s}}}}`, method, params, c.can)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		r.Header.Set(key, value)
	}
	if c.secret != "" {
		r.Header.Set("Authorization", "Bearer "+c.secret)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: bridgetest.Patience}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	reply := &taskReply{text: string(text)}
	if err := json.Unmarshal(text, reply); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return reply
}

func (c *taskClient) call(t testing.TB, tool, arguments string) *taskReply {
	t.Helper()
	return c.send(t, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, arguments))
}

func (c *taskClient) get(t testing.TB, id string) *taskReply {
	t.Helper()
	return c.send(t, "tasks/get", id, fmt.Sprintf(`"taskId":%q,`, id))
}

// ends asks for a task until it has ended.
func (c *taskClient) ends(t testing.TB, id string) (end *taskReply) {
	t.Helper()
	eventually.Holds(t, "the task has ended", func() bool {
		end = c.get(t, id)
		return end.Error != nil || end.Result.Status != "working" && end.Result.Status != "input_required"
	})
	return end
}

const (
	canForm = `,"elicitation":{}`
	canOpen = `,"elicitation":{"url":{}}`
)

func TestACallThatWaitsForAnApprovalIsATaskThatOutlivesTheBridge(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	device := client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`))
	heater(t, n, device)
	operator := `{"principal_id":"ada","kind":"operator","roles":["operator"]}`
	ada := &taskClient{url: n.HTTPURL("/mcp"), secret: keyFor(t, admin, operator), can: canForm}

	made := ada.call(t, "heater.burn", `{}`)
	if made.Result.Type != "task" || made.Result.Status != "working" {
		t.Fatalf("the call: %s", made.text)
	}
	id := made.Result.ID
	waits := ada.get(t, id)
	if waits.Result.Status != "working" || len(waits.Result.Inputs) != 0 || !strings.Contains(waits.Result.Message, "heater.burn waits") {
		t.Errorf("who asked is asked whether it may: %s", waits.text)
	}
	for _, key := range waitingApprovals(t, admin) {
		ada.send(t, "tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{"approval-%s":{"action":"accept","content":{"decision":"approve"}}},`, id, key))
	}
	if got := waitingApprovals(t, admin); len(got) != 1 {
		t.Fatalf("who asked has decided: %v", got)
	}
	opens := *ada
	opens.can = canOpen
	asked := opens.get(t, id).Result.Inputs["console-"+waitingApprovals(t, admin)[0]]
	if asked.Params.Mode != "url" || asked.Params.URL != n.HTTPURL("/approvals/"+waitingApprovals(t, admin)[0]) {
		t.Errorf("a client that can open pages is asked to open %+v", asked)
	}

	for who, params := range map[string]string{
		"another operator":       `{"principal_id":"bob","kind":"operator","roles":["operator"]}`,
		"one of another space":   `{"principal_id":"ada","kind":"operator","roles":["operator"],"space_id":"elsewhere"}`,
		"an administrator":       `{"principal_id":"root","kind":"operator","roles":["administrator"]}`,
		"one without the scopes": `{"principal_id":"ada","kind":"operator","roles":["operator"],"scopes":["skill:invoke"]}`,
	} {
		other := &taskClient{url: ada.url, secret: keyFor(t, admin, params), can: canForm}
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			say := func(id string) *taskReply {
				return other.send(t, method, id, fmt.Sprintf(`"taskId":%q,"inputResponses":{},`, id))
			}
			mine, none := say(id), say("01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10")
			if mine.Error == nil || none.Error == nil || strings.ReplaceAll(mine.text, id, "") != strings.ReplaceAll(none.text, "01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10", "") {
				t.Errorf("%s learns of the task by %s: %s, %s", who, method, mine.text, none.text)
			}
		}
	}

	n.Restart(t)
	key, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	admin = n.Caller(t, "admin", withPassword("apikey", strings.TrimSpace(string(key))))
	heater(t, n, device)
	if got := ada.get(t, id); got.Result.Status != "working" {
		t.Fatalf("after a restart: %s", got.text)
	}
	var shown struct {
		Nonce string `json:"nonce"`
	}
	approval := waitingApprovals(t, admin)[0]
	if err := json.Unmarshal(must(t, admin, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, approval)), &shown); err != nil {
		t.Fatal(err)
	}
	must(t, admin, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, approval, shown.Nonce))
	if end := ada.ends(t, id); end.Result.Status != "completed" || strings.Contains(end.text, `"isError":true`) || !strings.Contains(string(end.Result.Result), `"content":[{"type":"text"`) {
		t.Errorf("the end: %s", end.text)
	}
}

// waitingApprovals are the ids of those that wait.
func waitingApprovals(t testing.TB, admin *bridgetest.Raw) (ids []string) {
	t.Helper()
	var list struct {
		Approvals []struct {
			ID string `json:"approval_id"`
		} `json:"approvals"`
	}
	if err := json.Unmarshal(must(t, admin, "approval.list", `{"state":"pending"}`), &list); err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Approvals {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestAClientDecidesForItselfWherePolicySaysSo(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t) // --dev: whoever is there may do everything
	heater(t, n)
	c := &taskClient{url: n.HTTPURL("/mcp"), can: canForm}
	for decision, want := range map[string]string{"approve": `"content":[{"type":"text","text":"{}"}]`, "deny": "anonymous denied the call: no"} {
		made := c.call(t, "heater.burn", `{}`)
		if made.Result.Type != "task" || made.Result.Status != "input_required" {
			t.Fatalf("the call: %s", made.text)
		}
		got := c.get(t, made.Result.ID)
		for key := range got.Result.Inputs {
			c.send(t, "tasks/update", made.Result.ID, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"decision":%q,"reason":"no"}}},`, made.Result.ID, key, decision))
		}
		if end := c.ends(t, made.Result.ID); end.Result.Status != "completed" || !strings.Contains(end.text, want) {
			t.Errorf("%s: %s", decision, end.text)
		}
	}
}

func TestAnAnswerToAFormIsAboutTheArgumentsThatItShowed(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	heater(t, n)
	editor := n.Caller(t, "editor")
	c := &taskClient{url: n.HTTPURL("/mcp"), can: canForm}
	made := c.call(t, "heater.burn", `{}`)
	asked := c.get(t, made.Result.ID).Result.Inputs
	approval := waitingApprovals(t, editor)[0]
	var shown struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal(must(t, editor, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, approval)), &shown); err != nil {
		t.Fatal(err)
	}
	must(t, editor, "approval.edit", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"arguments":{"celsius":900}}`, approval, shown.Nonce))
	answer := func(inputs map[string]struct {
		Params struct{ Mode, Message, URL string }
	}) {
		for key := range inputs {
			c.send(t, "tasks/update", made.Result.ID, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"decision":"deny"}}},`, made.Result.ID, key))
		}
	}
	answer(asked)
	if got := waitingApprovals(t, editor); len(asked) != 1 || len(got) != 1 {
		t.Fatalf("%v: an answer about the earlier arguments has decided about those that nobody was shown", asked)
	}
	now := c.get(t, made.Result.ID).Result.Inputs
	for key, input := range now {
		if !strings.Contains(input.Params.Message, "900") {
			t.Errorf("%s asks %q", key, input.Params.Message)
		}
	}
	answer(now)
	if end := c.ends(t, made.Result.ID); end.Result.Status != "completed" || !strings.Contains(end.text, "denied the call") {
		t.Errorf("the end: %s", end.text)
	}
}

func TestALongCallIsATaskThatIsCancelledAtTheDevice(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, soon)
	cancelled := heater(t, n)
	c := &taskClient{url: n.HTTPURL("/mcp")}
	made := c.call(t, "heater.warm-up", `{}`)
	if made.Result.Type != "task" || made.Result.Status != "working" {
		t.Fatalf("the call: %s", made.text)
	}
	id := fmt.Sprintf(`"taskId":%q,`, made.Result.ID)
	eventually.Holds(t, "the device is at work", func() bool {
		return strings.Contains(c.get(t, made.Result.ID).Result.Message, "getting warm")
	})
	if r := c.send(t, "tasks/cancel", made.Result.ID, id); r.Error != nil {
		t.Errorf("cancel: %s", r.text)
	}
	<-cancelled
	if end := c.ends(t, made.Result.ID); end.Result.Status != "cancelled" {
		t.Errorf("the end: %s", end.text)
	}
	if r := c.send(t, "tasks/cancel", made.Result.ID, id); r.Error != nil {
		t.Errorf("once more: %s", r.text)
	}
}

func TestADispatchIsTheTaskOfItsCall(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.MCP.TaskMS = 500 })
	one, two := n.Device(t, "one", "one", `["switch"]`), n.Device(t, "two", "two", `["switch"]`)
	caller := n.Caller(t, "caller")
	home(t, caller, "one", "two")
	c := &taskClient{url: n.HTTPURL("/mcp")}
	var made *taskReply
	dispatches := 0
	eventually.Holds(t, "the dispatch is stored before the call has taken too long, and so is its task", func() bool {
		dispatches++
		if made = c.call(t, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"switch"}`); made.Result.Type != "task" {
			t.Fatalf("the call: %s", made.text)
		}
		shown := must(t, caller, "task.get", fmt.Sprintf(`{"task_id":%q}`, made.Result.ID))
		return strings.Contains(string(shown), `"command":"group.dispatch"`)
	})
	for range dispatches {
		one.Reply(t, "one", one.Invocation(t), map[string]bool{"on": true})
		two.Reply(t, "two", two.Invocation(t), map[string]bool{"on": false})
	}
	end := c.ends(t, made.Result.ID)
	if end.Result.Status != "completed" || !strings.Contains(end.text, `"counts":{"ok":2}`) || !strings.Contains(end.text, `"data":{"on":false}`) {
		t.Errorf("the end: %s", end.text)
	}
}

func TestARolloutThatIsPausedHasNotEnded(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	one := n.Device(t, "one", "one", `["switch"]`)
	caller := n.Caller(t, "caller")
	home(t, caller, "one")
	var begun struct {
		ID string `json:"task_id"`
	}
	if err := json.Unmarshal(must(t, caller, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"switch","rollout":{"rate_per_minute":600}}`), &begun); err != nil {
		t.Fatal(err)
	}
	asked := one.Invocation(t)
	must(t, caller, "group.rollout.pause", fmt.Sprintf(`{"task_id":%q,"reason":"a storm"}`, begun.ID))
	c := &taskClient{url: n.HTTPURL("/mcp")}
	if got := c.get(t, begun.ID); got.Result.Status != "working" || !strings.HasPrefix(got.Result.Message, "paused: a storm; ") {
		t.Errorf("a paused rollout: %s", got.text)
	}
	must(t, caller, "group.rollout.resume", fmt.Sprintf(`{"task_id":%q}`, begun.ID))
	one.Reply(t, "one", asked, map[string]bool{"on": true})
	if end := c.ends(t, begun.ID); end.Result.Status != "completed" || !strings.Contains(end.text, `"state":"complete"`) {
		t.Errorf("the end: %s", end.text)
	}
}

func TestATaskOfACallIsAnsweredOverMQTT(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, soon)
	heater(t, n)
	c := n.Caller(t, "me")
	ask := func(method, params string) string {
		c.Send(t, "aibridge/bridge/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params))
		return string(c.Next(t).Payload)
	}
	var made taskReply
	if text := ask("tools/call", `"name":"heater.warm-up",`); json.Unmarshal([]byte(text), &made) != nil || made.Result.Type != "task" {
		t.Fatalf("the call: %s", text)
	}
	id := fmt.Sprintf(`"taskId":%q,`, made.Result.ID)
	if text := ask("tasks/get", id); !strings.Contains(text, `"status":"working"`) {
		t.Errorf("the task: %s", text)
	}
	if text := ask("tasks/cancel", id); !strings.Contains(text, `"result":{"resultType":"complete"}`) {
		t.Errorf("cancel: %s", text)
	}
}

// TestAClientThatGivesUpEarlyHasItsResultByTask has a client with the official SDK that
// takes no tasks and gives a call up after a while. It is told before that its call
// waits, and has the result by the task afterwards, also in another session.
func TestAClientThatGivesUpEarlyHasItsResultByTask(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.Approvals.WaitSeconds = 1 })
	heater(t, n)
	editor := n.Caller(t, "editor")
	c := mcpClient(t, n, "", "", nil)
	ctx, giveUp := context.WithTimeout(t.Context(), bridgetest.Patience) // as other clients do after a minute
	defer giveUp()
	told, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "heater.burn"})
	if err != nil || told.IsError {
		t.Fatalf("it is told %+v, %v", told, err)
	}
	var waiting struct {
		Task string `json:"task_id"`
	}
	text, _ := json.Marshal(told.Meta["aibridge/waiting"])
	if err := json.Unmarshal(text, &waiting); err != nil || waiting.Task == "" || !strings.Contains(textOf(told), waiting.Task) {
		t.Fatalf("it is told %s with %s", textOf(told), text)
	}
	_ = c.Close()
	decide(t, editor, askedFor(t, editor, waiting.Task), "approve")
	again := mcpClient(t, n, "", "", nil)
	var got *sdk.CallToolResult
	eventually.Holds(t, "the task has ended", func() bool {
		if got, err = again.CallTool(t.Context(), &sdk.CallToolParams{Name: "task.get", Arguments: map[string]any{"task_id": waiting.Task}}); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(textOf(got), `"ended_at"`)
	})
	if !strings.Contains(textOf(got), `"succeeded"`) || !strings.Contains(textOf(got), "Success") {
		t.Errorf("the task is %s", textOf(got))
	}
}

// TestALongCallOfAClientThatGivesUpGoesOnAsATask has clients of the official SDK that take
// no tasks call a kiln, which takes longer than they wait. Their models are told the task
// before that, and have the result by it. One that hears of progress waits.
func TestALongCallOfAClientThatGivesUpGoesOnAsATask(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.MCP.HoldMS = 50 })
	var fired atomic.Int32
	done := make(chan struct{})
	kiln := n.Dial(t, client.WithAgent(client.Agent{ID: "kiln"}))
	if _, err := kiln.ServeSkill(t.Context(), client.Skill{ID: "kiln", Capabilities: []client.Capability{{
		ID: "fire", Handler: client.Handle(func(ctx context.Context, in *client.Invocation, _ struct{}) (map[string]int, error) {
			fired.Add(1)
			in.Progress(1, "it gets warm")
			select {
			case <-done:
				return map[string]int{"celsius": 1240}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
	}}}); err != nil {
		t.Fatal(err)
	}
	c := mcpClient(t, n, "", "", nil)
	told, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "kiln.fire"})
	if err != nil || told.IsError {
		t.Fatalf("it is told %+v, %v", told, err)
	}
	var waiting struct {
		Task string `json:"task_id"`
		Tool string `json:"tool"`
	}
	text, _ := json.Marshal(told.Meta["aibridge/waiting"])
	if err := json.Unmarshal(text, &waiting); err != nil || waiting.Task == "" || waiting.Tool != "kiln.fire" || !strings.Contains(textOf(told), waiting.Task) {
		t.Fatalf("it is told %s with %s", textOf(told), text)
	}
	_ = c.Close() // which ends the task no more

	patient := make(chan string, 1)
	again := mcpClient(t, n, "", "", nil)
	go func() {
		r, err := again.CallTool(t.Context(), &sdk.CallToolParams{Name: "kiln.fire", Meta: sdk.Meta{"progressToken": "p"}})
		if err != nil {
			patient <- err.Error()
			return
		}
		patient <- textOf(r)
	}()
	eventually.Holds(t, "the kiln was asked twice", func() bool { return fired.Load() == 2 })
	close(done)
	if said := <-patient; !strings.Contains(said, "1240") {
		t.Errorf("a client that hears of progress is told %s", said)
	}
	var got *sdk.CallToolResult
	eventually.Holds(t, "the task has ended", func() bool {
		if got, err = again.CallTool(t.Context(), &sdk.CallToolParams{Name: "task.get", Arguments: map[string]any{"task_id": waiting.Task}}); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(textOf(got), `"ended_at"`)
	})
	if !strings.Contains(textOf(got), `"succeeded"`) || !strings.Contains(textOf(got), "1240") || fired.Load() != 2 {
		t.Errorf("after %d firings the task is %s", fired.Load(), textOf(got))
	}
}
