package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

const burn = `{"data":{"skill_id":"heater","capability_id":"burn"}}`

// [A2A-3.3.2-1] [A2A-3.3.2-2] [A2A-3.3.2-3] [A2A-7.4-1] [A2A-13.1-1] [A2A-13.1-2] [A2A-3.1.4-1] [A2A-3.1.11-1] [A2A-13.3-1] [A2A-3.1.3-2] [A2A-7.4-2]
func TestTasksAreTheirPartysAlone(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, agents)
	heater(t, n, client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`)))
	ada := &a2aClient{base: n.HTTPURL(""), secret: keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)}
	task := ada.send(t, "m-1", setTo21, "")
	if task.Status.State != "TASK_STATE_COMPLETED" {
		t.Fatalf("got %+v", task)
	}
	for _, secret := range []string{"", "invented"} {
		stranger := &a2aClient{base: ada.base, secret: secret}
		for path, method := range map[string]string{
			"/a2a": http.MethodPost, "/a2a/tasks": http.MethodGet, "/a2a/extendedAgentCard": http.MethodGet, "/a2a/heater/.well-known/agent-card.json": http.MethodGet,
			"/a2a/tasks/" + task.ID: http.MethodGet, "/a2a/message:send": http.MethodPost, "/a2a/heater": http.MethodPost,
		} {
			status, text, header := stranger.text(t, method, path, `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`)
			if status != http.StatusUnauthorized || !strings.HasPrefix(header.Get("Www-Authenticate"), "Bearer ") || strings.Contains(text, "heater") {
				t.Errorf("%q at %s: %d %s %v", secret, path, status, text, header)
			}
		}
		if status, _, _ := stranger.text(t, http.MethodGet, "/.well-known/agent-card.json", ""); secret == "" && status != http.StatusOK {
			t.Errorf("the public card: %d", status)
		}
	}
	for who, params := range map[string]string{
		"another operator":     `{"principal_id":"bob","kind":"operator","roles":["operator"]}`,
		"one of another space": `{"principal_id":"ada","kind":"operator","roles":["operator"],"space_id":"elsewhere"}`,
		"an administrator":     `{"principal_id":"root","kind":"operator","roles":["administrator"]}`,
	} {
		other := &a2aClient{base: ada.base, secret: keyFor(t, admin, params)}
		for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
			_, mine := other.rpc(t, method, fmt.Sprintf(`{"id":%q}`, task.ID))
			_, none := other.rpc(t, method, `{"id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`)
			if mine.reason() != "TASK_NOT_FOUND" || none == nil || mine.Message != none.Message || mine.Code != none.Code {
				t.Errorf("%s learns of the task by %s: %+v, %+v", who, method, mine, none)
			}
		}
		if result, fault := other.rpc(t, "ListTasks", `{}`); fault != nil || !strings.Contains(string(result), `"totalSize":0`) {
			t.Errorf("%s lists %s %+v", who, result, fault)
		}
		if _, fault := other.rpc(t, "SendMessage", other.saying("x", setTo21, fmt.Sprintf(`,"taskId":%q`, task.ID))); fault.reason() != "TASK_NOT_FOUND" {
			t.Errorf("%s speaks to the task: %+v", who, fault)
		}
	}
	narrow := &a2aClient{base: ada.base, secret: keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"],"scopes":["skill:invoke"]}`)}
	for method, path := range map[string]string{"GetTask": "/a2a/tasks/" + task.ID, "ListTasks": "/a2a/tasks"} {
		if _, fault := narrow.rpc(t, method, fmt.Sprintf(`{"id":%q}`, task.ID)); fault == nil || fault.Code != -32000 {
			t.Errorf("%s without the right: %+v", method, fault)
		}
		if status, text, _ := narrow.text(t, http.MethodGet, path, ""); status != http.StatusForbidden || !strings.Contains(text, "PERMISSION_DENIED") {
			t.Errorf("%s without the right: %d %s", path, status, text)
		}
	}
	elsewhere := &a2aClient{base: ada.base, secret: keyFor(t, admin, `{"principal_id":"zoe","kind":"operator","roles":["operator"],"space_id":"elsewhere"}`), tenant: "heater"}
	if _, fault := elsewhere.rpc(t, "SendMessage", elsewhere.saying("x", `{"data":{"capability_id":"set","params":{"celsius":21}}}`, "")); fault == nil || fault.Code != -32602 {
		t.Errorf("a set of skills of another space: %+v", fault)
	}
	if card, fault := elsewhere.rpc(t, "GetExtendedAgentCard", `{}`); fault != nil || strings.Contains(string(card), "heater") {
		t.Errorf("the card for another space: %s %+v", card, fault)
	}
}

