package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// agreeing is a permission check that refuses nothing. A bridge with an extension
// prepares no calls.
type agreeing struct{}

func (agreeing) Check(context.Context, *commands.Call, string, commands.Resource) error { return nil }

// unprepared are the options of a bridge on which every call goes the usual way.
func unprepared() []app.Option {
	return []app.Option{app.WithExtensions(commands.Extensions{Permissions: []commands.PermissionCheck{agreeing{}}})}
}

// A stage is a bridge with two lamps and a caller, whose calls all have a form
// that can be prepared.
type stage struct {
	*house
	olga  *bridgetest.Raw
	lamps [2]*bridgetest.Raw
	calls int
}

func newStage(t *testing.T, options []app.Option) *stage {
	s := &stage{house: newHouseWith(t, options)}
	s.olga = s.connect("olga", s.key(protocol.KindOperator, "olga", protocol.RoleOperator))
	for i := range s.lamps {
		id := fmt.Sprint("lamp-", i)
		s.lamps[i] = s.connect(id, s.admin)
		must(t, s.lamps[i], "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id))
		go echo(t, s.lamps[i])
	}
	s.describe(`"switch"`)
	s.lamps[0].Listen(t, "aibridge/agent/lamp-0/request")
	return s
}

// echo answers calls with who answers.
func echo(t *testing.T, lamp *bridgetest.Raw) {
	for {
		select {
		case <-t.Context().Done():
			return
		case m := <-lamp.Received:
			call, err := protocol.DecodeRequest(m.Payload, protocol.Limits{})
			if err != nil {
				continue // an answer to the lamp
			}
			answer := call.Answer(lamp.ID, time.Now())
			answer.Result = fmt.Appendf(nil, `{"by":%q}`, lamp.ID)
			_, _ = lamp.Publish(context.WithoutCancel(t.Context()), &paho.Publish{Topic: "aibridge/agent/" + lamp.ID + "/response", Payload: answer.Append(nil)})
		}
	}
}

// describe registers the skill of those lamps that are agents.
func (s *stage) describe(capabilities string) {
	for i := range s.lamps {
		s.run(s.admin, "skill.register", fmt.Sprintf(`{"agent_id":"lamp-%d","skill":{"skill_id":"lamp","name":"Lamp","capabilities":[%s]}}`, i, capabilities))
	}
}

func (s *stage) silence(i int) {
	if _, err := s.lamps[i].Unsubscribe(s.t.Context(), &paho.Unsubscribe{Topics: []string{fmt.Sprintf("aibridge/agent/lamp-%d/request", i)}}); err != nil {
		s.t.Fatal(err)
	}
}

// changes are the things that a call rests on, and may be another the moment before it.
// Each is acknowledged when it returns.
var changes = []struct {
	name string
	make func(*stage)
}{
	{"olga may not", func(s *stage) {
		s.must("policy.put", `{"name":"night","policy":"forbid (principal == Operator::\"olga\", action == Action::\"skill:invoke\", resource) when { resource.id == \"lamp\" };"}`)
	}},
	{"olga may", func(s *stage) { s.run(s.admin, "policy.remove", `{"name":"night"}`) }},
	{"no operator may", func(s *stage) {
		s.must("policy.put", `{"name":"night","policy":"forbid (principal in Role::\"operator\", action == Action::\"skill:invoke\", resource);"}`)
	}},
	{"n is needed", func(s *stage) {
		s.describe(`{"capability_id":"switch","params_schema":{"type":"object","required":["n"]}}`)
	}},
	{"n is a number", func(s *stage) {
		s.describe(`{"capability_id":"switch","params_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)
	}},
	{"the result is another", func(s *stage) {
		s.describe(`{"capability_id":"switch","result_schema":{"type":"object","required":["on"]}}`)
	}},
	{"anything goes", func(s *stage) { s.describe(`"switch"`) }},
	{"the lamp dims", func(s *stage) { s.describe(`"dim"`) }},
	{"the lamp is gone", func(s *stage) { s.run(s.admin, "skill.unregister", `{"skill_id":"lamp"}`) }},
	{"the first serves", func(s *stage) {
		s.silence(1)
		s.lamps[0].Listen(s.t, "aibridge/agent/lamp-0/request")
	}},
	{"the second serves", func(s *stage) {
		s.silence(0)
		s.lamps[1].Listen(s.t, "aibridge/agent/lamp-1/request")
	}},
	{"nobody serves", func(s *stage) {
		s.silence(0)
		s.silence(1)
	}},
	{"the first is no agent", func(s *stage) { s.run(s.admin, "agent.unregister", `{"agent_id":"lamp-0"}`) }},
	{"the first is an agent", func(s *stage) {
		s.run(s.admin, "agent.register", `{"agent_id":"lamp-0","type":"end_agent"}`)
		s.run(s.admin, "skill.provider.add", `{"skill_id":"lamp","agent_id":"lamp-0"}`)
	}},
}

// call makes calls of the same form with several params, and says how they ended.
func (s *stage) call() (ended []string) {
	for _, params := range []string{`{"n":1}`, `{}`, `{"n":"one"}`, `{"n":1,"n":2}`, `{"n":1}`} {
		s.calls++
		answer := s.olga.Ask(s.t, bridgetest.Request(fmt.Sprint("call-", s.calls), "skill.invoke",
			fmt.Sprintf(`{"skill_id":"lamp","capability_id":"switch","params":%s}`, params)))
		ended = append(ended, codeOf(answer)+" "+shape(answer))
	}
	return ended
}

// TestPreparedCallsAreJudgedByTheStateOfTheMoment changes what calls rest on, in
// random order, between calls of the same form on two bridges: one that prepares
// them, and one that does not. The next calls end alike.
func TestPreparedCallsAreJudgedByTheStateOfTheMoment(t *testing.T) {
	t.Parallel()
	prepared, usual := newStage(t, nil), newStage(t, unprepared())
	random := rand.New(rand.NewPCG(16, 3))
	var order []int
	for range 4 {
		order = append(order, random.Perm(len(changes))...)
	}
	codes := map[string]bool{}
	for _, i := range order {
		for _, s := range []*stage{prepared, usual} {
			changes[i].make(s)
		}
		got, want := prepared.call(), usual.call()
		for k := range want {
			codes[want[k][:4]] = true
			if got[k] != want[k] {
				t.Fatalf("after %q call %d ends with %s, unprepared with %s", changes[i].name, k, got[k], want[k])
			}
		}
	}
	for _, code := range []string{"ok {", "1000", "1001", "2003", "3001", "3005", "4012"} {
		if !codes[code] {
			t.Errorf("no call ended with %s: %v", code, codes)
		}
	}
	if n := prepared.metric("aibridge_commands_prepared_total"); n < 50 {
		t.Errorf("%v calls were prepared", n)
	}
	if n := usual.metric("aibridge_commands_prepared_total"); n > 0 {
		t.Errorf("%v calls were prepared in spite of an extension", n)
	}
}
