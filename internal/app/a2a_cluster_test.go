package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestTheEndOfATaskIsToldThoughItsBridgeDied has a bridge declared dead that sends the
// push notifications of a task. Another one sends those of its end, also to a receiver
// that was named at yet another bridge.
func TestTheEndOfATaskIsToldThoughItsBridgeDied(t *testing.T) {
	t.Parallel()
	told := make(chan string, 256) // the receiver and the state
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e a2aEvent
		_ = json.Unmarshal(body, &e)
		state := ""
		switch {
		case e.Task != nil:
			state = e.Task.Status.State
		case e.Status != nil:
			state = e.Status.Status.State
		}
		told <- r.URL.Path + " " + state
	}))
	t.Cleanup(desk.Close)
	url, a, b, c := trioWith(t, func(config *app.Config) { config.A2A.On, config.A2A.Push, config.A2A.PushPrivate = true, true, true })
	heater(t, c)
	everywhere(t, "heater-1", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	atA, atB := &a2aClient{base: a.HTTPURL("")}, &a2aClient{base: b.HTTPURL("")}
	result, fault := atA.rpc(t, "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"data":{"skill_id":"heater","capability_id":"warm-up"}}]},
		"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"id":"one","url":%q}}}`, desk.URL+"/one"))
	var begun struct{ Task a2aTask }
	if err := json.Unmarshal(result, &begun); fault != nil || err != nil {
		t.Fatalf("%s %+v", result, fault)
	}
	if first := <-told; !strings.HasPrefix(first, "/one ") {
		t.Fatalf("first %s", first)
	}
	eventually.Holds(t, "the task is known there", func() bool {
		_, fault := atB.rpc(t, "GetTask", fmt.Sprintf(`{"id":%q}`, begun.Task.ID))
		return fault == nil
	})
	if _, fault := atB.rpc(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"two","url":%q}`, begun.Task.ID, desk.URL+"/two")); fault != nil {
		t.Fatalf("%+v", fault)
	}

	verdict(t, url, "a")
	_ = a.Ended(t)
	ends := make(map[string]bool)
	for len(ends) < 2 {
		if what := <-told; strings.HasSuffix(what, " TASK_STATE_FAILED") {
			ends[what] = true
		}
	}
}
