package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// keepsSession has a client keep its session for an hour.
func keepsSession(c *paho.Connect) {
	c.CleanStart = false
	expiry := uint32(3600)
	c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry}
}

// doorAt connects a door at a bridge. Models may open it with an approval.
func doorAt(t *testing.T, n *bridgetest.Node) *bridgetest.Raw {
	t.Helper()
	device := n.Device(t, "door", "spare", `["x"]`)
	must(t, device, "skill.register", registered("high", ""))
	return device
}

// opensDoor has a model ask for the door and returns the task that waits.
func opensDoor(t *testing.T, c *bridgetest.Raw, request string) (task string) {
	t.Helper()
	c.Send(t, "aibridge/bridge/request", envelope(request, "llm.query", `{"query":"Open!","tools":["door.*"],"approval_wait_ms":0}`, `{"timeout":300000}`))
	got := queried(t, c)
	if got.FinishReason != "waiting" || got.Waiting == nil {
		t.Fatalf("it is answered with %+v", got)
	}
	return string(got.Waiting.Task)
}

// askedFor is the question that a task waits for, as a bridge shows it.
func askedFor(t *testing.T, c *bridgetest.Raw, task string) (a approval.Approval) {
	t.Helper()
	var list struct {
		Approvals []approval.Approval `json:"approvals"`
	}
	eventually.Holds(t, "somebody is asked about "+task, func() bool {
		if err := json.Unmarshal(must(t, c, "approval.list", `{"state":"pending"}`), &list); err != nil {
			t.Fatal(err)
		}
		for _, a = range list.Approvals {
			if a.Task == task {
				return true
			}
		}
		return false
	}, &list)
	return a
}

// taskSeen is a task as a bridge shows it.
type taskSeen struct {
	State  string          `json:"state"`
	Result llm.QueryResult `json:"result"`
}

// ended waits until a task has ended for a caller.
func endedTask(t *testing.T, c *bridgetest.Raw, task string) (got taskSeen) {
	t.Helper()
	eventually.Holds(t, "the task has ended for "+c.ID, func() bool {
		if err := json.Unmarshal(must(t, c, "task.get", fmt.Sprintf(`{"task_id":%q}`, task)), &got); err != nil {
			t.Fatal(err)
		}
		return got.State != "waiting" && got.State != "running"
	}, &got)
	return got
}

// tellsLate waits for the event with which a caller is told of the end of its task.
func tellsLate(t *testing.T, c *bridgetest.Raw, request, event string) *protocol.Event {
	t.Helper()
	for {
		e, err := protocol.DecodeEvent(c.Next(t).Payload, protocol.Limits{})
		if err == nil && e.ID == request && e.Name == event {
			return e
		}
	}
}

