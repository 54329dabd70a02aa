package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

type groupTask struct {
	ID    protocol.TaskID `json:"task_id"`
	State string          `json:"state"`
	Group struct {
		Counts  map[string]int `json:"counts"`
		Members []struct {
			Skill string          `json:"skill_id"`
			State string          `json:"state"`
			Late  bool            `json:"late"`
			Data  json.RawMessage `json:"data"`
			Error struct {
				Code protocol.Code `json:"code"`
			} `json:"error"`
		} `json:"members"`
	} `json:"group"`
}

// dispatched starts a dispatch to the group of [home].
func dispatched(t testing.TB, c *bridgetest.Raw, more string) protocol.TaskID {
	t.Helper()
	var started groupTask
	if err := json.Unmarshal(must(t, c, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"switch"`+more+`}`), &started); err != nil {
		t.Fatal(err)
	}
	return started.ID
}

func getTask(t testing.TB, c *bridgetest.Raw, id protocol.TaskID) (task groupTask) {
	t.Helper()
	if err := json.Unmarshal(must(t, c, "task.get", fmt.Sprintf(`{"task_id":%q}`, id)), &task); err != nil {
		t.Fatal(err)
	}
	return task
}

// summary is a task in a few words: "partial: ok offline".
func (g groupTask) summary() string {
	var states []string
	for _, m := range g.Group.Members {
		states = append(states, m.State)
	}
	return g.State + ": " + strings.Join(states, " ")
}

func becomes(t testing.TB, c *bridgetest.Raw, id protocol.TaskID, want string) groupTask {
	t.Helper()
	var task groupTask
	var summary string
	eventually.Holds(t, "the task is "+want, func() bool {
		task = getTask(t, c, id)
		summary = task.summary()
		return summary == want
	}, &summary)
	return task
}

func TestADispatchGathersWhatEveryMemberAnswers(t *testing.T) {
	t.Parallel() // it waits for its deadline
	for life := 8 * time.Second; !gathersIn(t, life); life *= 2 {
		if life > bridgetest.Patience {
			t.Fatalf("not in %v", life)
		}
	}
}

// gathersIn reports whether the deadline was long enough for all that comes
// before it.
func gathersIn(t *testing.T, life time.Duration) bool {
	n := bridgetest.Start(t)
	one, two := n.Device(t, "one", "one", `["switch"]`), n.Device(t, "two", "two", `["switch"]`)
	n.Device(t, "three", "three", `["switch"]`).Drop()
	caller, watcher := n.Caller(t, "caller"), n.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/task/+/event")
	home(t, caller, "one", "two", "three")
	eventually.Holds(t, "three is gone", func() bool {
		return strings.Contains(string(must(t, caller, "group.query", `{"cap_id":"home","group_id":"all"}`)), `"offline"`)
	})
	id := dispatched(t, caller, fmt.Sprintf(`,"params":{"on":true},"deadline_ms":%d`, life.Milliseconds()))

	call := one.Invocation(t)
	if call.Command != "skill.invoke" || !strings.Contains(string(call.Params), `"params":{"on":true}`) || call.Metadata.Timeout > life {
		t.Errorf("one is asked %+v", call)
	}
	one.Send(t, "aibridge/agent/one/response", fmt.Sprintf(
		`{"version":"0.6.3","type":"event","event":"task.progress","id":%q,"timestamp":0,"data":{"percent":50}}`, call.ID))
	if _, inTime := comesTo(t, caller, id, "running: running pending offline"); !inTime {
		return false
	}
	one.Reply(t, "one", call, map[string]bool{"on": true})
	other := two.Invocation(t)
	one.Reply(t, "one", other, map[string]bool{"from": false}) // for somebody else
	two.Send(t, "aibridge/agent/two/response", fmt.Sprintf(
		`{"version":"0.6.3","type":"event","event":"task.rejected","id":%q,"timestamp":0,"data":{"reason":"too dark"}}`, other.ID))
	two.Reply(t, "two", other, map[string]bool{"on": true}) // a second answer
	done, inTime := comesTo(t, caller, id, "partial: ok rejected offline")
	if !inTime {
		return false
	}
	if string(done.Group.Members[0].Data) != `{"on":true}` || done.Group.Members[2].Error.Code != protocol.AgentOffline || done.Group.Counts["ok"] != 1 {
		t.Errorf("got %+v", done)
	}
	var events []string
	for len(events) == 0 || events[len(events)-1] != "task.partial" {
		e, err := protocol.DecodeEvent(watcher.Next(t).Payload, protocol.Limits{})
		if err != nil || e.ID != string(id) {
			t.Fatalf("event %+v, %v", e, err)
		}
		events = append(events, e.Name)
	}
	if !slices.Contains(events, "task.members") || !slices.Contains(events, "task.progress") {
		t.Errorf("events %v", events)
	}
	if listed := string(must(t, caller, "task.list", `{"state":"partial"}`)); !strings.Contains(listed, string(id)) || strings.Contains(listed, `"members"`) {
		t.Errorf("listed %s", listed)
	}
	return true
}

// comesTo waits until the task is what is wanted, or does not run any more.
func comesTo(t testing.TB, c *bridgetest.Raw, id protocol.TaskID, want string) (task groupTask, ok bool) {
	t.Helper()
	eventually.Holds(t, "the task is "+want+", or over", func() bool {
		task = getTask(t, c, id)
		return task.summary() == want || task.State != "running"
	}, &task)
	return task, task.summary() == want
}

func TestADispatchIsRefusedForNobody(t *testing.T) {
	n := bridgetest.Start(t)
	caller := n.Caller(t, "caller")
	home(t, caller, "one")
	for params, want := range map[string]protocol.Code{
		`{"cap_id":"home","group_id":"none","capability_id":"switch"}`:                                       protocol.NotFound,
		`{"cap_id":"none","group_id":"all","capability_id":"switch"}`:                                        protocol.NotFound,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","target":{"role":"x"}}`:                  protocol.NotFound,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","target":{"skill_ids":["x"]}}`:           protocol.NotFound,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","target":{"online_only":true}}`:          protocol.NotFound,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","completion":"quorum"}`:                  protocol.InvalidParameter,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","completion":{"policy":"quorum","n":2}}`: protocol.InvalidParameter,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","completion":{"policy":"all","n":1}}`:    protocol.InvalidParameter,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","deadline_ms":604800001}`:                protocol.InvalidParameter,
		`{"cap_id":"home","group_id":"all","capability_id":"switch","params":[]}`:                            protocol.InvalidParameter,
	} {
		answer := caller.Ask(t, bridgetest.Request(protocol.NewID(), "group.dispatch", params))
		if protocol.CodeOf(errorOf(answer)) != want {
			t.Errorf("%s: %v, want %s", params, answer.Err, want)
		}
	}
}

