package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

const invokeLamp = `{"skill_id":"lamp","capability_id":"switch"}`

// envelope is a request with metadata.
func envelope(id, command, params, metadata string) string {
	return strings.Replace(bridgetest.Request(id, command, params), `"metadata":{}`, `"metadata":`+metadata, 1)
}

func TestWhatTheCallerGetsWhenTheAgentFails(t *testing.T) {
	const plain, idempotent = `["switch"]`, `[{"capability_id":"switch","idempotent":true}]`
	for name, test := range map[string]struct {
		capabilities string
		fail         func(t *testing.T, device *bridgetest.Raw)
		code         protocol.Code
	}{
		"offline before the call": {plain, nil, protocol.AgentOffline},
		"dies during the call": {plain, func(t *testing.T, d *bridgetest.Raw) {
			d.Invocation(t)
			d.Drop()
		}, protocol.OutcomeUnknown},
		"dies during a call that may be repeated, with nobody else there": {idempotent, func(t *testing.T, d *bridgetest.Raw) {
			d.Invocation(t)
			d.Drop()
		}, protocol.OutcomeUnknown},
		"never answers": {plain, func(*testing.T, *bridgetest.Raw) {}, protocol.TimedOut},
		"refuses": {plain, func(t *testing.T, d *bridgetest.Raw) {
			d.Send(t, "aibridge/agent/lamp-1/response", fmt.Sprintf(
				`{"version":"0.6.3","type":"event","event":"task.rejected","id":%q,"timestamp":0,"data":{"reason":"too hot"}}`, d.Invocation(t).ID))
		}, protocol.TargetUnavailable},
		"answers garbage": {plain, func(t *testing.T, d *bridgetest.Raw) {
			request := d.Next(t)
			if _, err := d.Publish(t.Context(), &paho.Publish{
				Topic: "aibridge/agent/lamp-1/response", QoS: 1, Payload: []byte("oops"),
				Properties: &paho.PublishProperties{CorrelationData: request.Properties.CorrelationData},
			}); err != nil {
				t.Fatal(err)
			}
		}, protocol.OutcomeUnknown},
		"fails with a code of its own": {plain, func(t *testing.T, d *bridgetest.Raw) {
			d.Send(t, "aibridge/agent/lamp-1/response", fmt.Sprintf(
				`{"version":"0.6.3","type":"response","id":%q,"timestamp":0,"status":"failed","error":{"code":"3006","message":"no bulb"}}`, d.Invocation(t).ID))
		}, protocol.InvalidState},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bridgetest.Start(t)
			device := n.Device(t, "lamp-1", "lamp", test.capabilities)
			caller := n.Caller(t, "caller")
			timeout := 60_000
			if test.code == protocol.TimedOut {
				timeout = 1500
			}
			if test.fail == nil {
				device.Drop()
				waitForStatus(t, caller, "lamp-1", "offline")
			}
			caller.Send(t, "aibridge/bridge/request", envelope("1", "skill.invoke", invokeLamp, fmt.Sprintf(`{"timeout":%d}`, timeout)))
			if test.fail != nil {
				test.fail(t, device)
			}
			if got := caller.Answer(t); got.Err == nil || got.Err.Code != test.code {
				t.Errorf("got %v, want %s", got.Err, test.code)
			}
		})
	}
}

func waitForStatus(t *testing.T, caller *bridgetest.Raw, agent, status string) {
	t.Helper()
	try := 0
	eventually.Holds(t, agent+" is "+status, func() bool {
		try++
		answer := caller.Ask(t, bridgetest.Request(fmt.Sprintf("status-%s-%s-%d", agent, status, try), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, agent)))
		return answer.Err == nil && strings.Contains(string(answer.Result), fmt.Sprintf(`"status":%q`, status))
	})
}