// TestACallThatWaitsIsDecidedAtAnotherBridge declares the bridge dead at which a call
// waits. It is decided at another one, made once, and its caller finds the answer: on
// its response topic, at another bridge than before, by its id and over HTTP.
func TestACallThatWaitsIsDecidedAtAnotherBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`), says("It is open."))
	url, a, b, c := trio(t, s)
	door := doorAt(t, c)
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	me := a.Caller(t, "me", keepsSession)
	task := opensDoor(t, me, "q")

	verdict(t, url, "a")
	_ = a.Ended(t)
	boss, onC := b.Caller(t, "boss"), c.Caller(t, "on-c")
	if got := state(t, onC, task); got != "waiting" {
		t.Errorf("another bridge says that it is %s", got)
	}
	me = b.Connect(t, "me", keepsSession)
	decide(t, boss, askedFor(t, boss, task), "approve")
	call := door.Invocation(t)
	door.Reply(t, "door", call, map[string]any{"open": true})

	told := tellsLate(t, me, "q", "task.succeeded")
	if !strings.Contains(string(told.Data), "It is open.") {
		t.Errorf("the caller is told %s", told.Data)
	}
	for _, at := range []*bridgetest.Raw{boss, onC} {
		if got := endedTask(t, at, task); got.State != "succeeded" || got.Result.Result != "It is open." || got.Result.Tools.Success != 1 {
			t.Errorf("%s says that it is %+v", at.ID, got)
		}
	}
	if body := readURL(t, c.HTTPURL("/api/v1/tasks/"+task)); !strings.Contains(body, "It is open.") {
		t.Errorf("over HTTP it is %s", body)
	}
	spared(t, door)
}

// readURL is a bridge's answer to a GET.
func readURL(t *testing.T, url string) string {
	t.Helper()
	response, err := bridgetest.HTTPClient(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %d %s, %v", url, response.StatusCode, body, err)
	}
	return string(body)
}

// TestTheBridgeDiesThatMakesACallOfATask declares the bridge dead that has taken up
// a task, in the middle of its call. The next one does not make it again: the model
// hears that the outcome is unknown.
func TestTheBridgeDiesThatMakesACallOfATask(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`), says("I do not know."))
	url, a, b, c := trio(t, s)
	door := doorAt(t, c)
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	me := c.Caller(t, "me")
	task := opensDoor(t, me, "q")
	boss := b.Caller(t, "boss")
	decide(t, boss, askedFor(t, boss, task), "approve")
	call := door.Invocation(t)
	verdict(t, url, "a")
	_ = a.Ended(t)
	if got := endedTask(t, boss, task); got.State != "succeeded" || got.Result.Result != "I do not know." {
		t.Errorf("it is %+v", got)
	}
	tellsLate(t, me, "q", "task.succeeded")
	if heard := toldAt(t, s, 1); !strings.Contains(heard, "(code 4012)") {
		t.Errorf("the model hears\n%s", heard)
	}
	door.Reply(t, "door", call, map[string]any{"open": true}) // too late for anybody
	spared(t, door)
}

// TestARunThatWaitsIsDecidedAtAnotherBridge declares the bridge dead at which a run
// waits for an approval, and then the one that makes its call.
func TestARunThatWaitsIsDecidedAtAnotherBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, callsFor("door_open", `{}`), says("It is open."), callsFor("door_open", `{}`), says("Once more."))
	url, a, b, c := trio(t, s)
	door := doorAt(t, c)
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	id := runAs(t, b.Caller(t, "me"), `{"input":"Let the cat in"}`)
	onA, onC := a.Caller(t, "on-a"), c.Caller(t, "on-c")
	question := askedFor(t, onA, id)
	eventually.Holds(t, "the run waits", func() bool { return phaseOf(t, onC, id) == "WaitingApproval" })
	verdict(t, url, "b")
	_ = b.Ended(t)
	decide(t, onC, question, "approve")
	door.Reply(t, "door", door.Invocation(t), map[string]any{"open": true})
	for _, at := range []*bridgetest.Raw{onA, onC} {
		if phase, message := restOf(t, at, id); phase != "WaitingUser" || message != "It is open." {
			t.Errorf("for %s the run is %s: %s", at.ID, phase, message)
		}
	}
	spared(t, door)
}

