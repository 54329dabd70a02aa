package a2a

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// [A2A-5.5-2] [A2A-5.6.1-2] [A2A-5.7-2] [A2A-5.6.1-4]
func TestProtoJSONIsReadToTheLetter(t *testing.T) {
	t.Parallel()
	type reading = func(r *reader) any
	text := func(r *reader) any { return r.text("contextId", 64) }
	number := func(r *reader) any {
		if n := r.number("pageSize"); n != nil {
			return *n
		}
		return nil
	}
	state := func(r *reader) any { return r.enum("status", states) }
	flag := func(r *reader) any { return r.flag("includeArtifacts") }
	raw := func(r *reader) any { return string(r.bytes("raw")) }
	at := func(r *reader) any {
		if v := r.time("statusTimestampAfter"); v != nil {
			return v.UTC().Format(time.RFC3339Nano)
		}
		return nil
	}
	for body, want := range map[string]struct {
		read  reading
		value any // what is read, or nil
		wrong string
	}{
		`{"contextId":"a"}`:                   {text, "a", ""},
		`{"context_id":"a"}`:                  {text, "a", ""},
		`{"contextId":null}`:                  {text, "", ""},
		`{"ContextId":"a"}`:                   {text, "", ""}, // another field, which nobody knows
		`{"contextId":"a","context_id":"b"}`:  {text, "b", "is there twice"},
		`{"contextId":7}`:                     {text, "", "must be a string"},
		"{\"contextId\":\"\xff\"}":            {text, "\ufffd", "is not UTF-8"},
		`{"contextId":"\ud800"}`:              {text, "\ufffd", "is not UTF-8"},
		`{"pageSize":7}`:                      {number, 7, ""},
		`{"pageSize":"7"}`:                    {number, 7, ""},
		`{"pageSize":7.0}`:                    {number, 7, ""},
		`{"pageSize":1e1}`:                    {number, 10, ""},
		`{"pageSize":7.5}`:                    {number, nil, "whole number"},
		`{"pageSize":"a"}`:                    {number, nil, "whole number"},
		`{"pageSize":4294967296}`:             {number, nil, "whole number"},
		`{"pageSize":true}`:                   {number, nil, "whole number"},
		`{}`:                                  {number, nil, ""},
		`{"status":"TASK_STATE_WORKING"}`:     {state, "TASK_STATE_WORKING", ""},
		`{"status":2}`:                        {state, "TASK_STATE_WORKING", ""},
		`{"status":0}`:                        {state, "", ""},
		`{"status":"TASK_STATE_UNSPECIFIED"}`: {state, "", ""},
		`{"status":9}`:                        {state, "", "must be one of"},
		`{"status":"TASK_STATE_CANCELLED"}`:   {state, "", "must be one of"},
		`{"status":"task_state_working"}`:     {state, "", "must be one of"},
		`{"includeArtifacts":true}`:           {flag, true, ""},
		`{"includeArtifacts":"true"}`:         {flag, false, "must be true or false"},
		`{"raw":"aGk_"}`:                      {raw, "hi?", ""},
		`{"raw":"aGk/"}`:                      {raw, "hi?", ""},
		`{"raw":"aGk="}`:                      {raw, "hi", ""},
		`{"raw":"aGk"}`:                       {raw, "hi", ""},
		`{"raw":"!"}`:                         {raw, "", "must be base64"},
		`{"statusTimestampAfter":"2026-01-31T12:00:00Z"}`:           {at, "2026-01-31T12:00:00Z", ""},
		`{"statusTimestampAfter":"2026-01-31T12:00:00.123456789Z"}`: {at, "2026-01-31T12:00:00.123456789Z", ""},
		`{"statusTimestampAfter":"2026-01-31T13:00:00+01:00"}`:      {at, "2026-01-31T12:00:00Z", ""},
		`{"statusTimestampAfter":"2026-01-31T12:00:00"}`:            {at, nil, "must be a timestamp"},
		`{"statusTimestampAfter":"2026-01-31t12:00:00z"}`:           {at, nil, "must be a timestamp"},
		`{"statusTimestampAfter":"2026-02-31T12:00:00Z"}`:           {at, nil, "must be a timestamp"},
	} {
		r, ok := read(json.RawMessage(body))
		if !ok {
			t.Fatal(body)
		}
		got := want.read(r)
		if want.wrong == "" && fmt.Sprint(got) != fmt.Sprint(want.value) {
			t.Errorf("%s is read as %v, want %v", body, got, want.value)
		}
		fault := ""
		if err := r.fault(); err != nil {
			fault = err.Error()
		}
		if (fault == "") != (want.wrong == "") || !strings.Contains(fault, want.wrong) {
			t.Errorf("%s: %q, want %q", body, fault, want.wrong)
		}
	}
}