func TestACallThatMayBeRepeatedMovesToAnotherProvider(t *testing.T) {
	n := bridgetest.Start(t)
	const capabilities = `[{"capability_id":"switch","idempotent":true}]`
	devices := map[string]*bridgetest.Raw{
		"lamp-1": n.Device(t, "lamp-1", "lamp", capabilities),
		"lamp-2": n.Device(t, "lamp-2", "lamp", capabilities),
	}
	caller := n.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("1", "skill.invoke", invokeLamp))
	var second *bridgetest.Raw
	var id string
	select {
	case <-devices["lamp-1"].Received:
		devices["lamp-1"].Drop()
		id, second = "lamp-2", devices["lamp-2"]
	case <-devices["lamp-2"].Received:
		devices["lamp-2"].Drop()
		id, second = "lamp-1", devices["lamp-1"]
	case <-time.After(bridgetest.Patience):
		t.Fatal("nobody is asked")
	}
	second.Reply(t, id, second.Invocation(t), map[string]bool{"on": true})
	if answer := caller.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), id) {
		t.Errorf("got %s, %v", answer.Result, answer.Err)
	}
}

func TestAnswersNobodyAskedForChangeNothing(t *testing.T) {
	n := bridgetest.Start(t)
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	stranger := n.Device(t, "lamp-2", "other", `["switch"]`)
	caller := n.Caller(t, "caller")

	stranger.Send(t, "aibridge/agent/lamp-2/response", `{"version":"0.6.3","id":"nobody","type":"response","status":"success","result":{}}`)
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("1", "skill.invoke", invokeLamp))
	call := device.Invocation(t)
	stranger.Reply(t, "lamp-2", call, map[string]string{"from": "the wrong agent"})
	device.Reply(t, "lamp-1", call, map[string]string{"from": "the right agent"})
	device.Reply(t, "lamp-1", call, map[string]string{"from": "a second answer"})
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("2", "skill.invoke", invokeLamp))
	device.Reply(t, "lamp-1", device.Invocation(t), map[string]string{"from": "another call"})
	if answer := caller.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), "the right agent") {
		t.Errorf("got %s, %v", answer.Result, answer.Err)
	}
	if answer := caller.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), "another call") {
		t.Errorf("after the answer comes %s, %v", answer.Result, answer.Err)
	}
}

func TestTheInvocationSaysHowLongAndForWhom(t *testing.T) {
	n := bridgetest.Start(t)
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	caller := n.Caller(t, "caller")
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	properties := &paho.PublishProperties{ResponseTopic: "aibridge/client/caller/response", CorrelationData: []byte("abc")}
	properties.User.Add("traceparent", traceparent)
	if _, err := caller.Publish(t.Context(), &paho.Publish{Topic: "aibridge/bridge/request", QoS: 1, Properties: properties,
		Payload: []byte(envelope("1", "skill.invoke", invokeLamp, `{"timeout":50000,"trace_id":"t-1"}`))}); err != nil {
		t.Fatal(err)
	}
	p := device.Next(t)
	request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if request.ID == "1" || request.Command != "skill.invoke" || request.Metadata.TraceID != "t-1" {
		t.Errorf("request %+v", request)
	}
	if left := request.Metadata.Timeout; left <= 0 || left > 50*time.Second {
		t.Errorf("timeout %v", left)
	}
	if e := p.Properties.MessageExpiry; e == nil || *e == 0 || *e > 50 || len(p.Properties.CorrelationData) == 0 || p.Properties.ContentType != "application/json" {
		t.Errorf("properties %+v", p.Properties)
	}
	if got := p.Properties.User.Get("traceparent"); !strings.HasPrefix(got, traceparent[:35]) {
		t.Errorf("traceparent %q does not continue the caller's", got)
	}
	device.Reply(t, "lamp-1", request, map[string]bool{"on": true})
	answer := caller.Next(t)
	if string(answer.Properties.CorrelationData) != "abc" || answer.QoS != 1 {
		t.Errorf("answer with %q and QoS %d", answer.Properties.CorrelationData, answer.QoS)
	}
}

