package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// agents serves A2A.
func agents(c *app.Config) { c.A2A.On = true }

// An a2aClient speaks A2A as an agent does.
type a2aClient struct {
	base, secret string
	tenant       string
}

// An a2aTask is a task as it is told of.
type a2aTask struct {
	ID      string `json:"id"`
	Context string `json:"contextId"`
	Status  struct {
		State     string     `json:"state"`
		Message   a2aMessage `json:"message"`
		Timestamp string     `json:"timestamp"`
	} `json:"status"`
	Artifacts []struct {
		ID    string    `json:"artifactId"`
		Parts []a2aPart `json:"parts"`
	} `json:"artifacts"`
	History []a2aMessage `json:"history"`
}

type a2aMessage struct {
	ID      string    `json:"messageId"`
	Context string    `json:"contextId"`
	Task    string    `json:"taskId"`
	Role    string    `json:"role"`
	Parts   []a2aPart `json:"parts"`
}

type a2aPart struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
}

func (t *a2aTask) result() string {
	if len(t.Artifacts) == 0 || len(t.Artifacts[0].Parts) == 0 {
		return ""
	}
	p := t.Artifacts[0].Parts[0]
	return p.Text + string(p.Data)
}

func (t *a2aTask) says() string {
	var texts []string
	for _, p := range t.Status.Message.Parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, " ")
}

// An a2aFault is an error of either binding.
type a2aFault struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Data    []struct {
		Type       string `json:"@type"`
		Reason     string `json:"reason"`
		Domain     string `json:"domain"`
		Violations []struct {
			Field string `json:"field"`
		} `json:"fieldViolations"`
	} `json:"data"`
}

func (f *a2aFault) reason() string {
	if f == nil || len(f.Data) == 0 {
		return ""
	}
	return f.Data[0].Reason
}

