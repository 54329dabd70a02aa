package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// A webCaller calls a bridge over HTTP with a key of its own.
type webCaller struct{ base, key string }

// do returns the answer to a request with its body.
func (c webCaller) do(t *testing.T, method, path, body string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, said
}

// TestACallOverHTTPIsAcceptedAndItsLocationHasTheEnd has a model want to open a door.
// The asker is told 202 with a Location, polls that while somebody decides, and reads
// the answer there, over and over. The door is opened once.
func TestACallOverHTTPIsAcceptedAndItsLocationHasTheEnd(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]struct {
		says  string
		opens int32
	}{
		"approve": {"It is open.", 1},
		"deny":    {"It stays closed.", 0},
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			n, admin, _ := guarded(t, withModel(scripted.New(t, calls("door.open", `{}`), says(want.says))))
			key := func(params string) webCaller { return webCaller{n.HTTPURL(""), keyFor(t, admin, params)} }
			ada := key(`{"principal_id":"ada","kind":"operator","roles":["operator"]}`)
			stranger := key(`{"principal_id":"eve"}`)
			var opened atomic.Int32
			door := n.Dial(t, client.WithAgent(client.Agent{ID: "door"}), client.WithAPIKey(keyFor(t, admin, `{"principal_id":"door"}`)))
			if _, err := door.ServeSkill(t.Context(), client.Skill{ID: "door", Capabilities: []client.Capability{{
				ID: "open", Risk: "high", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
					opened.Add(1)
					return struct{}{}, nil
				}),
			}}}); err != nil {
				t.Fatal(err)
			}

			accepted, body := ada.do(t, http.MethodPost, "/api/v1/commands/llm.query", `{"query":"Open!","tools":["door.*"],"approval_wait_ms":0}`)
			location := accepted.Header.Get("Location")
			var told llm.QueryResult
			if err := json.Unmarshal(body, &told); accepted.StatusCode != http.StatusAccepted || err != nil || told.Waiting == nil || location != "/api/v1/tasks/"+string(told.Waiting.Task) {
				t.Fatalf("it is answered with %d, Location %q: %s", accepted.StatusCode, location, body)
			}
			var task taskSeen
			poll := func() {
				t.Helper()
				answer, body := ada.do(t, http.MethodGet, location, "")
				if err := json.Unmarshal(body, &task); answer.StatusCode != http.StatusOK || err != nil {
					t.Fatalf("the location answers with %d: %s", answer.StatusCode, body)
				}
			}
			if poll(); task.State != "waiting" || opened.Load() != 0 {
				t.Errorf("before the decision the task is %+v, and the door was opened %d times", task, opened.Load())
			}
			if answer, body := stranger.do(t, http.MethodGet, location, ""); answer.StatusCode != http.StatusNotFound {
				t.Errorf("a stranger is answered with %d: %s", answer.StatusCode, body)
			}

			decide(t, admin, askedFor(t, admin, string(told.Waiting.Task)), decision)
			eventually.Holds(t, "the location has the end", func() bool {
				poll()
				return task.State == "succeeded"
			}, &task)
			for range 3 {
				if poll(); !strings.Contains(task.Result.Result, want.says) || task.Result.Waiting != nil {
					t.Errorf("the location has %+v", task)
				}
			}
			if got := opened.Load(); got != want.opens {
				t.Errorf("the door was opened %d times", got)
			}
		})
	}
}