// adminAgain is the administrator after a restart.
func adminAgain(t *testing.T, n *bridgetest.Node) *bridgetest.Raw {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return n.Caller(t, "admin", withPassword("apikey", strings.TrimSpace(string(key))))
}

// decideAs decides about the one approval that waits.
func decideAs(t *testing.T, admin *bridgetest.Raw, decision string) {
	t.Helper()
	var shown struct {
		Nonce string `json:"nonce"`
	}
	id := waitingApprovals(t, admin)[0]
	if err := json.Unmarshal(must(t, admin, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, id)), &shown); err != nil {
		t.Fatal(err)
	}
	must(t, admin, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":%q}`, id, shown.Nonce, decision))
}

// [A2A-7.6.1-1] [A2A-7.6.1-2] [A2A-7.6.1-3] [A2A-3.2.2-1]
func TestAnAgentsCallWaitsForAnApprovalBeyondARestart(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, agents)
	device := client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`))
	heater(t, n, device)
	ada := &a2aClient{base: n.HTTPURL(""), secret: keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)}
	task := ada.send(t, "m-1", burn, "")
	if task.Status.State != "TASK_STATE_AUTH_REQUIRED" || !strings.Contains(task.says(), "heater.burn waits for the approval") || task.Status.Message.Role != "ROLE_AGENT" {
		t.Fatalf("the call: %+v", task)
	}
	if _, fault := ada.rpc(t, "SendMessage", ada.saying("m-2", `{"data":{"decision":"approve","nonce":"made up"}}`, fmt.Sprintf(`,"taskId":%q`, task.ID))); fault == nil {
		t.Error("who asked has decided")
	}
	n.Restart(t)
	ada.base = n.HTTPURL("")
	admin = adminAgain(t, n)
	heater(t, n, device)
	if got := ada.get(t, task.ID); got.Status.State != "TASK_STATE_AUTH_REQUIRED" || len(got.History) != 1 {
		t.Fatalf("after a restart: %+v", got)
	}
	following := ada.do(t, http.MethodPost, "/a2a/tasks/"+task.ID+":subscribe", "")
	decideAs(t, admin, "approve")
	kinds := events(t, following, nil)
	if len(kinds) < 2 || kinds[0] != "task TASK_STATE_AUTH_REQUIRED" || kinds[len(kinds)-1] != "status TASK_STATE_COMPLETED" || !slices.Contains(kinds, "artifact result") {
		t.Errorf("the stream tells %q", kinds)
	}
	if end := ada.get(t, task.ID); end.result() != "{}" {
		t.Errorf("the end: %+v", end)
	}

	denied := ada.send(t, "m-3", burn, "")
	decideAs(t, admin, "deny")
	if end := ada.reaches(t, denied.ID, "TASK_STATE_FAILED"); !strings.Contains(end.says(), "denied the call") {
		t.Errorf("denied: %+v", end)
	}
	second := &a2aClient{base: ada.base, secret: keyFor(t, admin, `{"principal_id":"eva","kind":"operator","roles":["operator"]}`)}
	withdrawn := second.send(t, "m-4", burn, "")
	if end := second.send(t, "m-5", `{"data":{"decision":"deny"}}`, fmt.Sprintf(`,"taskId":%q`, withdrawn.ID)); end.Status.State != "TASK_STATE_CANCELED" {
		t.Errorf("withdrawn: %+v", end)
	}
	if left := waitingApprovals(t, admin); len(left) != 0 {
		t.Errorf("somebody is still asked: %q", left)
	}
}

func TestAnAgentDecidesForItselfWherePolicySaysSo(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents) // --dev: whoever is there may do everything
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	task := c.send(t, "m-1", burn, "")
	if task.Status.State != "TASK_STATE_INPUT_REQUIRED" || len(task.Status.Message.Parts) != 2 {
		t.Fatalf("the call: %+v", task)
	}
	var asked struct {
		Nonce string `json:"nonce"`
		Tool  string `json:"tool"`
	}
	if err := json.Unmarshal(task.Status.Message.Parts[1].Data, &asked); err != nil || asked.Tool != "heater.burn" || asked.Nonce == "" {
		t.Fatalf("asked %s", task.Status.Message.Parts[1].Data)
	}
	for said, want := range map[string]int{`{"text":"yes"}`: -32602, `{"data":{"decision":"approve"}}`: -32602} {
		if _, fault := c.rpc(t, "SendMessage", c.saying("m-2", said, fmt.Sprintf(`,"taskId":%q`, task.ID))); fault == nil || fault.Code != want {
			t.Errorf("%s: %+v", said, fault)
		}
	}
	c.send(t, "m-3", fmt.Sprintf(`{"data":{"decision":"approve","nonce":%q}}`, asked.Nonce), fmt.Sprintf(`,"taskId":%q,"contextId":%q`, task.ID, task.Context))
	if end := c.reaches(t, task.ID, "TASK_STATE_COMPLETED"); len(end.History) != 2 {
		t.Errorf("the end: %+v", end)
	}
}

func TestADispatchIsATaskWithAnArtifactOfEachMember(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	one, two := n.Device(t, "one", "one", `["switch"]`), n.Device(t, "two", "two", `["switch"]`)
	home(t, n.Caller(t, "caller"), "one", "two")
	c := &a2aClient{base: n.HTTPURL("")}
	stream := c.do(t, http.MethodPost, "/a2a/message:stream", c.saying("m-1", `{"data":{"cap_id":"home","group_id":"all","capability_id":"switch"}}`, ""))
	one.Reply(t, "one", one.Invocation(t), map[string]bool{"on": true})
	two.Reply(t, "two", two.Invocation(t), map[string]bool{"on": false})
	var id string
	kinds := events(t, stream, func(e a2aEvent) {
		if e.Task != nil {
			id = e.Task.ID
		}
	})
	if kinds[len(kinds)-1] != "status TASK_STATE_COMPLETED" || !slices.Contains(kinds, "artifact member-one") || !slices.Contains(kinds, "artifact member-two") {
		t.Errorf("the stream tells %q", kinds)
	}
	if end := c.get(t, id); len(end.Artifacts) != 2 || !strings.Contains(string(end.Artifacts[1].Parts[0].Data), `"on":false`) {
		t.Errorf("the end: %+v", end)
	}
}

func TestATextGoesToTheModel(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("Yes, a bit."))
	n := bridgetest.Start(t, agents, withModel(s))
	c := &a2aClient{base: n.HTTPURL("")}
	if task := c.send(t, "m-1", `{"text":"Is 26 degrees too warm?"}`, ""); task.Status.State != "TASK_STATE_COMPLETED" || task.result() != "Yes, a bit." {
		t.Errorf("got %+v", task)
	}
}

func TestAWorkflowIsATaskThatAsksItsUser(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("Which room?"), says("Warm in the kitchen."))
	n := bridgetest.Start(t, agents, withModel(s))
	c := &a2aClient{base: n.HTTPURL("")}
	task := c.send(t, "m-1", `{"data":{"run":{"mode":"chat","input":"Is it warm?"}}}`, "")
	if task.Status.State != "TASK_STATE_INPUT_REQUIRED" || task.says() != "Which room?" {
		t.Fatalf("got %+v", task)
	}
	c.send(t, "m-2", `{"text":"The kitchen."}`, fmt.Sprintf(`,"taskId":%q`, task.ID))
	eventually.Holds(t, "the workflow has said more", func() bool { return c.get(t, task.ID).says() == "Warm in the kitchen." })
	if later := c.get(t, task.ID).Status.Message.ID; later == task.Status.Message.ID {
		t.Errorf("two questions are one message, %s", later)
	}
	if result, fault := c.rpc(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, task.ID)); fault != nil {
		t.Errorf("cancel: %s %+v", result, fault)
	}
}

// A toldPush is a push notification.
type toldPush struct {
	header http.Header
	event  a2aEvent
	body   string
}

// [A2A-3.1.7-1] [A2A-3.1.7-2] [A2A-3.1.8-1] [A2A-3.1.9-1] [A2A-3.1.10-1] [A2A-3.1.10-2] [A2A-4.3.3-1] [A2A-4.3.3-2] [A2A-13.2-1] [A2A-3.1.7-3] [A2A-3.5.3-1] [A2A-4.3.3-3] [A2A-3.1.7-4]
func TestWebhooksAreToldOfTasks(t *testing.T) {
	t.Parallel()
	told := make(chan toldPush, 64)
	refuse := make(chan struct{}, 1)
	refuse <- struct{}{}
	desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-refuse: // the first attempt fails
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		default:
		}
		body, _ := io.ReadAll(r.Body)
		var kinds map[string]json.RawMessage
		if err := json.Unmarshal(body, &kinds); err != nil || len(kinds) != 1 || kinds["jsonrpc"] != nil || r.Header.Get("Content-Type") != "application/a2a+json" || r.Method != http.MethodPost {
			t.Errorf("a webhook is told %s %v", body, r.Header)
		}
		p := toldPush{header: r.Header, body: string(body)}
		_ = json.Unmarshal(body, &p.event)
		told <- p
	}))
	t.Cleanup(desk.Close)
	n := bridgetest.Start(t, agents, func(c *app.Config) { c.A2A.Push, c.A2A.PushPrivate = true, true })
	cancelled := heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	result, fault := c.rpc(t, "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"warm-up"}}]},
		"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"id":"mine","url":%q,"token":"t-1","authentication":{"scheme":"Bearer","credentials":"s3cret"}}}}`, desk.URL))
	var begun struct{ Task a2aTask }
	if err := json.Unmarshal(result, &begun); fault != nil || err != nil {
		t.Fatalf("%s %+v", result, fault)
	}
	id := begun.Task.ID
	first := <-told
	if first.event.Task == nil || first.event.Task.ID != id || first.header.Get("Authorization") != "Bearer s3cret" || first.header.Get("X-A2a-Notification-Token") != "t-1" {
		t.Errorf("told %s with %v", first.body, first.header)
	}
	config := func(method, params string) string {
		t.Helper()
		result, fault := c.rpc(t, method, fmt.Sprintf(`{"taskId":%q%s}`, id, params))
		if fault != nil {
			return fault.reason()
		}
		return string(result)
	}
	if got := config("GetTaskPushNotificationConfig", `,"id":"mine"`); !strings.Contains(got, desk.URL) || !strings.Contains(got, `"taskId":"`+id) {
		t.Errorf("the configuration is %s", got)
	}
	if got := config("CreateTaskPushNotificationConfig", fmt.Sprintf(`,"url":%q`, desk.URL+"/other")); !strings.Contains(got, `"id":"`) {
		t.Errorf("another: %s", got)
	}
	if _, fault := c.rpc(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","url":%q}`, desk.URL)); fault.reason() != "TASK_NOT_FOUND" {
		t.Errorf("of a task that there is not: %+v", fault)
	}
	if got := config("ListTaskPushNotificationConfigs", ``); strings.Count(got, `"url"`) != 2 {
		t.Errorf("both: %s", got)
	}
	for range 2 {
		if got := config("DeleteTaskPushNotificationConfig", `,"id":"mine"`); got != "{}" {
			t.Errorf("deleted: %s", got)
		}
	}
	if got := config("GetTaskPushNotificationConfig", `,"id":"mine"`); got != "TASK_NOT_FOUND" {
		t.Errorf("after that it is %s", got)
	}
	if _, fault := c.rpc(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":"ftp://a.example"}`, id)); fault == nil || fault.Code != -32602 {
		t.Errorf("a URL of another protocol: %+v", fault)
	}
	if _, fault := c.rpc(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, id)); fault != nil {
		t.Fatalf("%+v", fault)
	}
	<-cancelled
	for last := range told {
		if last.event.Status != nil && last.event.Status.Status.State == "TASK_STATE_CANCELED" {
			if last.header.Get("Authorization") != "" {
				t.Errorf("a configuration that was deleted is told: %v", last.header)
			}
			break
		}
	}
}