func TestProgressReachesOnlyWhoAskedForIt(t *testing.T) {
	n := bridgetest.Start(t)
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	for events, want := range map[bool]int{true: 2, false: 0} {
		caller := n.Caller(t, fmt.Sprintf("caller-%v", events))
		caller.Send(t, "aibridge/bridge/request", envelope(fmt.Sprint(events), "skill.invoke", invokeLamp, fmt.Sprintf(`{"events":%v}`, events)))
		call := device.Invocation(t)
		for i, event := range []string{"task.accepted", "task.progress"} {
			device.Send(t, "aibridge/agent/lamp-1/response", fmt.Sprintf(
				`{"version":"0.6.3","type":"event","event":%q,"id":%q,"timestamp":0,"data":{"percent":%d}}`, event, call.ID, i*50))
		}
		device.Reply(t, "lamp-1", call, map[string]bool{"on": true})
		var got int
		for {
			p := caller.Next(t)
			if m, err := protocol.DecodeEnvelope(p.Payload, protocol.Limits{}); err != nil {
				t.Fatal(err)
			} else if m.Response != nil {
				break
			} else if m.Event != nil {
				got++
				if m.Event.ID != fmt.Sprint(events) || m.Event.Seq != uint64(got) {
					t.Errorf("event %+v", m.Event)
				}
			}
		}
		if got != want {
			t.Errorf("events %v: got %d events, want %d", events, got, want)
		}
	}
}

func TestAnAsynchronousCallIsFollowedAndCancelled(t *testing.T) {
	n := bridgetest.Start(t)
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	caller := n.Caller(t, "caller")
	started := caller.Ask(t, bridgetest.Request("1", "skill.invoke", `{"skill_id":"lamp","capability_id":"switch","async":true}`))
	var task struct {
		ID    string `json:"task_id"`
		State string `json:"state"`
	}
	if started.Err != nil || json.Unmarshal(started.Result, &task) != nil || task.ID == "" {
		t.Fatalf("got %s, %v", started.Result, started.Err)
	}
	call := device.Invocation(t)
	cancelled := caller.Ask(t, bridgetest.Request("2", "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task.ID)))
	if cancelled.Err != nil {
		t.Fatal(cancelled.Err)
	}
	if told := device.Invocation(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), call.ID) {
		t.Errorf("the device is told %s %s", told.Command, told.Params)
	}
	eventually.Holds(t, "the task is cancelled", func() bool {
		got := caller.Ask(t, bridgetest.Request(protocol.NewID(), "task.get", fmt.Sprintf(`{"task_id":%q}`, task.ID)))
		return got.Err == nil && json.Unmarshal(got.Result, &task) == nil && task.State == "cancelled"
	})
}

func TestRegistrationsOutliveTheProcess(t *testing.T) {
	n := bridgetest.Start(t)
	n.Device(t, "lamp-1", "lamp", `["switch"]`).Drop()
	n.Restart(t)
	caller := n.Caller(t, "caller")
	found := caller.Ask(t, bridgetest.Request("1", "skill.discover", `{}`))
	if found.Err != nil || !strings.Contains(string(found.Result), `"lamp"`) {
		t.Errorf("after the restart: %s, %v", found.Result, found.Err)
	}
	device := n.Connect(t, "lamp-1")
	device.Listen(t, "aibridge/agent/lamp-1/request")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("2", "skill.invoke", invokeLamp))
	device.Reply(t, "lamp-1", device.Invocation(t), map[string]bool{"on": true})
	if answer := caller.Answer(t); answer.Err != nil {
		t.Error(answer.Err)
	}
}

func TestTheCardFollowsTheConnection(t *testing.T) {
	n := bridgetest.Start(t)
	watcher := n.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/agent/lamp-1/card")
	status := func(want string) {
		t.Helper()
		deadline := time.After(bridgetest.Patience)
		for {
			select {
			case p := <-watcher.Received:
				if strings.Contains(string(p.Payload), fmt.Sprintf(`"status":%q`, want)) {
					return
				}
			case <-deadline:
				t.Fatalf("the card never says %s", want)
			}
		}
	}
	device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
	status("online")
	device.Drop()
	status("offline")
}