// openerAt connects a door of a risk that opens by itself, and counts how often it does.
func openerAt(t *testing.T, n *bridgetest.Node, risk string) *atomic.Int32 {
	t.Helper()
	opened := new(atomic.Int32)
	_, err := n.Dial(t, client.WithAgent(client.Agent{ID: "door"})).ServeSkill(t.Context(), client.Skill{
		ID: "door", Name: "Door", Description: "A door", Version: "1.0.0",
		Capabilities: []client.Capability{{ID: "open", Risk: risk, Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]bool, error) {
			opened.Add(1)
			return map[string]bool{"open": true}, nil
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// trioAsking starts three bridges that work together, with a model that wants to
// open the door, and then repeats its last message.
func trioAsking(t *testing.T) (a, b, c *bridgetest.Node) {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"messages"`
		}
		if _ = json.NewDecoder(r.Body).Decode(&asked); len(asked.Messages) == 0 { // it is asked for something else than an answer
			http.NotFound(w, r)
			return
		}
		last := asked.Messages[len(asked.Messages)-1]
		reply := calls("door.open", `{}`)
		if last.Role == "tool" {
			reply = says(last.Content)
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for name, value := range reply.Header {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, strings.Join(reply.Pieces, ""))
	}))
	t.Cleanup(model.Close)
	_, a, b, c = trioWith(t, func(c *app.Config) { c.LLM.BaseURL, c.LLM.Model = model.URL+"/v1", "small" })
	return a, b, c
}

// TestOfTwoBridgesThatDecideOneDoes has a question approved at one bridge while it is
// denied at another. One of them counts, and the other is told of it.
func TestOfTwoBridgesThatDecideOneDoes(t *testing.T) {
	t.Parallel()
	a, b, c := trioAsking(t)
	opened := openerAt(t, c, "high")
	onB, onC := b.Caller(t, "on-b"), c.Caller(t, "on-c")
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), onB)
	for round := range int32(6) {
		task := opensDoor(t, a.Caller(t, fmt.Sprint("me-", round)), fmt.Sprint("q-", round))
		question, before := askedFor(t, onC, task), opened.Load()
		askedFor(t, onB, task)
		for caller, decision := range map[*bridgetest.Raw]string{onB: "approve", onC: "deny"} {
			caller.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "approval.decide",
				fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":%q}`, question.ID, question.Nonce, decision)))
		}
		approved, denied := onB.Answer(t), onC.Answer(t)
		got, times := endedTask(t, onC, task), opened.Load()-before
		switch {
		case approved.Err == nil && isDecided(denied.Err):
			if times != 1 || got.Result.Tools.Success != 1 {
				t.Errorf("approved, the door is opened %d times: %+v", times, got)
			}
		case denied.Err == nil && isDecided(approved.Err):
			if times != 0 || !strings.Contains(got.Result.Result, "denied the call") {
				t.Errorf("denied, the door is opened %d times: %+v", times, got)
			}
		default:
			t.Errorf("who approves hears %v, who denies %v", approved.Err, denied.Err)
		}
	}
}

// isDecided reports whether somebody is told that another one has decided.
func isDecided(err *protocol.Error) bool {
	return err != nil && err.Code == protocol.InvalidState && strings.HasSuffix(err.Message, " already")
}

// TestATaskIsCancelledAtOneBridgeAndApprovedAtAnother has both done at once. Whatever
// comes first, all agree on it: the door is opened only if the task has not been
// cancelled before.
func TestATaskIsCancelledAtOneBridgeAndApprovedAtAnother(t *testing.T) {
	t.Parallel()
	a, b, c := trioAsking(t)
	opened := openerAt(t, c, "high")
	onB, onC := b.Caller(t, "on-b"), c.Caller(t, "on-c")
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), onB)
	for round := range int32(6) {
		task := opensDoor(t, a.Caller(t, fmt.Sprint("me-", round)), fmt.Sprint("q-", round))
		question, before := askedFor(t, onB, task), opened.Load()
		eventually.Holds(t, "another bridge knows the task", func() bool {
			return onC.Ask(t, bridgetest.Request(protocol.NewID(), "task.get", fmt.Sprintf(`{"task_id":%q}`, task))).Err == nil
		})
		onB.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "approval.decide",
			fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, question.ID, question.Nonce)))
		onC.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task)))
		approved, cancelled := onB.Answer(t), onC.Answer(t)
		got := endedTask(t, onB, task)
		switch {
		case cancelled.Err == nil && got.State == "cancelled":
			if opened.Load()-before > 1 || approved.Err != nil && opened.Load() != before {
				t.Errorf("cancelled, the door is opened %d times; who approved heard %v", opened.Load()-before, approved.Err)
			}
		case cancelled.Err != nil && cancelled.Err.Code == protocol.InvalidState && approved.Err == nil && got.State == "succeeded":
			if opened.Load()-before != 1 {
				t.Errorf("approved, the door is opened %d times", opened.Load()-before)
			}
		default:
			t.Errorf("who approves hears %v, who cancels %v; it is %+v", approved.Err, cancelled.Err, got)
		}
	}
}