// A receiver that was named with a key is told nothing once that key is revoked, though the
// task goes on with another one of the principal.
func TestWebhooksGoWithTheKeyThatNamedThem(t *testing.T) {
	t.Parallel()
	told := make(chan string, 256)
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "TASK_STATE_CANCELED") {
			told <- r.URL.Path
		}
	}))
	t.Cleanup(desk.Close)
	n, admin, _ := guarded(t, agents, func(c *app.Config) { c.A2A.Push, c.A2A.PushPrivate = true, true })
	cancelled := heater(t, n, client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`)))
	const ada = `{"principal_id":"ada","kind":"operator","roles":["operator"]}`
	lost := keyFor(t, admin, ada)
	own, thief := &a2aClient{base: n.HTTPURL(""), secret: keyFor(t, admin, ada)}, &a2aClient{base: n.HTTPURL(""), secret: lost}
	result, fault := own.rpc(t, "SendMessage", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"warm-up"}}]},"configuration":{"returnImmediately":true}}`)
	var begun struct{ Task a2aTask }
	if err := json.Unmarshal(result, &begun); fault != nil || err != nil {
		t.Fatalf("%s %+v", result, fault)
	}
	for _, r := range []struct {
		by   *a2aClient
		path string
	}{{own, "/before"}, {thief, "/thief"}, {own, "/own"}} { // in this order they are told
		if config, fault := r.by.rpc(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":%q}`, begun.Task.ID, desk.URL+r.path)); fault != nil || strings.Contains(string(config), "grant") {
			t.Fatalf("%s: %s %+v", r.path, config, fault)
		}
	}
	must(t, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, keyID(lost)))
	if _, fault := own.rpc(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, begun.Task.ID)); fault != nil {
		t.Fatalf("%+v", fault)
	}
	<-cancelled
	for path := ""; path != "/own"; {
		if path = <-told; path == "/thief" {
			t.Error("who lost the key hears what comes of the task")
		}
	}
}

// [A2A-13.2-2]
func TestWebhooksOfAgentsAreNoWayIntoTheOwnNetwork(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents, func(c *app.Config) { c.A2A.Push = true })
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	for _, url := range []string{"http://127.0.0.1:1", "http://169.254.169.254/latest", "https://10.0.0.1/a", "http://localhost/", "http://[::1]/"} {
		_, fault := c.rpc(t, "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[%s]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, setTo21, url))
		if fault == nil || fault.Code != -32602 {
			t.Errorf("%s: %+v", url, fault)
		}
	}
}
