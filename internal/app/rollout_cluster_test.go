package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A crew is the lamps of a cluster. A lamp keeps its requests until the crew is
// released, and answers task.get as agents do.
type crew struct {
	t *testing.T

	mu       sync.Mutex
	lamps    []*bridgetest.Raw
	held     map[string]func()          // by invocation
	asked    []map[string]int           // by lamp and invocation: how often it came
	answers  map[string]json.RawMessage // by invocation
	failures []int                      // by lamp: how many attempts fail yet
	free     bool                       // nothing is held any more
}

// newCrew has lamps connect to the nodes in turn, and declares their group.
func newCrew(t *testing.T, lamps int, nodes ...*bridgetest.Node) *crew {
	t.Helper()
	w := &crew{t: t, held: make(map[string]func()), answers: make(map[string]json.RawMessage), failures: make([]int, lamps)}
	for i := range lamps {
		id := lampID(i)
		lamp := nodes[i%len(nodes)].Device(t, id, "light-"+id, `["update"]`)
		must(t, lamp, "agent.tag", fmt.Sprintf(`{"agent_id":%q,"tags":{"model":"x2"}}`, id))
		w.lamps, w.asked = append(w.lamps, lamp), append(w.asked, make(map[string]int))
		w.work(i, lamp)
	}
	chief := nodes[0].Caller(t, "chief")
	must(t, chief, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"chief"}`)
	must(t, chief, "group.declare", `{"cap_id":"home","group_id":"x2","selector":"model=x2"}`)
	return w
}

// move has a lamp connect to another bridge.
func (w *crew) move(i int, to *bridgetest.Node) {
	w.t.Helper()
	lamp := to.Connect(w.t, lampID(i))
	w.mu.Lock()
	w.lamps[i] = lamp
	w.mu.Unlock()
	w.work(i, lamp)
	lamp.Listen(w.t, "aibridge/agent/"+lampID(i)+"/request")
}

// work has a lamp answer until the test ends.
func (w *crew) work(i int, lamp *bridgetest.Raw) {
	ctx := w.t.Context()
	go func() {
		for {
			select {
			case p := <-lamp.Received:
				if request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{}); err == nil {
					w.take(ctx, i, request)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// take has a lamp take a request.
func (w *crew) take(ctx context.Context, i int, request *protocol.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch request.Command {
	case "skill.invoke":
	case "task.get":
		w.recall(ctx, i, request)
		return
	default: // task.cancel
		return
	}
	w.asked[i][request.ID]++
	answer := request.Answer(lampID(i), time.Now())
	if answer.Result = json.RawMessage(`{"is":"2.0"}`); w.failures[i] > 0 {
		w.failures[i]--
		answer.Result, answer.Err = nil, protocol.Errorf(protocol.InvalidState, "flash is full")
	}
	w.held[request.ID] = func() {
		w.answers[request.ID] = answer.Append(nil)
		w.say(ctx, i, w.answers[request.ID])
	}
	if w.free {
		w.let(request.ID)
	}
}

// recall has a lamp report the outcome of an invocation.
func (w *crew) recall(ctx context.Context, i int, request *protocol.Request) {
	var about struct {
		TaskID string `json:"task_id"`
	}
	_ = json.Unmarshal(request.Params, &about)
	answer := request.Answer(lampID(i), time.Now())
	switch {
	case w.held[about.TaskID] != nil:
		answer.Result = json.RawMessage(`{"state":"running"}`)
	case w.answers[about.TaskID] != nil:
		w.say(ctx, i, w.answers[about.TaskID])
		answer.Result = json.RawMessage(`{"state":"done"}`)
	default:
		answer.Err = protocol.Errorf(protocol.NotFound, "the lamp does not know it").With("listening_ms", time.Hour.Milliseconds())
	}
	w.say(ctx, i, answer.Append(nil))
}

func (w *crew) say(ctx context.Context, i int, payload []byte) {
	lamp := w.lamps[i]
	go func() {
		_, _ = lamp.Publish(ctx, &paho.Publish{Topic: "aibridge/agent/" + lampID(i) + "/response", QoS: 1, Payload: payload})

	}()
}

func (w *crew) let(invocation string) {
	answer := w.held[invocation]
	delete(w.held, invocation)
	answer()
}

// release has the lamps answer the requests that they hold, and with forGood later
// ones at once.
func (w *crew) release(forGood bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = forGood
	for _, id := range slices.Collect(maps.Keys(w.held)) {
		w.let(id)
	}
}

// holds waits until so many invocations are held.
func (w *crew) holds(want int) {
	w.t.Helper()
	n := 0
	eventually.Holds(w.t, fmt.Sprintf("%d invocations are held", want), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		n = len(w.held)
		return n == want
	}, &n)
}

// attempts checks how often each lamp was asked, and that no request came twice.
func (w *crew) attempts(want ...int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, invocations := range w.asked {
		if len(invocations) != want[i] {
			w.t.Errorf("%s was asked %d times, want %d", lampID(i), len(invocations), want[i])
		}
		for id, times := range invocations {
			if times != 1 {
				w.t.Errorf("%s got the request %s %d times", lampID(i), id, times)
			}
		}
	}
}

// invocations is the number of invocations at all lamps.
func (w *crew) invocations() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.asked {
		n += len(of)
	}
	return n
}

// A rolled task is a rollout as task.get shows it.
type rolled struct {
	State string `json:"state"`
	Group struct {
		Counts  map[string]int `json:"counts"`
		Rollout struct {
			Rate     float64 `json:"rate_per_minute"`
			Reason   string  `json:"reason"`
			Approval string  `json:"approval_id"`
		} `json:"rollout"`
	} `json:"group"`
}

// rollsOut starts a rollout to the group of a crew.
func rollsOut(t *testing.T, c *bridgetest.Raw, more string) protocol.TaskID {
	t.Helper()
	return protocol.TaskID(field(t, must(t, c, "group.dispatch", `{"cap_id":"home","group_id":"x2","capability_id":"update","deadline_ms":604800000`+more+`}`), "task_id"))
}

// comesSo waits until a rollout is, as a caller is told, in a state with counts:
// "queued 2, succeeded 1".
func comesSo(t *testing.T, c *bridgetest.Raw, id protocol.TaskID, state, counts string) rolled {
	t.Helper()
	var task rolled
	eventually.Holds(t, fmt.Sprintf("%s is told that the rollout is %s: %s", c.ID, state, counts), func() bool {
		task = rolled{}
		if err := json.Unmarshal(must(t, c, "task.get", named(id)), &task); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, s := range []string{"queued", "in_progress", "succeeded", "failed", "rejected", "timed_out", "removed", "cancelled"} {
			if n := task.Group.Counts[s]; n != 0 {
				words = append(words, fmt.Sprintf("%s %d", s, n))
			}
		}
		return task.State == state && strings.Join(words, ", ") == counts
	}, &task)
	return task
}

// TestARolloutGoesOnAtAnotherBridgeThanItBeganAt has the bridge of a rollout declared
// dead while it waits for lamps at every bridge, one of which has failed once.
func TestARolloutGoesOnAtAnotherBridgeThanItBeganAt(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	w := newCrew(t, 9, n[0], n[1], n[2])
	onA, onB, onC := n[0].Caller(t, "me-a"), n[1].Caller(t, "me-b"), n[2].Caller(t, "me-c")
	know(t, onB, 3)
	w.failures[0] = 1
	id := rollsOut(t, onB, `,"rollout":{"max_in_progress":4,"exponential":{"base":1000,"factor":2,"on_success":3}},"retry":{"on":["failed"],"attempts":2,"backoff_ms":1}`)
	w.holds(4)
	comesSo(t, onC, id, "running", "queued 5, in_progress 4")
	w.release(false)
	w.holds(4)
	before := comesSo(t, onC, id, "running", "queued 2, in_progress 4, succeeded 3")

	verdict(t, url, "b")
	_ = n[1].Ended(t)
	for i := 1; i < 9; i += 3 {
		w.move(i, n[2])
	}
	after := comesSo(t, onA, id, "running", "queued 2, in_progress 4, succeeded 3")
	if before.Group.Rollout.Rate != 2000 || after.Group.Rollout.Rate != 2000 {
		t.Errorf("the rate was %v and is %v a minute", before.Group.Rollout.Rate, after.Group.Rollout.Rate)
	}
	w.release(true)
	comesSo(t, onC, id, "complete", "succeeded 9")
	w.attempts(2, 1, 1, 1, 1, 1, 1, 1, 1)
	if listed := string(must(t, onA, "group.rollout.members", fmt.Sprintf(`{"task_id":%q}`, id))); strings.Count(listed, `"attempts":1`) != 8 || strings.Count(listed, `"attempts":2`) != 1 {
		t.Errorf("the members are %s", listed)
	}
}

// TestARolloutIsSteeredFromAnyBridge pauses, resumes, retries and cancels rollouts at
// other bridges than carry them out, also while nobody does.
func TestARolloutIsSteeredFromAnyBridge(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	w := newCrew(t, 6, n[0], n[2])
	onA, onB, onC := n[0].Caller(t, "me-a"), n[1].Caller(t, "me-b"), n[2].Caller(t, "me-c")
	know(t, onB, 3)

	w.failures[0] = 1
	id := rollsOut(t, onB, `,"rollout":{"max_in_progress":1},"abort":[{"on":"failed","percent":10,"after":1}]`)
	w.holds(1)
	must(t, onC, "group.rollout.pause", named(id))
	comesSo(t, onA, id, "paused", "queued 5, in_progress 1")
	must(t, onA, "group.rollout.resume", named(id))
	w.release(true)
	eventually.Holds(t, "the rollout stops", func() bool { return state(t, onC, string(id)) == "aborted" })
	must(t, onC, "group.rollout.resume", named(id))
	comesSo(t, onA, id, "partial", "succeeded 5, failed 1")
	must(t, onA, "group.rollout.retry", named(id))
	comesSo(t, onC, id, "complete", "succeeded 6")
	w.attempts(2, 1, 1, 1, 1, 1)

	// A canary is approved of at another bridge than asks for it.
	id = rollsOut(t, onB, `,"rollout":{"canary":{"count":2,"then_wait_for":"approval"}}`)
	approve(t, onC, comesSo(t, onC, id, "waiting", "queued 4, succeeded 2").Group.Rollout.Approval)
	comesSo(t, onA, id, "complete", "succeeded 6")
	w.attempts(3, 2, 2, 2, 2, 2)

	// The owner is declared dead while its rollout is paused, then the rollout is
	// cancelled at one that has no part in it.
	w.mu.Lock()
	w.free = false
	w.mu.Unlock()
	id = rollsOut(t, onB, `,"rollout":{"max_in_progress":2}`)
	w.holds(2)
	must(t, onC, "group.rollout.pause", named(id))
	verdict(t, url, "b")
	_ = n[1].Ended(t)
	must(t, onC, "group.rollout.resume", named(id))
	w.release(false)
	w.holds(2)
	comesSo(t, onC, id, "running", "queued 2, in_progress 2, succeeded 2")
	must(t, onC, "task.cancel", named(id))
	comesSo(t, onA, id, "cancelled", "succeeded 2, cancelled 4")
	if n := w.invocations(); n != 13+4 {
		t.Errorf("the lamps were asked %d times", n)
	}
}

// approve decides for an approval, as soon as the bridge knows of it.
func approve(t *testing.T, c *bridgetest.Raw, id string) {
	t.Helper()
	var last *protocol.Response
	eventually.Holds(t, "the approval is given", func() bool {
		shown := c.Ask(t, bridgetest.Request(protocol.NewID(), "approval.get", fmt.Sprintf(`{"approval_id":%q}`, id)))
		if last = shown; shown.Err != nil {
			return false
		}
		last = c.Ask(t, bridgetest.Request(protocol.NewID(), "approval.decide",
			fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, id, field(t, shown.Result, "nonce"))))
		return last.Err == nil
	}, &last)
}