func TestADispatchGoesOnAfterARestart(t *testing.T) {
	n := bridgetest.Start(t)
	plain := n.Device(t, "plain", "plain", `["switch"]`) // knows nothing of being asked for results
	runs := make(chan string, 8)
	finish := make(chan struct{})
	sdk := n.Dial(t, client.WithAgent(client.Agent{ID: "sdk"}))
	serve(t, sdk, "sdk", func() { runs <- "sdk"; <-finish })
	caller := n.Caller(t, "caller")
	home(t, caller, "plain", "sdk", "later")
	id := dispatched(t, caller, `,"deadline_ms":300000`)
	call := plain.Invocation(t)
	<-runs
	becomes(t, caller, id, "running: pending accepted offline")

	n.Restart(t)
	caller = n.Caller(t, "caller")
	close(finish)
	plain = n.Connect(t, "plain")
	plain.Listen(t, "aibridge/agent/plain/request")
	later := n.Device(t, "later", "later", `["switch"]`)
	later.Reply(t, "later", later.Invocation(t), map[string]bool{"on": true})
	becomes(t, caller, id, "running: pending ok ok")
	for { // the bridge asks what became of the call, and does not ask it again
		asked := plain.Invocation(t)
		if asked.Command == "task.get" && strings.Contains(string(asked.Params), call.ID) {
			break
		}
		t.Errorf("plain is asked %s %s", asked.Command, asked.Params)
	}
	plain.Reply(t, "plain", call, map[string]bool{"on": true})
	becomes(t, caller, id, "complete: ok ok ok")
	if len(runs) != 0 {
		t.Error("the SDK's capability ran twice")
	}
}

