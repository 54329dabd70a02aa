package route_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/route"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A stage is a bridge with the scene SMART_HOME of the Cap home. In its group
// lamps there are a lamp that is there, one that is not, and one that takes no
// part in the scene.
type stage struct {
	t      *testing.T
	node   *bridgetest.Node
	lamp   *bridgetest.Raw // lamp-1
	caller *client.Client
}

func newStage(t *testing.T) *stage {
	t.Helper()
	n := bridgetest.Start(t)
	s := &stage{t: t, node: n, lamp: n.Device(t, "lamp-1", "lamp-1", `["switch"]`), caller: n.Dial(t)}
	n.Device(t, "lamp-2", "lamp-2", `["switch"]`).Drop()
	n.Device(t, "lamp-3", "lamp-3", `["switch"]`)
	s.must("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router"}`)
	for _, skill := range []string{"router", "spare", "lamp-1", "lamp-2", "lamp-3"} {
		s.must("group.member.add", fmt.Sprintf(`{"cap_id":"home","group_id":"lamps","skill_id":%q,"role":"any"}`, skill))
	}
	return s
}

func (s *stage) must(command, params string) {
	s.t.Helper()
	if _, err := client.Call[json.RawMessage](s.t.Context(), s.caller, command, json.RawMessage(params)); err != nil {
		s.t.Fatalf("%s %s: %v", command, params, err)
	}
}

// play runs a route agent until the test ends or it does; its end is told.
func (s *stage) play(name string) (agent *client.Client, ended chan error) {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	agent = s.node.DialAs(s.t, s.caller, name, "SMART_HOME", client.WithAgent(client.Agent{ID: protocol.AgentID(name), Type: client.RouteAgent}))
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- route.Run(ctx, route.Options{
			Client: agent, Skill: protocol.SkillID(name), Scene: "SMART_HOME", Cap: "home", Group: "lamps", Log: slog.New(slog.DiscardHandler),
		})
	}()
	s.t.Cleanup(func() { stop(); <-done })
	eventually.Holds(s.t, name+" is discovered", func() bool {
		found, err := client.Call[json.RawMessage](s.t.Context(), s.caller, "skill.discover", map[string]any{"capability": "route"}, client.Fresh())
		return err == nil && strings.Contains(string(found), fmt.Sprintf("%q", name))
	})
	return agent, ended
}

// join has a lamp take part in the scene, and waits until the route agent
// knows.
func (s *stage) join(lamps ...string) {
	s.t.Helper()
	eventually.Holds(s.t, "the scene is declared", func() bool {
		found, err := client.Call[json.RawMessage](s.t.Context(), s.caller, "scene.query", map[string]any{}, client.Fresh())
		return err == nil && strings.Contains(string(found), `"active"`)
	})
	for _, lamp := range lamps {
		s.must("scene.join", fmt.Sprintf(`{"scene_type":"SMART_HOME","cap_id":"home","skill_id":%q}`, lamp))
	}
	s.knows(true, lamps...)
}

// knows waits until the route agent knows who takes part, or does not: it
// complains of the first that does not.
func (s *stage) knows(part bool, lamps ...string) {
	s.t.Helper()
	for _, lamp := range lamps {
		eventually.Holds(s.t, fmt.Sprintf("%s takes part: %t", lamp, part), func() bool {
			_, err := s.routed("router", map[string]any{"capability_id": "none", "target": map[string]any{"skill_ids": []string{lamp, "ghost"}}})
			return protocol.CodeOf(err) == protocol.NotFound && protocol.AsError(err).Details["skill_id"] == map[bool]string{true: "ghost", false: lamp}[part]
		})
	}
}

func (s *stage) routed(by string, params map[string]any, opts ...client.CallOption) (route.Summary, error) {
	s.t.Helper()
	answer, err := client.Call[struct {
		Data route.Summary `json:"data"`
	}](s.t.Context(), s.caller, "skill.invoke", map[string]any{"skill_id": by, "capability_id": "route", "params": params}, opts...)
	return answer.Data, err
}

func TestARouteAgentBroadcastsToItsSceneAndReturnsTheSummary(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.play("router")
	s.join("lamp-1", "lamp-2")
	go func() { s.lamp.Reply(t, "lamp-1", s.lamp.Invocation(t), map[string]bool{"on": true}) }()
	got, err := s.routed("router", map[string]any{"capability_id": "switch", "params": map[string]any{"on": true}, "deadline_ms": 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if got.State != "partial" || got.Online != 1 || got.Counts["ok"] != 1 || got.Counts["offline"] != 1 || len(got.Counts) != 2 ||
		got.Scene != "SMART_HOME" || !strings.Contains(string(got.Members), `"on":true`) {
		t.Errorf("got %+v %s", got, got.Members)
	}
}

func TestWhoRejectsAndWhoLeavesIsSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.play("router")
	s.join("lamp-1", "lamp-2")
	go func() {
		s.lamp.Send(t, "aibridge/agent/lamp-1/response", fmt.Sprintf(
			`{"version":"0.6.3","type":"event","event":"task.rejected","id":%q,"timestamp":0,"data":{"reason":"too dark"}}`, s.lamp.Invocation(t).ID))
	}()
	got, err := s.routed("router", map[string]any{"capability_id": "switch", "target": map[string]any{"skill_ids": []string{"lamp-1"}}})
	if err != nil || got.State != "failed" || got.Counts["rejected"] != 1 || len(got.Counts) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	s.must("scene.leave", `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"lamp-1"}`)
	s.knows(false, "lamp-1")
	got, err = s.routed("router", map[string]any{"capability_id": "switch", "deadline_ms": 50})
	if err != nil || got.Counts["offline"] != 1 || len(got.Counts) != 1 {
		t.Errorf("without lamp-1: %+v, %v", got, err)
	}
}

func TestWhatTheBridgeRefusesTheRouteAgentRefuses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.play("router")
	s.join("lamp-1")
	for _, test := range []struct {
		params map[string]any
		want   protocol.Code
	}{
		{map[string]any{"capability_id": "switch", "group_id": "nobody"}, protocol.NotFound},
		{map[string]any{"capability_id": "switch", "cap_id": "other"}, protocol.InvalidParameter},
		{map[string]any{"capability_id": "switch", "target": map[string]any{"skill_ids": []string{"lamp-3"}}}, protocol.NotFound},
		{map[string]any{"capability_id": "switch", "target": map[string]any{"skill_ids": "lamp-1"}}, protocol.InvalidParameter},
		{map[string]any{"capability_id": "switch", "target": map[string]any{"role": "none"}}, protocol.NotFound},
	} {
		if _, err := s.routed("router", test.params); protocol.CodeOf(err) != test.want {
			t.Errorf("%v: %v, want %s", test.params, err, test.want)
		}
	}
}

func TestWhenNobodyWaitsAnyMoreTheDevicesAreTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.play("router")
	s.join("lamp-1")
	started, err := client.Call[struct {
		Task protocol.TaskID `json:"task_id"`
	}](t.Context(), s.caller, "skill.invoke", map[string]any{"skill_id": "router", "capability_id": "route", "async": true,
		"params": map[string]any{"capability_id": "switch"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the lamp is asked", func() bool {
		task, err := client.Call[json.RawMessage](t.Context(), s.caller, "task.get", map[string]any{"task_id": started.Task}, client.Fresh())
		if err != nil || !strings.Contains(string(task), `"running"`) {
			t.Fatalf("the task is %s, %v", task, err)
		}
		return len(s.lamp.Received) > 0
	})
	call := s.lamp.Invocation(t)
	s.must("task.cancel", fmt.Sprintf(`{"task_id":%q}`, started.Task))
	if told := s.lamp.Invocation(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), call.ID) {
		t.Errorf("the lamp is told %s %s", told.Command, told.Params)
	}
}

func TestABackupRoutesWhenItIsInCharge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	router, _ := s.play("router")
	s.join("lamp-2")
	s.play("spare")
	ask := map[string]any{"capability_id": "switch", "deadline_ms": 50}
	eventually.Holds(t, "the backup stands by", func() bool {
		_, err := s.routed("spare", ask)
		return protocol.CodeOf(err) == protocol.InvalidState && protocol.AsError(err).Details["acting"] == "router"
	})
	_ = router.Close()
	eventually.Holds(t, "the backup is in charge", func() bool {
		got, err := s.routed("spare", ask)
		return err == nil && got.Counts["offline"] == 1
	})
}

func TestTheEndOfItsSceneEndsARouteAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, ended := s.play("router")
	s.join("lamp-1")
	s.must("scene.declare.cancel", `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"router"}`)
	if err := <-ended; protocol.CodeOf(err) != protocol.NotFound || !strings.Contains(err.Error(), "SMART_HOME") {
		t.Errorf("it ends with %v", err)
	}
}

func TestNobodyRoutesWithoutACertificateForThis(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	agent := client.WithAgent(client.Agent{ID: "router", Type: client.RouteAgent})
	o := route.Options{Client: s.node.Dial(t, agent), Skill: "router", Scene: "SMART_HOME", Cap: "home", Group: "lamps"}
	if err := route.Run(t.Context(), o); protocol.CodeOf(err) != protocol.CertificateRequired {
		t.Errorf("without a certificate: %v", err)
	}
	_ = o.Client.Close()
	o.Client = s.node.DialAs(t, s.caller, "router", "SMART_HOME", agent)
	o.Scene = "OFFICE"
	if err := route.Run(t.Context(), o); protocol.CodeOf(err) != protocol.OutsideScope {
		t.Errorf("with a certificate for another scene: %v", err)
	}
}
