package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/shadow"
)

const heating = `{"skill_id":"heating","name":"Heating","capabilities":["off"],"state_schema":` +
	`{"type":"object","properties":{"celsius":{"type":"number","minimum":5,"maximum":30},"battery":{"type":"integer","readOnly":true}}}}`

// thermostat registers the agent stat and drops the connection.
func (h *house) thermostat(key string) {
	h.t.Helper()
	stat := h.connect("stat", key)
	if answer := h.ask(stat, "agent.register", `{"agent_id":"stat","type":"end_agent","skills":[`+heating+`]}`); answer.Err != nil {
		h.t.Fatal(answer.Err)
	}
	stat.Drop()
}

// reports publishes on the reported topic with QoS 1 and returns the reason of the
// acknowledgement.
func reports(t *testing.T, r *bridgetest.Raw, payload string) byte {
	t.Helper()
	ack, err := r.Publish(t.Context(), &paho.Publish{Topic: "aibridge/agent/stat/state/reported", QoS: 1, Retain: true, Payload: []byte(payload)})
	if ack == nil {
		t.Fatal(err)
	}
	return ack.ReasonCode
}

// showsState waits for messages in any order, each the last part of its topic and its payload.
func showsState(t *testing.T, r *bridgetest.Raw, want ...string) {
	t.Helper()
	left := map[string]bool{}
	for _, w := range want {
		left[w] = true
	}
	for range want {
		p := r.Next(t)
		got := p.Topic[strings.LastIndexByte(p.Topic, '/')+1:] + " " + string(p.Payload)
		if !left[got] {
			t.Fatalf("%s hears %s, want %v", r.ID, got, want)
		}
		delete(left, got)
	}
}

// A wish is stored while the device is away, over a restart too, and waits for it.
func TestADesiredStateWaitsForItsDevice(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "stat", protocol.RoleEndAgent)
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	h.thermostat(key)
	if code, body := h.run(operator, "state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":21}}`); code != "" {
		t.Fatal(body)
	}
	h.Restart(t)
	stat := h.connect("stat", key)
	stat.Listen(t, "aibridge/agent/stat/state/delta")
	showsState(t, stat, `delta {"heating":{"celsius":21}}`)
	watcher := h.connect("watcher", operator)
	watcher.Listen(t, "aibridge/agent/+/state/#")
	showsState(t, watcher, `desired {"heating":{"celsius":21}}`, `delta {"heating":{"celsius":21}}`)

	if reason := reports(t, stat, `{"heating":{"celsius":21.0,"battery":80}}`); reason != 0 {
		t.Fatalf("0x%02X", reason)
	}
	showsState(t, watcher, `reported {"heating":{"battery":80,"celsius":21.0}}`, `delta {}`)
	showsState(t, stat, `delta {}`)
	var got shadow.GetResult
	_, body := h.run(key, "state.get", `{"agent_id":"stat"}`)
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Skills) != 1 || !got.Skills[0].InSync || got.Skills[0].Reported.UpdatedBy != "stat" {
		t.Errorf("%v: %s", err, body)
	}
	h.must("agent.unregister", `{"agent_id":"stat"}`)
	showsState(t, watcher, "desired ", "reported ", "delta ")
}

// Of a report that is refused the device learns by the acknowledgement and on its
// event topic.
func TestARefusedReportIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "stat", protocol.RoleEndAgent)
	h.thermostat(key)
	stat := h.connect("stat", key)
	stat.Listen(t, "aibridge/agent/stat/event")
	if reason := reports(t, stat, `{"heating":{"celsius":99}}`); reason != 0x99 {
		t.Errorf("0x%02X", reason)
	}
	if told := string(stat.Next(t).Payload); !strings.Contains(told, "state.refused") || !strings.Contains(told, "state.celsius") {
		t.Error(told)
	}
	old := h.Caller(t, "old", withPassword("apikey", key), func(c *paho.Connect) { c.KeepAlive = 60 })
	if reason := reports(t, old, `{"heating":{"celsius":9}}`); reason != 0 {
		t.Errorf("0x%02X", reason)
	}
	if code, body := h.run(key, "state.report", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":8}}`); code != "" {
		t.Error(body)
	}
}

func TestStateIsForWhoMaySeeAndSetIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	stat := h.key(protocol.KindAgent, "stat", protocol.RoleEndAgent)
	h.thermostat(stat)
	lamp := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	observer := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	tenant := h.key(protocol.KindOperator, "olga", protocol.RoleOperator, `,"space_id":"acme"`)
	sets, gets, says := "state.desired.set", "state.get", "state.report"
	document := `{"agent_id":"stat","skill_id":"heating","state":{"celsius":20}}`
	for _, c := range []struct {
		name, key, command string
		code               protocol.Code
	}{
		{"operator", operator, sets, ""}, {"operator", operator, gets, ""}, {"operator", operator, says, protocol.PermissionDenied},
		{"observer", observer, sets, protocol.PermissionDenied}, {"observer", observer, gets, ""}, {"observer", observer, says, protocol.PermissionDenied},
		{"the device", stat, sets, protocol.PermissionDenied}, {"the device", stat, gets, ""}, {"the device", stat, says, ""},
		{"a device", lamp, sets, protocol.PermissionDenied}, {"a device", lamp, gets, protocol.PermissionDenied}, {"a device", lamp, says, protocol.PermissionDenied},
		{"a tenant", tenant, sets, protocol.NotFound}, {"a tenant", tenant, gets, protocol.NotFound}, {"a tenant", tenant, says, protocol.NotFound},
		{"administrator", h.admin, sets, ""}, {"administrator", h.admin, says, protocol.PermissionDenied},
	} {
		params := document
		if c.command == gets {
			params = `{"agent_id":"stat"}`
		}
		if code, body := h.run(c.key, c.command, params); code != c.code {
			t.Errorf("%s: %s: %s", c.name, c.command, body)
		}
	}
	for name, c := range map[string]struct {
		key     string
		publish byte
		listen  byte
	}{"a device": {lamp, 0x87, 0x87}, "an operator": {operator, 0x87, 1}, "an administrator": {h.admin, 0x87, 1}} {
		r := h.connect(fmt.Sprint("of ", name), c.key)
		if reason := reports(t, r, `{"heating":{"celsius":7}}`); reason != c.publish {
			t.Errorf("%s reports: 0x%02X", name, reason)
		}
		if reason := subscribe(t, r, "aibridge/agent/stat/state/reported"); reason != c.listen {
			t.Errorf("%s listens: 0x%02X", name, reason)
		}
	}
	elsewhere := h.connect("elsewhere", tenant)
	if reason := subscribe(t, elsewhere, "aibridge/agent/stat/state/+"); reason != 1 {
		t.Errorf("0x%02X", reason)
	}
	own := h.connect("own", stat)
	own.Listen(t, "aibridge/agent/stat/state/reported")
	showsState(t, own, `reported {"heating":{"celsius":20}}`)
	if reason := reports(t, own, `{"heating":{"celsius":10}}`); reason != 0 {
		t.Errorf("0x%02X", reason)
	}
	showsState(t, own, `reported {"heating":{"celsius":10}}`)
	select {
	case p := <-elsewhere.Received:
		t.Errorf("another tenant hears %s", p.Payload)
	default:
	}
}

// A policy lets somebody set the desired state of one skill of one agent.
func TestAPolicyNamesWhoSetsWhichState(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.thermostat(h.key(protocol.KindAgent, "stat", protocol.RoleEndAgent))
	h.must("policy.put", `{"name":"comfort","policy":"permit (principal == Operator::\"ann\", action == Action::\"state:desired.set\", resource) when { resource has skill && resource.skill == \"heating\" && resource has agents && resource.agents.contains(\"stat\") };"}`)
	ann := h.key(protocol.KindOperator, "ann", protocol.RoleObserver)
	eventually.Holds(t, "ann may", func() bool {
		code, _ := h.run(ann, "state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":20}}`)
		return code == ""
	})
	if code, body := h.run(ann, "state.desired.set", `{"agent_id":"stat","skill_id":"other","state":{}}`); code != protocol.PermissionDenied {
		t.Error(body)
	}
}

// A device with the Go SDK takes over what it shall be, when it comes and while it
// is there, and reports what it is.
func TestADeviceWithTheSDKBecomesWhatItShallBe(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "stat", protocol.RoleEndAgent)
	h.thermostat(key)
	h.must("state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":21}}`)
	type settings struct {
		Celsius float64 `json:"celsius"`
	}
	c := h.Dial(t, client.WithAPIKey(key), client.WithAgent(client.Agent{ID: "stat"}))
	served, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "heating", Name: "Heating", StateSchema: json.RawMessage(`{"type":"object","properties":{"celsius":{"maximum":30}}}`),
		Capabilities: []client.Capability{{ID: "off", Handler: func(context.Context, *client.Invocation) (any, error) { return nil, nil }}},
		Desired: client.Desire(func(_ context.Context, want settings) (settings, error) {
			if want.Celsius == 13 {
				return settings{}, errors.New("the thirteenth degree is broken")
			}
			return want, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	reported := func(want string) {
		t.Helper()
		var body string
		eventually.Holds(t, "it reports "+want, func() bool {
			body = h.must("state.get", `{"agent_id":"stat"}`)
			return strings.Contains(body, want)
		}, &body)
	}
	reported(`"state":{"celsius":21}`)
	if err := served.Report(t.Context(), map[string]any{"battery": 80}); err != nil {
		t.Fatal(err)
	}
	if err := served.Report(t.Context(), map[string]any{"celsius": 31}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Error(err)
	}
	h.must("state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":13}}`)
	h.must("state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":22}}`)
	reported(`"state":{"battery":80,"celsius":22}`)
}