func TestCancellingADispatchReachesTheDevices(t *testing.T) {
	n := bridgetest.Start(t)
	one := n.Device(t, "one", "one", `["switch"]`)
	caller := n.Caller(t, "caller")
	home(t, caller, "one", "two")
	id := dispatched(t, caller, ``)
	call := one.Invocation(t)
	must(t, caller, "task.cancel", fmt.Sprintf(`{"task_id":%q,"reason":"changed my mind"}`, id))
	if told := one.Invocation(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), call.ID) {
		t.Errorf("one is told %s %s", told.Command, told.Params)
	}
	one.Reply(t, "one", call, map[string]bool{"on": true}) // too late
	becomes(t, caller, id, "cancelled: cancelled cancelled")
	if answer := caller.Ask(t, bridgetest.Request("again", "task.cancel", fmt.Sprintf(`{"task_id":%q}`, id))); protocol.CodeOf(errorOf(answer)) != protocol.InvalidState {
		t.Errorf("cancelled twice: %v", answer.Err)
	}
}

// serve has an SDK agent serve one skill that can switch.
func serve(t testing.TB, c *client.Client, skill protocol.SkillID, do func()) {
	t.Helper()
	_, err := c.ServeSkill(t.Context(), client.Skill{ID: skill, Capabilities: []client.Capability{{
		ID: "switch",
		Handler: func(context.Context, *client.Invocation) (any, error) {
			do()
			return map[string]bool{"on": true}, nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkTenGroupsOfAThousand dispatches to ten groups of a thousand members
// at once. The members are skills of a thousand agents on ten connections, and
// answer as soon as they are asked.
func BenchmarkTenGroupsOfAThousand(b *testing.B) {
	const groups, agents, connections = 10, 1000, 10
	n := bridgetest.Start(b)
	ask := n.Dial(b)
	call := func(command string, params map[string]any) {
		if _, err := client.Call[json.RawMessage](b.Context(), ask, command, params); err != nil {
			b.Errorf("%s: %v", command, err)
		}
	}
	call("cap.declare", map[string]any{"cap_id": "home", "cap_name": "Home", "skill_id": "owner", "max_members": 1000})
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() {
			device := n.Connect(b, fmt.Sprintf("connection-%d", c))
			for a := c; a < agents; a += connections {
				agent := fmt.Sprintf("agent-%d", a)
				call("agent.register", map[string]any{"agent_id": agent, "type": "end_agent"})
				for g := range groups {
					call("skill.register", map[string]any{"agent_id": agent, "skill": map[string]any{
						"skill_id": fmt.Sprintf("skill-%d-%d", g, a), "name": "s", "capabilities": []string{"switch"}}})
				}
				device.Listen(b, "aibridge/agent/"+agent+"/request")
			}
			go answerAll(device)
		})
		all.Go(func() {
			g := c
			for a := range agents {
				call("group.member.add", map[string]any{"cap_id": "home", "group_id": fmt.Sprint(g), "skill_id": fmt.Sprintf("skill-%d-%d", g, a), "role": "r"})
			}
		})
	}
	all.Wait()
	idle := memory()
	var peak uint64
	for b.Loop() {
		var dispatches sync.WaitGroup
		for g := range groups {
			dispatches.Go(func() {
				started, err := client.Call[groupTask](b.Context(), ask, "group.dispatch", map[string]any{"cap_id": "home", "group_id": fmt.Sprint(g), "capability_id": "switch"})
				if err != nil {
					b.Error(err)
					return
				}
				for {
					listed, err := client.Call[groupTask](b.Context(), ask, "task.get", map[string]any{"task_id": started.ID}, client.Fresh())
					if err != nil || listed.State != "running" {
						if listed.Group.Counts["ok"] != agents {
							b.Errorf("group %d: %s %v %v", g, listed.State, listed.Group.Counts, err)
						}
						return
					}
					time.Sleep(20 * time.Millisecond) // the pace of the poll
				}
			})
		}
		dispatches.Wait()
		peak = max(peak, memory())
	}
	b.ReportMetric(float64(int64(peak)-int64(idle))/(1<<20), "MiB-over-idle")
}

// answerAll answers every invocation a connection gets.
func answerAll(device *bridgetest.Raw) {
	for p := range device.Received {
		request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
		if err != nil {
			continue
		}
		answer := request.Answer("agent", time.Now())
		answer.Result = []byte(`{"on":true}`)
		topic := strings.TrimSuffix(p.Topic, "request") + "response"
		if _, err := device.Publish(context.Background(), &paho.Publish{Topic: topic, Payload: answer.Append(nil)}); err != nil {
			return
		}
	}
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