// [A2A-5.6.1-3] [A2A-5.5-3]
func TestTasksAreWrittenAsProtoJSON(t *testing.T) {
	t.Parallel()
	at := Timestamp(time.Date(2026, 1, 31, 13, 0, 0, 120_000_000, time.FixedZone("", 3600)))
	task := &Task{ID: "t", Context: "c", Status: Status{State: AuthRequired, Timestamp: at}, Artifacts: []Artifact{{ID: "a", Parts: []Part{
		{Raw: []byte("hi?")}, textPart("x"), dataPart(json.RawMessage(`null`)),
	}}}}
	text, err := json.Marshal(&StreamResponse{Task: task})
	want := `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_AUTH_REQUIRED","timestamp":"2026-01-31T12:00:00.120Z"},` +
		`"artifacts":[{"artifactId":"a","parts":[{"raw":"aGk/"},{"text":"x","mediaType":"text/plain"},{"data":null,"mediaType":"application/json"}]}]}}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\n%s", err, text, want)
	}
}

// [A2A-11.3-1] [A2A-11.5-2]
func TestPathsLeadToOperations(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"POST ":                                    "rpc",
		"GET ":                                     "405 POST",
		"POST heater":                              "heater rpc",
		"POST message:send":                        "SendMessage",
		"POST heater/message:stream":               "heater SendStreamingMessage",
		"GET tasks":                                "ListTasks",
		"GET tasks/a%2Fb":                          "GetTask id=a/b",
		"POST tasks/a:cancel":                      "CancelTask id=a",
		"GET tasks/a:subscribe":                    "SubscribeToTask id=a",
		"POST heater/tasks/a:subscribe":            "heater SubscribeToTask id=a",
		"GET tasks/a/pushNotificationConfigs":      "ListTaskPushNotificationConfigs taskId=a",
		"POST tasks/a/pushNotificationConfigs":     "CreateTaskPushNotificationConfig taskId=a",
		"DELETE tasks/a/pushNotificationConfigs/b": "DeleteTaskPushNotificationConfig id=b taskId=a",
		"PUT tasks/a/pushNotificationConfigs/b":    "405 GET, DELETE",
		"GET heater/.well-known/agent-card.json":   "heater card",
		"GET a/b/.well-known/agent-card.json":      "404",
		"GET extendedAgentCard":                    "GetExtendedAgentCard",
		"GET tasks/a/b":                            "404",
		"GET tasks/a/pushNotificationConfigs/b/c":  "404",
	} {
		method, path, _ := strings.Cut(path, " ")
		to, found := route(method, path)
		got := strings.TrimSpace(strings.Join([]string{to.agent, to.op}, " "))
		switch {
		case !found && to.allowed != "":
			got = "405 " + to.allowed
		case !found:
			got = "404"
		case to.rpc:
			got = strings.TrimSpace(to.agent + " rpc")
		case to.card:
			got = to.agent + " card"
		}
		for _, name := range []string{"id", "taskId"} {
			if value, ok := to.fields[name]; ok && found {
				got += " " + name + "=" + value
			}
		}
		if got != want {
			t.Errorf("%s %s leads to %s, want %s", method, path, got, want)
		}
	}
}

// What is read of a request is bounded, and tells of no fault but in the words of one.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"ListTasks","params":{"page_size":"7","status":2,"statusTimestampAfter":"2026-01-31T12:00:00Z"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"https://a.example","authentication":{"scheme":"Bearer"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"data":null},{"raw":"aGk="},{}]}}}`, `[]`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := readRPC(body)
		if err != nil {
			if e := asError(err); e.kind.code > -32000 || e.Message == "" {
				t.Errorf("%q: %+v", body, e)
			}
			return
		}
		readers := map[string]func(*reader) any{
			"SendMessage": func(r *reader) any { return readSending(r).message }, "ListTasks": func(r *reader) any { return readListing(r) },
			"CreateTaskPushNotificationConfig": func(r *reader) any { return readPush(r) },
		}
		doRead, ok := readers[m.method]
		if !ok {
			doRead = func(r *reader) any { return readNaming(r) }
		}
		value := doRead(m.params)
		if err := m.params.fault(); err != nil {
			if e := asError(err); len(e.violations) == 0 || len(e.violations) > maxViolations {
				t.Errorf("%q: %+v", body, e)
			}
			return
		}
		if message, ok := value.(Message); ok {
			if message.ID == "" || message.Role != roleUser || len(message.Parts) == 0 || len(message.Parts) > maxParts {
				t.Errorf("%q is taken as %+v", body, message)
			}
			if _, err := json.Marshal(message); err != nil {
				t.Errorf("%q cannot be kept: %v", body, err)
			}
		}
	})
}