// do sends a request of HTTP, with the version of the protocol unless headers say
// otherwise, and returns the answer, whose body the caller closes.
func (c *a2aClient) do(t testing.TB, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	if c.secret != "" {
		r.Header.Set("Authorization", "Bearer "+c.secret)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport, Timeout: bridgetest.Patience}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// text sends a request of HTTP and returns the body of the answer.
func (c *a2aClient) text(t testing.TB, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	response := c.do(t, method, path, body, headers...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// rpc calls a method by JSON-RPC.
func (c *a2aClient) rpc(t testing.TB, method, params string, headers ...string) (json.RawMessage, *a2aFault) {
	t.Helper()
	_, text, _ := c.text(t, http.MethodPost, "/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":"r-1","method":%q,"params":%s}`, method, params), headers...)
	var answer struct {
		ID     string          `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *a2aFault       `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.ID != "r-1" || (answer.Result == nil) == (answer.Error == nil) {
		t.Fatalf("%s %s: %v %s", method, params, err, text)
	}
	return answer.Result, answer.Error
}

// saying is a request to send one part of a message.
func (c *a2aClient) saying(id, part, more string) string {
	return fmt.Sprintf(`{"tenant":%q,"message":{"messageId":%q,"role":"ROLE_USER","parts":[%s]%s}}`, c.tenant, id, part, more)
}

// send sends a part, and returns the task that it is answered with.
func (c *a2aClient) send(t testing.TB, id, part, more string) *a2aTask {
	t.Helper()
	result, fault := c.rpc(t, "SendMessage", c.saying(id, part, more))
	if fault != nil {
		t.Fatalf("SendMessage %s: %+v", part, fault)
	}
	var answer struct{ Task *a2aTask }
	if err := json.Unmarshal(result, &answer); err != nil || answer.Task == nil {
		t.Fatalf("SendMessage: %s", result)
	}
	return answer.Task
}

func (c *a2aClient) get(t testing.TB, id string) *a2aTask {
	t.Helper()
	result, fault := c.rpc(t, "GetTask", fmt.Sprintf(`{"tenant":%q,"id":%q}`, c.tenant, id))
	if fault != nil {
		t.Fatalf("GetTask: %+v", fault)
	}
	task := new(a2aTask)
	if err := json.Unmarshal(result, task); err != nil {
		t.Fatal(err)
	}
	return task
}

func (c *a2aClient) reaches(t testing.TB, id, state string) (task *a2aTask) {
	t.Helper()
	eventually.Holds(t, "the task is "+state, func() bool {
		task = c.get(t, id)
		return task.Status.State == state
	})
	return task
}

// An a2aEvent is one of a stream.
type a2aEvent struct {
	Task   *a2aTask `json:"task"`
	Status *struct {
		Task    string `json:"taskId"`
		Context string `json:"contextId"`
		Status  struct {
			State   string     `json:"state"`
			Message a2aMessage `json:"message"`
		} `json:"status"`
	} `json:"statusUpdate"`
	Artifact *struct {
		Task     string `json:"taskId"`
		Artifact struct {
			ID    string    `json:"artifactId"`
			Parts []a2aPart `json:"parts"`
		} `json:"artifact"`
	} `json:"artifactUpdate"`
}

// events reads a stream to its end, as its binding has it.
func events(t testing.TB, response *http.Response, heard func(a2aEvent)) []string {
	t.Helper()
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("no stream: %d %s", response.StatusCode, text)
	}
	var kinds []string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var wrapped struct {
			Version string          `json:"jsonrpc"`
			Result  json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal([]byte(data), &wrapped); err != nil {
			t.Fatal(err)
		}
		if wrapped.Version != "" {
			data = string(wrapped.Result)
		}
		var e a2aEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Task != nil:
			kinds = append(kinds, "task "+e.Task.Status.State)
		case e.Status != nil:
			kinds = append(kinds, "status "+e.Status.Status.State)
		case e.Artifact != nil:
			kinds = append(kinds, "artifact "+e.Artifact.Artifact.ID)
		default:
			t.Errorf("an event of no kind: %s", data)
		}
		if heard != nil {
			heard(e)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return kinds
}

const setTo21 = `{"data":{"skill_id":"heater","capability_id":"set","params":{"celsius":21}}}`

// [A2A-3.1.1-1] [A2A-3.4.1-1] [A2A-3.4.1-2] [A2A-3.4.2-1] [A2A-3.4.2-2] [A2A-3.2.2-1] [A2A-5.6.1-1] [A2A-3.1.3-1]
func TestAnAgentMakesADeviceAct(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	task := c.send(t, "m-1", setTo21, "")
	if task.Status.State != "TASK_STATE_COMPLETED" || task.result() != `{"target":21}` || task.ID == "" || task.Context == "" {
		t.Fatalf("got %+v", task)
	}
	if len(task.History) != 1 || task.History[0].ID != "m-1" || task.History[0].Context != task.Context {
		t.Errorf("the history is %+v", task.History)
	}
	if at := task.Status.Timestamp; len(at) != len("2026-01-31T12:00:00.000Z") || at[23] != 'Z' {
		t.Errorf("the timestamp is %s", at)
	}
	if again := c.get(t, task.ID); again.result() != task.result() || again.Status.State != task.Status.State {
		t.Errorf("later it is %+v", again)
	}
	heaterAlone := &a2aClient{base: n.HTTPURL(""), tenant: "heater"}
	if own := heaterAlone.send(t, "m-2", `{"data":{"capability_id":"set","params":{"celsius":22}}}`, ""); own.result() != `{"target":22}` {
		t.Errorf("the set of skills as an agent: %+v", own)
	}
	if _, fault := heaterAlone.rpc(t, "GetTask", fmt.Sprintf(`{"tenant":"heater","id":%q}`, task.ID)); fault.reason() != "TASK_NOT_FOUND" {
		t.Errorf("a task of another agent: %+v", fault)
	}
}

func TestSilenceIsTheDefault(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	c := &a2aClient{base: n.HTTPURL("")}
	for _, path := range []string{"/a2a", "/a2a/tasks", "/.well-known/agent-card.json"} {
		if status, text, _ := c.text(t, http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// [A2A-3.2.2-2] [A2A-3.1.6-1] [A2A-3.1.6-2] [A2A-3.1.6-3] [A2A-3.5.2-1] [A2A-3.5.2-2] [A2A-3.5.2-3] [A2A-3.1.5-1] [A2A-3.1.5-2]
func TestStreamsOfATaskTellTheSame(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	cancelled := heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	result, fault := c.rpc(t, "SendMessage", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"warm-up"}}]},"configuration":{"returnImmediately":true}}`)
	if fault != nil {
		t.Fatalf("%+v", fault)
	}
	var begun struct{ Task a2aTask }
	if err := json.Unmarshal(result, &begun); err != nil || begun.Task.Status.State != "TASK_STATE_WORKING" && begun.Task.Status.State != "TASK_STATE_SUBMITTED" {
		t.Fatalf("at once: %s", result)
	}
	id := begun.Task.ID
	eventually.Holds(t, "the device tells how far it is", func() bool { return c.get(t, id).says() == "40 % getting warm" })

	gone := c.do(t, http.MethodGet, "/a2a/tasks/"+id+":subscribe", "")
	first, err := bufio.NewReader(gone.Body).ReadString('\n')
	if err != nil || !strings.Contains(first, `"task"`) {
		t.Fatalf("%q %v", first, err)
	}
	_ = gone.Body.Close()
	subscribe := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"SubscribeToTask","params":{"id":%q}}`, id)
	streams := []*http.Response{
		c.do(t, http.MethodPost, "/a2a", subscribe), c.do(t, http.MethodPost, "/a2a/tasks/"+id+":subscribe", ""), c.do(t, http.MethodGet, "/a2a/tasks/"+id+":subscribe", ""),
	}
	canceled, fault := c.rpc(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, id))
	if fault != nil || !strings.Contains(string(canceled), "TASK_STATE_CANCELED") {
		t.Fatalf("CancelTask: %s %+v", canceled, fault)
	}
	<-cancelled
	for i, s := range streams {
		if got := events(t, s, nil); !slices.Equal(got, []string{"task TASK_STATE_WORKING", "status TASK_STATE_CANCELED"}) {
			t.Errorf("stream %d: %q", i, got)
		}
	}
	for method, want := range map[string]string{"CancelTask": "TASK_NOT_CANCELABLE", "SubscribeToTask": "UNSUPPORTED_OPERATION"} {
		if _, fault := c.rpc(t, method, fmt.Sprintf(`{"id":%q}`, id)); fault.reason() != want {
			t.Errorf("%s of a task that has ended: %+v", method, fault)
		}
	}
}

// [A2A-3.1.2-1] [A2A-11.7-1] [A2A-9.4.2-1]
func TestASentMessageIsFollowedInBothBindings(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	for binding, response := range map[string]*http.Response{
		"JSON-RPC": c.do(t, http.MethodPost, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+c.saying("s-1", setTo21, "")+`}`),
		"REST":     c.do(t, http.MethodPost, "/a2a/message:stream", c.saying("s-2", setTo21, ""), "Content-Type", "application/a2a+json"),
	} {
		var artifact string
		kinds := events(t, response, func(e a2aEvent) {
			switch {
			case e.Artifact != nil:
				artifact = string(e.Artifact.Artifact.Parts[0].Data)
			case e.Task != nil && len(e.Task.Artifacts) > 0:
				artifact = e.Task.result()
			}
		})
		if len(kinds) == 0 || !strings.HasPrefix(kinds[0], "task ") || !strings.HasSuffix(kinds[len(kinds)-1], "TASK_STATE_COMPLETED") || artifact != `{"target":21}` {
			t.Errorf("%s: %q, %s", binding, kinds, artifact)
		}
	}
}

// [A2A-3.1.1-2] [A2A-3.4.1-3] [A2A-3.4.2-3] [A2A-3.4.3-1] [A2A-3.4.3-2] [A2A-3.3.2-4] [A2A-3.3.2-5] [A2A-5.7-1] [A2A-9.3-1] [A2A-5.4-1] [A2A-9.5-1] [A2A-3.1.1-3] [A2A-3.1.6-4] [A2A-9.1-1]
func TestWhatIsWrongIsToldByJSONRPC(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	done := c.send(t, "m-1", setTo21, `,"contextId":"my-context"`)
	if done.Context != "my-context" {
		t.Errorf("the context is %q", done.Context)
	}
	message := func(fields string) string { return `{"message":{` + fields + `}}` }
	ok := `"messageId":"w","role":"ROLE_USER","parts":[` + setTo21 + `]`
	for what, want := range map[string]struct {
		method, params string
		code           int
		reason, field  string
	}{
		"an unknown method":          {"tasks/get", `{}`, -32601, "", ""},
		"params that are no object":  {"GetTask", `[1]`, -32602, "", ""},
		"no message":                 {"SendMessage", `{}`, -32602, "", "message"},
		"no message id":              {"SendMessage", message(`"role":"ROLE_USER","parts":[{"text":"a"}]`), -32602, "", "message.messageId"},
		"no role":                    {"SendMessage", message(`"messageId":"w","parts":[{"text":"a"}]`), -32602, "", "message.role"},
		"an agent's role":            {"SendMessage", message(`"messageId":"w","role":"ROLE_AGENT","parts":[{"text":"a"}]`), -32602, "", "message.role"},
		"a role of version 0.3":      {"SendMessage", message(`"messageId":"w","role":"user","parts":[{"text":"a"}]`), -32602, "", "message.role"},
		"no parts":                   {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[]`), -32602, "", "message.parts"},
		"a part of version 0.3":      {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"kind":"data"}]`), -32602, "", "message.parts[0].content"},
		"a part with two contents":   {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]`), -32602, "", "message.parts[0].content"},
		"data that says nothing":     {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"data":{"celsius":21}}]`), -32602, "", "message.parts.data"},
		"a capability there is not":  {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"fly"}}]`), -32602, "", "message.parts.data"},
		"a text without a model":     {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"text":"warmer"}]`), -32005, "CONTENT_TYPE_NOT_SUPPORTED", ""},
		"a file":                     {"SendMessage", message(`"messageId":"w","role":"ROLE_USER","parts":[{"raw":"aGk=","mediaType":"image/png"}]`), -32005, "CONTENT_TYPE_NOT_SUPPORTED", ""},
		"an unknown agent":           {"SendMessage", `{"tenant":"oven","message":{` + ok + `}}`, -32602, "", "tenant"},
		"an unknown task":            {"SendMessage", message(ok + `,"taskId":"` + "01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c" + `"`), -32001, "TASK_NOT_FOUND", ""},
		"a task that has ended":      {"SendMessage", message(ok + `,"taskId":"` + done.ID + `"`), -32004, "UNSUPPORTED_OPERATION", ""},
		"a context of another":       {"SendMessage", message(ok + `,"contextId":"other","taskId":"` + done.ID + `"`), -32602, "", "message.contextId"},
		"an id said again":           {"SendMessage", message(`"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"set","params":{"celsius":5}}}]`), -32602, "", "message.messageId"},
		"nobody to tell of":          {"GetTask", `{"id":"x"}`, -32001, "TASK_NOT_FOUND", ""},
		"a negative length":          {"GetTask", `{"id":"x","historyLength":-1}`, -32602, "", "historyLength"},
		"an id that is no text":      {"CancelTask", `{"id":7}`, -32602, "", "id"},
		"nothing to listen to":       {"SubscribeToTask", `{"id":"x"}`, -32001, "TASK_NOT_FOUND", ""},
		"a page too long":            {"ListTasks", `{"pageSize":101}`, -32602, "", "pageSize"},
		"a page of nothing":          {"ListTasks", `{"pageSize":0}`, -32602, "", "pageSize"},
		"an invented cursor":         {"ListTasks", `{"pageToken":"x"}`, -32602, "", "pageToken"},
		"an unknown state":           {"ListTasks", `{"status":"working"}`, -32602, "", "status"},
		"a time that is none":        {"ListTasks", `{"statusTimestampAfter":"today"}`, -32602, "", "statusTimestampAfter"},
		"push, where there is none":  {"CreateTaskPushNotificationConfig", `{"taskId":"` + done.ID + `","url":"https://a.example"}`, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
		"push, where there is none2": {"ListTaskPushNotificationConfigs", `{"taskId":"` + done.ID + `"}`, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
		"push, where there is none3": {"GetTaskPushNotificationConfig", `{"taskId":"` + done.ID + `","id":"a"}`, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
		"push, where there is none4": {"DeleteTaskPushNotificationConfig", `{"taskId":"` + done.ID + `","id":"a"}`, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", ""},
	} {
		_, fault := c.rpc(t, want.method, want.params)
		if fault == nil || fault.Code != want.code || fault.reason() != want.reason || fault.Message == "" {
			t.Errorf("%s: %+v", what, fault)
			continue
		}
		if want.reason != "" && (fault.Data[0].Domain != "a2a-protocol.org" || fault.Data[0].Type != "type.googleapis.com/google.rpc.ErrorInfo") {
			t.Errorf("%s: %+v", what, fault.Data)
		}
		if want.field != "" && (len(fault.Data) == 0 || len(fault.Data[0].Violations) == 0 || fault.Data[0].Violations[0].Field != want.field) {
			t.Errorf("%s: the field is told as %+v", what, fault.Data)
		}
	}
	if again := c.send(t, "m-1", setTo21, `,"contextId":"my-context"`); again.ID != done.ID {
		t.Errorf("a message that is sent again began another task, %s", again.ID)
	}
	for body, code := range map[string]int{
		`{`: -32700, `[]`: -32600, `"a"`: -32600, `{"id":1,"method":"GetTask"}`: -32600, `{"jsonrpc":"2.0","method":"GetTask"}`: -32600,
		`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`: -32600, `{"jsonrpc":"2.0","id":1}`: -32600, `[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]`: -32600,
	} {
		status, text, header := c.text(t, http.MethodPost, "/a2a", body)
		if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"code":%d,`, code)) || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// [A2A-5.1-1] [A2A-5.1-2] [A2A-5.4-2] [A2A-11.5-1] [A2A-11.6-1] [A2A-3.3.2-6] [A2A-11.3-1]
func TestRESTDoesTheSame(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	status, text, header := c.text(t, http.MethodPost, "/a2a/message:send", c.saying("m-1", setTo21, ""), "Content-Type", "application/a2a+json")
	var sent struct{ Task a2aTask }
	if err := json.Unmarshal([]byte(text), &sent); err != nil || status != http.StatusOK || sent.Task.result() != `{"target":21}` || header.Get("Content-Type") != "application/a2a+json" {
		t.Fatalf("message:send: %d %s", status, text)
	}
	id := sent.Task.ID
	if rpc := c.get(t, id); rpc.result() != sent.Task.result() {
		t.Errorf("by JSON-RPC it is %+v", rpc)
	}
	status, text, _ = c.text(t, http.MethodPost, "/a2a/heater/message:send", `{"message":{"message_id":"m-9","role":1,"parts":[{"data":{"capability_id":"set","params":{"celsius":9}}}]}}`)
	if status != http.StatusOK || !strings.Contains(text, `{"target":9}`) {
		t.Errorf("a set of skills, in the names of the .proto file: %d %s", status, text)
	}
	for path, want := range map[string]string{
		"GET /a2a/tasks/" + id:                          `"id":"` + id + `"`,
		"GET /a2a/tasks/" + id + "?historyLength=0":     `"artifacts":[`,
		"GET /a2a/tasks?includeArtifacts=true":          `"target":21`,
		"GET /a2a/tasks?status=TASK_STATE_COMPLETED":    `"totalSize":1`,
		"GET /a2a/tasks?status=TASK_STATE_WORKING":      `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`,
		"GET /a2a/tasks?pageSize=1&contextId=elsewhere": `"pageSize":1,"totalSize":0`,
		"GET /a2a/heater/tasks":                         `"totalSize":1`,
		"GET /a2a/extendedAgentCard":                    `"heater.set"`,
		"GET /a2a/heater/extendedAgentCard":             `"tenant":"heater"`,
	} {
		method, path, _ := strings.Cut(path, " ")
		if status, text, _ := c.text(t, method, path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for path, want := range map[string]string{
		"GET /a2a/tasks/nothing":                            `404 NOT_FOUND TASK_NOT_FOUND`,
		"POST /a2a/tasks/" + id + ":cancel":                 `400 FAILED_PRECONDITION TASK_NOT_CANCELABLE`,
		"POST /a2a/tasks/" + id + ":subscribe":              `400 FAILED_PRECONDITION UNSUPPORTED_OPERATION`,
		"GET /a2a/tasks/" + id + "/pushNotificationConfigs": `400 FAILED_PRECONDITION PUSH_NOTIFICATION_NOT_SUPPORTED`,
		"GET /a2a/tasks?pageSize=many":                      `400 INVALID_ARGUMENT `,
		"GET /a2a/tasks?includeArtifacts=TRUE":              `400 INVALID_ARGUMENT `,
		"POST /a2a/message:send":                            `400 INVALID_ARGUMENT `,
		"DELETE /a2a/tasks/" + id:                           `405 UNIMPLEMENTED `,
		"GET /a2a/a/b/c/d":                                  `404 NOT_FOUND `,
	} {
		method, path, _ := strings.Cut(path, " ")
		status, text, _ := c.text(t, method, path, "")
		var answer struct {
			Error struct {
				Code    int
				Status  string
				Message string
				Details []struct{ Reason string }
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s: %s", path, text)
		}
		reason := ""
		if len(answer.Error.Details) > 0 {
			reason = answer.Error.Details[0].Reason
		}
		if got := fmt.Sprint(answer.Error.Code, " ", answer.Error.Status, " ", reason); got != want || status != answer.Error.Code || answer.Error.Message == "" {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text, _ := c.text(t, http.MethodPost, "/a2a/message:send", "{}", "Content-Type", "text/plain"); status != http.StatusUnsupportedMediaType {
		t.Errorf("a body of another type: %d %s", status, text)
	}
	if status, text, _ := c.text(t, http.MethodPost, "/a2a", strings.Repeat(" ", 2<<20)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body without end: %d %s", status, text)
	}
}

// The whole of the table in section 5.3 of the specification, in both bindings.
//
// [A2A-5.3-1] [A2A-9.2-1] [A2A-3.2.4-2] [A2A-3.4.1-4]
func TestAllOperationsAreThereInBothBindings(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents, func(c *app.Config) { c.A2A.Push, c.A2A.PushPrivate = true, true })
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	result, fault := c.rpc(t, "SendMessage", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"warm-up"}}]},"configuration":{"returnImmediately":true,"historyLength":0}}`)
	if fault != nil || strings.Contains(string(result), "history") {
		t.Fatalf("without history: %s %+v", result, fault)
	}
	var begun struct{ Task a2aTask }
	if err := json.Unmarshal(result, &begun); err != nil {
		t.Fatal(err)
	}
	id := begun.Task.ID
	hook := `"id":"mine","url":"http://127.0.0.1:1/hook"`
	for _, op := range []struct{ method, params, verb, path, body, want string }{
		{"SendMessage", c.saying("m-2", setTo21, ""), "POST", "/message:send", c.saying("m-2", setTo21, ""), `"target":21`},
		{"SendStreamingMessage", c.saying("m-3", setTo21, ""), "POST", "/message:stream", c.saying("m-3", setTo21, ""), "TASK_STATE_COMPLETED"},
		{"GetTask", `{"id":"ID"}`, "GET", "/tasks/ID", "", `"id":"ID"`},
		{"ListTasks", `{}`, "GET", "/tasks", "", `"nextPageToken":""`},
		{"CreateTaskPushNotificationConfig", `{"taskId":"ID",` + hook + `}`, "POST", "/tasks/ID/pushNotificationConfigs", "{" + hook + "}", `"id":"mine"`},
		{"GetTaskPushNotificationConfig", `{"taskId":"ID","id":"mine"}`, "GET", "/tasks/ID/pushNotificationConfigs/mine", "", `"id":"mine"`},
		{"ListTaskPushNotificationConfigs", `{"taskId":"ID"}`, "GET", "/tasks/ID/pushNotificationConfigs", "", `"id":"mine"`},
		{"DeleteTaskPushNotificationConfig", `{"taskId":"ID","id":"mine"}`, "DELETE", "/tasks/ID/pushNotificationConfigs/mine", "", "{}"},
		{"GetExtendedAgentCard", `{}`, "GET", "/extendedAgentCard", "", `"heater.set"`},
		{"CancelTask", `{"id":"ID"}`, "POST", "/tasks/ID:cancel", "", ""},
		{"SubscribeToTask", `{"id":"ID"}`, "POST", "/tasks/ID:subscribe", "", "UNSUPPORTED_OPERATION"}, // as it has ended
	} {
		fill := strings.NewReplacer("ID", id).Replace
		_, byRPC, _ := c.text(t, http.MethodPost, "/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, op.method, fill(op.params)), "a2a-version", "1.0")
		_, byREST, _ := c.text(t, op.verb, "/a2a"+fill(op.path), op.body, "A2A-VERSION", "1.0")
		want := []string{fill(op.want), fill(op.want)}
		if op.method == "CancelTask" { // the second finds it canceled
			want = []string{"TASK_STATE_CANCELED", "TASK_NOT_CANCELABLE"}
		}
		if !strings.Contains(byRPC, want[0]) || !strings.Contains(byREST, want[1]) {
			t.Errorf("%s: %s\n%s %s: %s", op.method, byRPC, op.verb, op.path, byREST)
		}
	}
	for what, context := range map[string]string{"too long": strings.Repeat("x", 129), "not UTF-8": `\ud800`} {
		_, fault := c.rpc(t, "SendMessage", fmt.Sprintf(`{"message":{"messageId":"c","role":"ROLE_USER","parts":[%s],"contextId":"%s"}}`, setTo21, context))
		if fault == nil || fault.Code != -32602 || len(fault.Data) == 0 || fault.Data[0].Violations[0].Field != "message.contextId" {
			t.Errorf("a context that is %s: %+v", what, fault)
		}
	}
}

// [A2A-3.6-1] [A2A-3.6.2-1] [A2A-3.6.2-2] [A2A-4.6.3-1] [A2A-3.3.4-4]
func TestTheVersionIsNegotiated(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	c := &a2aClient{base: n.HTTPURL("")}
	for version, spoken := range map[string]bool{"1.0": true, "1.0.7": true, "": false, "0.3": false, "1.1": false, "2.0": false, "1": false, "1.0.x": false, "one": false} {
		_, fault := c.rpc(t, "ListTasks", `{}`, "A2A-Version", version)
		if (fault == nil) != spoken || fault != nil && (fault.Code != -32009 || fault.reason() != "VERSION_NOT_SUPPORTED") {
			t.Errorf("%q: %+v", version, fault)
		}
		status, text, _ := c.text(t, http.MethodGet, "/a2a/tasks", "", "A2A-Version", version)
		if (status == http.StatusOK) != spoken || !spoken && (status != http.StatusBadRequest || !strings.Contains(text, "VERSION_NOT_SUPPORTED")) {
			t.Errorf("%q by REST: %d %s", version, status, text)
		}
	}
	if status, text, _ := c.text(t, http.MethodGet, "/a2a/tasks?A2A-Version=1.0", "", "A2A-Version", ""); status != http.StatusOK {
		t.Errorf("the version in the query: %d %s", status, text)
	}
	_, _, header := c.text(t, http.MethodGet, "/a2a/tasks", "", "A2A-Extensions", "https://example.com/geo/v1, urn:aibridge:a2a:catalogue:v1")
	if got := header.Get("A2A-Extensions"); got != "urn:aibridge:a2a:catalogue:v1" {
		t.Errorf("the extensions in use are %q", got)
	}
}

// [A2A-8.1-1] [A2A-8.3.1-1] [A2A-5.2-1] [A2A-14.3-1] [A2A-5.5-1] [A2A-3.3.4-1] [A2A-4.4.1-1]
func TestTheCardDescribesTheBridge(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	status, text, header := c.text(t, http.MethodGet, "/.well-known/agent-card.json", "", "A2A-Version", "")
	var card map[string]any
	if err := json.Unmarshal([]byte(text), &card); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, required := range []string{"name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills", "securitySchemes"} {
		if card[required] == nil {
			t.Errorf("the card has no %s", required)
		}
	}
	if strings.Contains(text, "heater") {
		t.Errorf("anybody is told of what is here: %s", text)
	}
	var bindings []string
	for _, one := range card["supportedInterfaces"].([]any) {
		i := one.(map[string]any)
		bindings = append(bindings, fmt.Sprint(i["protocolBinding"], " ", i["protocolVersion"], " ", i["url"]))
	}
	if want := []string{"JSONRPC 1.0 " + n.HTTPURL("/a2a"), "HTTP+JSON 1.0 " + n.HTTPURL("/a2a")}; !slices.Equal(bindings, want) {
		t.Errorf("the interfaces are %q", bindings)
	}
	can := card["capabilities"].(map[string]any)
	if can["streaming"] != true || can["pushNotifications"] != false || can["extendedAgentCard"] != true {
		t.Errorf("the capabilities are %v", can)
	}
	if !strings.Contains(header.Get("Cache-Control"), "max-age=") || header.Get("Etag") == "" {
		t.Errorf("the card cannot be kept: %v", header)
	}
	if status, _, _ := c.text(t, http.MethodGet, "/.well-known/agent-card.json", "", "If-None-Match", header.Get("Etag")); status != http.StatusNotModified {
		t.Errorf("the same card is sent again: %d", status)
	}
	extended, fault := c.rpc(t, "GetExtendedAgentCard", `{}`)
	if fault != nil || !strings.Contains(string(extended), `"id":"heater.set"`) || !strings.Contains(string(extended), `"agents":["heater"]`) || !strings.Contains(string(extended), `"maximum":35`) {
		t.Errorf("the extended card: %s %+v", extended, fault)
	}
	if strings.Contains(string(extended), "agent.list") {
		t.Errorf("commands of the bridge are among its skills: %s", extended)
	}
	_, own, _ := c.text(t, http.MethodGet, "/a2a/heater/.well-known/agent-card.json", "")
	if !strings.Contains(own, `"tenant":"heater"`) || !strings.Contains(own, `"id":"heater.burn"`) || !strings.Contains(own, "needs-approval") {
		t.Errorf("the card of a set of skills: %s", own)
	}
}

// [A2A-3.1.4-2] [A2A-3.1.4-3] [A2A-3.1.4-4] [A2A-3.1.4-5] [A2A-3.2.4-1]
func TestTasksAreListedInPages(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	var sent []string
	for i := range 5 {
		task := c.send(t, fmt.Sprint("m-", i), setTo21, fmt.Sprintf(`,"contextId":"c-%d"`, i%2))
		sent = append([]string{task.ID}, sent...)
	}
	list := func(params string) (ids []string, next, text string) {
		t.Helper()
		result, fault := c.rpc(t, "ListTasks", params)
		var page struct {
			Tasks []a2aTask `json:"tasks"`
			Next  *string   `json:"nextPageToken"`
		}
		if err := json.Unmarshal(result, &page); fault != nil || err != nil || page.Next == nil {
			t.Fatalf("%s: %+v %s", params, fault, result)
		}
		for i := range page.Tasks {
			ids = append(ids, page.Tasks[i].ID)
		}
		return ids, *page.Next, string(result)
	}
	var all []string
	cursor, pages := "", 0
	for {
		ids, next, text := list(fmt.Sprintf(`{"pageSize":2,"pageToken":%q,"historyLength":0}`, cursor))
		if strings.Contains(text, "artifacts") || strings.Contains(text, "history") {
			t.Errorf("more than was asked for: %s", text)
		}
		all, cursor, pages = append(all, ids...), next, pages+1
		if next == "" {
			break
		}
	}
	if !slices.Equal(all, sent) || pages != 3 {
		t.Errorf("listed %q in %d pages, want %q", all, pages, sent)
	}
	if ids, _, text := list(`{"contextId":"c-1","includeArtifacts":true}`); !slices.Equal(ids, []string{sent[1], sent[3]}) || !strings.Contains(text, `"target":21`) {
		t.Errorf("of one context: %q %s", ids, text)
	}
	newest := c.get(t, sent[0]).Status.Timestamp
	if ids, _, _ := list(fmt.Sprintf(`{"statusTimestampAfter":%q}`, newest)); len(ids) == 0 || ids[0] != sent[0] {
		t.Errorf("since %s: %q", newest, ids)
	}
	if ids, _, _ := list(`{"statusTimestampAfter":"2999-01-01T00:00:00+01:00"}`); len(ids) != 0 {
		t.Errorf("of the future: %q", ids)
	}
}

func TestTheCommandOfThePageAboutA2AWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/a2a.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "curl -s http://127.0.0.1:9010/a2a/message:send")
	_, rest, quoted := strings.Cut(rest, "-d '")
	body, _, closed := strings.Cut(rest, "'\n")
	if !ok || !quoted || !closed {
		t.Fatal("the page has no such command")
	}
	n := bridgetest.Start(t, agents)
	heater(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	if status, text, _ := c.text(t, http.MethodPost, "/a2a/message:send", body, "Content-Type", "application/a2a+json"); status != http.StatusOK || !strings.Contains(text, `{"target":21}`) {
		t.Errorf("%d %s", status, text)
	}
}
