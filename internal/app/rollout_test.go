package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A fleet is the lamps of one space, and who administers it.
type fleet struct {
	*house
	space, chief string // the space, and the key of its administrator
	keys         []string
	asked        []atomic.Int64 // how often, by lamp
	broken       atomic.Int64   // the lamp that fails, -1 for none
}

// newFleet registers lamps that are tagged with their model and report how full
// their batteries are: 0, 20, 40 … percent; and a group of them.
func newFleet(h *house, space string, lamps int) *fleet {
	h.t.Helper()
	f := &fleet{house: h, space: space, asked: make([]atomic.Int64, lamps)}
	f.broken.Store(-1)
	f.chief = f.member(protocol.KindOperator, "chief", protocol.RoleOperator)
	for i := range lamps {
		id := lampID(i)
		f.keys = append(f.keys, f.member(protocol.KindAgent, id, protocol.RoleEndAgent))
		lamp := h.Device(h.t, id, "light-"+id, `["update"]`, withPassword("apikey", f.keys[i]))
		must(h.t, lamp, "agent.tag", fmt.Sprintf(`{"agent_id":%q,"tags":{"model":"x2"}}`, id))
		must(h.t, lamp, "state.report", fmt.Sprintf(`{"agent_id":%q,"skill_id":%q,"state":{"power":{"battery":%d}}}`, id, "light-"+id, 20*i))
		f.work(i, lamp)
	}
	f.ok("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"chief"}`)
	f.ok("group.declare", `{"cap_id":"home","group_id":"x2","selector":"model=x2"}`)
	return f
}

func lampID(i int) string { return fmt.Sprintf("lamp-%d", i) }

// member makes a key for somebody of the space.
func (f *fleet) member(kind protocol.Kind, id, role string) string {
	return f.key(kind, id, role, fmt.Sprintf(`,"space_id":%q`, f.space))
}

// comeBack has the lamps connect again.
func (f *fleet) comeBack() {
	f.t.Helper()
	for i, key := range f.keys {
		lamp := f.Connect(f.t, lampID(i), withPassword("apikey", key))
		lamp.Listen(f.t, "aibridge/agent/"+lampID(i)+"/request")
		f.work(i, lamp)
	}
}

// work has a lamp answer whatever it is asked.
func (f *fleet) work(i int, lamp *bridgetest.Raw) {
	ctx := f.t.Context()
	go func() {
		for {
			select {
			case p := <-lamp.Received:
				f.answer(ctx, i, lamp, p)
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (f *fleet) answer(ctx context.Context, i int, lamp *bridgetest.Raw, p *paho.Publish) {
	call, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
	if err == nil && call.Command == "task.get" {
		return // the answer that it asks about is on its way
	}
	if err != nil || call.Command != "skill.invoke" {
		f.t.Errorf("%s of %s is sent %s", lampID(i), f.space, p.Payload)
		return
	}
	f.asked[i].Add(1)
	answer := call.Answer(lampID(i), time.Now())
	if answer.Result = json.RawMessage(`{"is":"2.0"}`); f.broken.Load() == int64(i) {
		answer.Result, answer.Err = nil, protocol.Errorf(protocol.InvalidState, "flash is full")
	}
	_, _ = lamp.Publish(ctx, &paho.Publish{Topic: "aibridge/agent/" + lampID(i) + "/response", QoS: 1, Payload: answer.Append(nil)})
}

// wereAsked checks how often the lamps were, all in all.
func (f *fleet) wereAsked(want int64) {
	f.t.Helper()
	var n int64
	for i := range f.asked {
		n += f.asked[i].Load()
	}
	if n != want {
		f.t.Errorf("the lamps of %s were asked %d times, want %d", f.space, n, want)
	}
}

// ok runs a command as the administrator of the space.
func (f *fleet) ok(command, params string) string {
	f.t.Helper()
	code, body := f.run(f.chief, command, params)
	if code != "" {
		f.t.Fatalf("%s %s: %s", command, params, body)
	}
	return body
}

// update starts a rollout to a group, which has so many members.
func (f *fleet) update(key, group string, members int, more string) protocol.TaskID {
	f.t.Helper()
	var started struct {
		ID      protocol.TaskID `json:"task_id"`
		Members int             `json:"members"`
	}
	code, body := f.run(key, "group.dispatch", fmt.Sprintf(
		`{"cap_id":"home","group_id":%q,"capability_id":"update","params":{"to":"2.0"},"deadline_ms":604800000%s}`, group, more))
	if err := json.Unmarshal([]byte(body), &started); err != nil || code != "" || started.Members != members {
		f.t.Fatalf("%v: %s", err, body)
	}
	return started.ID
}

// becomes waits until a rollout has a state and so many members failed.
func (f *fleet) becomes(id protocol.TaskID, state string, failed int) groupTask {
	f.t.Helper()
	var task groupTask
	eventually.Holds(f.t, fmt.Sprintf("the rollout is %s, %d failed", state, failed), func() bool {
		task = groupTask{}
		if err := json.Unmarshal([]byte(f.ok("task.get", named(id))), &task); err != nil {
			f.t.Fatal(err)
		}
		return task.State == state && task.Group.Counts["failed"] == failed && task.Group.Counts["in_progress"] == 0
	}, &task)
	return task
}

// named are the params that name a task.
func named(id protocol.TaskID) string { return fmt.Sprintf(`{"task_id":%q}`, id) }

// A rollout stops by itself after a failure, stays so over a restart, and goes on
// as it is told. Lamps of the same names in another space have no part in it, and
// nobody there can look at it or steer it.
func TestARolloutToTheDevicesOfASpace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	red, blue := newFleet(h, "red", 5), newFleet(h, "blue", 2)
	red.broken.Store(3)

	id := red.update(red.chief, "x2", 5, `,"rollout":{"max_in_progress":1},"abort":[{"on":"failed","percent":1,"after":1}]`)
	stopped := red.becomes(id, "aborted", 1)
	for _, command := range []string{
		"task.get", "task.cancel", "group.rollout.members", "group.rollout.pause", "group.rollout.resume", "group.rollout.retry",
	} {
		if code, body := h.run(blue.chief, command, named(id)); code != protocol.NotFound {
			t.Errorf("%s from another space: %s", command, body)
		}
	}
	blue.becomes(blue.update(blue.chief, "x2", 2, ""), "complete", 0)

	h.Restart(t)
	red.comeBack()
	if again := red.becomes(id, "aborted", 1); again.Group.Counts["queued"] != stopped.Group.Counts["queued"] {
		t.Errorf("before %v, after the restart %v", stopped.Group.Counts, again.Group.Counts)
	}
	if failed := red.ok("group.rollout.members", fmt.Sprintf(`{"task_id":%q,"state":"failed"}`, id)); !strings.Contains(failed, `"agent_id":"lamp-3"`) || !strings.Contains(failed, "flash is full") {
		t.Errorf("failed is %s", failed)
	}
	red.ok("group.rollout.resume", named(id))
	red.becomes(id, "partial", 1)
	red.broken.Store(-1)
	red.ok("group.rollout.retry", named(id))
	if done := red.becomes(id, "complete", 0); done.Group.Counts["succeeded"] != 5 {
		t.Errorf("in the end %v", done.Group.Counts)
	}
	red.wereAsked(6)
	blue.wereAsked(2)
}

func TestARolloutEndsWithTheKeyThatStartedIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	red := newFleet(h, "red", 2)
	lost := red.member(protocol.KindOperator, "chief", protocol.RoleOperator)
	id := red.update(lost, "x2", 2, fmt.Sprintf(`,"schedule_at":%q`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	red.becomes(id, "pending", 0)
	h.must("key.revoke", fmt.Sprintf(`{"key_id":%q,"space_id":"red"}`, keyID(lost)))
	eventually.Holds(t, "nobody is to be asked any more", func() bool { return red.becomes(id, "cancelled", 0).Group.Counts["cancelled"] == 2 })
	red.wereAsked(0)
}

func TestARolloutToThoseWhoseStateFits(t *testing.T) {
	t.Parallel()
	red := newFleet(newHouse(t), "red", 4)
	red.ok("group.declare", `{"cap_id":"home","group_id":"low","selector":"model=x2,state.power.battery<40"}`)
	red.becomes(red.update(red.chief, "low", 2, ""), "complete", 0)
	red.wereAsked(2)
	if red.asked[0].Load() != 1 || red.asked[1].Load() != 1 {
		t.Error("others were asked")
	}
}
