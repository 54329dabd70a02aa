package security

import (
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/policy"
)

var (
	device    = &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: protocol.DefaultSpace}
	admin     = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
	anonymous = &protocol.Principal{Kind: protocol.KindOperator, ID: "anonymous", Roles: []string{protocol.RoleAnonymous}}
)

var (
	operator = &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Roles: []string{protocol.RoleOperator}}
	observer = &protocol.Principal{Kind: protocol.KindOperator, ID: "otto", Roles: []string{protocol.RoleObserver}}
)

func policies(t testing.TB) *policy.Engine {
	t.Helper()
	set, err := commands.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(policy.Options{Actions: set})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func rights(t testing.TB) *TopicRights {
	t.Helper()
	owners := map[string]*protocol.Principal{"lamp-client": device, "other-client": {Kind: protocol.KindAgent, ID: "other"}, "anon-client": anonymous,
		"lamp-elsewhere": {Kind: protocol.KindAgent, ID: "lamp", Space: "acme"}}
	return NewTopicRights(TopicOptions{Topics: protocol.NewTopics(""), Policies: policies(t), Owner: func(_ protocol.SpaceID, id string) (*protocol.Principal, bool) {
		owner, ok := owners[id]
		return owner, ok
	}, Standing: lampStanding{}})
}

// lampStanding is the part of the device in things.
type lampStanding struct{}

func (lampStanding) OwnsAgent(who *protocol.Principal, id protocol.AgentID) bool {
	return who == device && id == "bulb"
}

func (lampStanding) MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool {
	return who == device && (id == "lamp speaks" || id == "lamp listens" && !send)
}

func (lampStanding) MayHearScene(who *protocol.Principal, scene protocol.SceneType, id protocol.CapID) bool {
	return who == device && scene == "HOME" && id == "climate"
}

func (lampStanding) MayFollowFiles(who *protocol.Principal, group string) bool {
	return who == device && group == "pictures"
}

func (lampStanding) MayFollowTask(who *protocol.Principal, id protocol.TaskID) bool {
	return who == device && id == "mine"
}

func TestWhoMayPublishWhere(t *testing.T) {
	r := rights(t)
	for _, test := range []struct {
		topic                       string
		retain                      bool
		byDevice, byAdmin, byAnyone bool
	}{
		{"aibridge/bridge/request", false, true, true, true},
		{"aibridge/bridge/request", true, false, false, false},
		{"aibridge/bridge/other", false, false, false, false},
		{"aibridge/agent/lamp/response", false, true, true, true},
		{"aibridge/agent/lamp/response", true, false, false, false},
		{"aibridge/agent/other/response", false, false, true, true},
		{"aibridge/agent/bulb/response", false, true, true, true},
		{"aibridge/vfs/pictures/put/t/init", false, true, true, true},
		{"aibridge/vfs/pictures/put/t/init", true, false, false, false},
		{"aibridge/vfs/pictures/get/t", false, true, true, true},
		{"aibridge/vfs/pictures/get", false, false, false, false},
		{"aibridge/vfs/pictures/status/t", false, false, false, false},
		{"aibridge/vfs/pictures/data/t/0/00000000", false, false, false, false},
		{"aibridge/vfs/secrets/put/t/init", false, true, true, true},
		{"aibridge/agent/lamp/request", false, false, false, false},
		{"aibridge/agent/lamp/card", true, false, false, false},
		{"aibridge/agent/lamp/state/reported", false, true, true, true},
		{"aibridge/agent/bulb/state/reported", true, true, true, true},
		{"aibridge/agent/other/state/reported", false, false, true, true},
		{"aibridge/agent/lamp/state/desired", true, false, false, false},
		{"aibridge/agent/lamp/state/delta", false, false, false, false},
		{"aibridge/agent/lamp/state/reported/x", false, false, false, false},
		{"aibridge/agent/lamp", false, false, false, false},
		{"aibridge/client/lamp-client/response", false, false, false, false},
		{"aibridge/task/t/event", false, false, false, false},
		{"aibridge/event/agent", false, false, false, false},
		{"aibridge/cap/c/data/g/k", true, false, false, false},
		{"aibridge/cap/c/event", false, false, false, false},
		{"aibridge/cap/c/message/x", false, false, true, true},
		{"aibridge/cap/lamp speaks/message/x", false, true, true, true},
		{"aibridge/cap/lamp speaks/message/x", true, true, true, true},
		{"aibridge/cap/lamp speaks/data/g/k", true, false, false, false},
		{"aibridge/cap/lamp speaks/event", false, false, false, false},
		{"aibridge/cap/lamp listens/message/x", false, false, true, true},
		{"aibridge/scene/s/c/event", false, false, false, false},
		{"aibridge/cloudevents/binary/task/mine/event", false, false, false, false},
		{"aibridge/anything", false, false, false, false},
		{"aibridge/", false, false, false, false},
		{"aibridgex/bridge", false, true, true, true},
		{"home/kitchen", true, true, true, true},
		{"$SYS/broker", false, false, false, false},
		{"$share/g/home", false, false, false, false},
		{"$mcp-server/lamp", false, false, true, true},
		{"$a2a/v1/discovery/x", true, false, true, true},
	} {
		for who, want := range map[*protocol.Principal]bool{device: test.byDevice, admin: test.byAdmin, anonymous: test.byAnyone} {
			if got := r.MayPublish(who, test.topic, test.retain); (got.Reason == 0) != want {
				t.Errorf("%s publishes to %s (retain %v): %+v, want allowed %v", who.ID, test.topic, test.retain, got, want)
			}
		}
	}
}

func TestATopicOfAnAgentIsNotThatOfANamesake(t *testing.T) {
	r := rights(t)
	for _, kind := range []protocol.Kind{protocol.KindOperator, protocol.KindSkill, protocol.KindBridge} {
		namesake := &protocol.Principal{Kind: kind, ID: device.ID, Space: device.Space, Roles: []string{protocol.RoleEndAgent, protocol.RoleObserver}}
		if got := r.MayPublish(namesake, "aibridge/agent/lamp/response", false); got.Reason == 0 {
			t.Errorf("%s answers for the agent", kind)
		}
		for _, filter := range []string{"aibridge/agent/lamp/request", "$share/g/aibridge/agent/lamp/request"} {
			if got := r.MaySubscribe(namesake, filter); got.Reason == 0 {
				t.Errorf("%s hears %s", kind, filter)
			}
		}
	}
}

func TestAWrongTopicLeadsToTheRightOne(t *testing.T) {
	r := rights(t)
	for topic, want := range map[string]string{
		"aibridge/request":         "no such topic; requests go to aibridge/bridge/request",
		"aibridge/bridge/requests": "no such topic; requests go to aibridge/bridge/request",
		"aibridge/task/t/event":    "only the bridge publishes here",
		"aibridge/agent/lamp/card": "only the bridge publishes here",
	} {
		if got := r.MayPublish(admin, topic, false); got.Text != want {
			t.Errorf("%s: %q, want %q", topic, got.Text, want)
		}
	}
}

func TestWhoMaySubscribeWhere(t *testing.T) {
	r := rights(t)
	for _, test := range []struct {
		filter            string
		byDevice, byAdmin bool
	}{
		{"aibridge/agent/lamp/request", true, true},
		{"$share/g/aibridge/agent/lamp/request", true, true},
		{"$share/g/aibridge/agent/other/request", false, true},
		{"aibridge/agent/other/request", false, true},
		{"aibridge/agent/+/request", false, true},
		{"aibridge/agent/lamp/#", false, true},
		{"aibridge/agent/lamp/card", true, true},
		{"aibridge/agent/other/card", false, true},
		{"aibridge/agent/+/card", false, true},
		{"aibridge/agent/lamp/state/#", true, true},
		{"aibridge/agent/lamp/state/desired", true, true},
		{"aibridge/agent/other/state/desired", false, true},
		{"aibridge/agent/+/state/desired", false, true},
		{"aibridge/agent/bulb/request", true, true},
		{"aibridge/client/lamp-elsewhere/response", false, true},
		{"aibridge/scene/HOME/climate/event", true, true},
		{"aibridge/scene/HOME/+/event", false, true},
		{"aibridge/scene/OFFICE/climate/event", false, true},
		{"aibridge/task/mine/event", true, true},
		{"aibridge/task/theirs/event", false, true},
		{"aibridge/task/+/event", false, true},
		{"aibridge/vfs/pictures/status/#", true, true},
		{"aibridge/vfs/pictures/data/t/#", true, true},
		{"aibridge/vfs/pictures/event", true, true},
		{"aibridge/vfs/secrets/event", false, true},
		{"aibridge/vfs/+/event", false, true},
		{"aibridge/vfs/pictures/put/#", false, true},
		{"aibridge/vfs/pictures/#", false, true},
		{"aibridge/vfs/+/status/#", false, true},
		{"aibridge/vfs/secrets/status/t", true, true},
		{"aibridge/event/agent", false, true},
		{"aibridge/event/#", false, true},
		{"aibridge/cloudevents/binary/task/mine/event", true, true},
		{"$share/g/aibridge/cloudevents/structured/task/mine/event", true, true},
		{"aibridge/cloudevents/structured/task/theirs/event", false, true},
		{"aibridge/cloudevents/binary/cap/lamp listens/event", true, true},
		{"aibridge/cloudevents/binary/cap/c/event", false, true},
		{"aibridge/cloudevents/binary/event/agent", false, true},
		{"aibridge/cloudevents/binary/vfs/secrets/event", false, true},
		{"aibridge/cloudevents/+/task/mine/event", false, true},
		{"aibridge/cloudevents/binary/#", false, true},
		{"aibridge/cloudevents/#", false, true},
		{"aibridge/+/binary/task/mine/event", false, true},
		{"+/cloudevents/binary/task/mine/event", false, true},
		{"aibridge/cloudevents/binary/cloudevents/binary/task/mine/event", false, true},
		{"$share/g/aibridge/cloudevents/binary/task/+/event", false, true},
		{"aibridge/client/lamp-client/response", true, true},
		{"aibridge/client/other-client/response", false, true},
		{"aibridge/client/unused/response", false, true},
		{"aibridge/client/+/response", false, true},
		{"aibridge/client/lamp-client/#", false, true},
		{"aibridge/cap/lamp listens/message/#", true, true},
		{"$share/g/aibridge/cap/lamp listens/message/a/+", true, true},
		{"aibridge/cap/lamp listens/data/#", true, true},
		{"aibridge/cap/lamp listens/event", true, true},
		{"aibridge/cap/lamp listens/#", false, true},
		{"aibridge/cap/lamp listens/+/x", false, true},
		{"aibridge/cap/+/message/#", false, true},
		{"aibridge/cap/#", false, true},
		{"aibridge/cap/c/message/#", false, true},
		{"aibridge/bridge/request", false, true},
		{"aibridge/#", false, true},
		{"aibridge", false, true},
		{"#", false, true},
		{"+/bridge/request", false, true},
		{"+/+/+/response", false, true},
		{"$share/g/#", false, true},
		{"$SYS/#", false, true},
		{"home/#", true, true},
	} {
		for who, want := range map[*protocol.Principal]bool{device: test.byDevice, admin: test.byAdmin, anonymous: test.byAdmin} {
			if got := r.MaySubscribe(who, test.filter); (got.Reason == 0) != want {
				t.Errorf("%s subscribes to %s: %+v, want allowed %v", who.ID, test.filter, got, want)
			}
		}
	}
}

func TestAnswersGoOnlyWhereTheRequesterMayListen(t *testing.T) {
	r := rights(t)
	for _, test := range []struct {
		topic                string
		forDevice, forAnyone bool
	}{
		{"aibridge/client/lamp-client/response", true, false},
		{"aibridge/client/anon-client/response", false, true},
		{"aibridge/client/other-client/response", false, false},
		{"aibridge/client/unused/response", false, true},
		{"aibridge/client//response", false, false},
		{"aibridge/client/lamp-client", false, false},
		{"aibridge/agent/lamp/request", false, false},
		{"aibridge/agent/lamp/card", false, false},
		{"aibridge/bridge/request", false, false},
		{"aibridge", false, false},
		{"replies/lamp", true, true},
		{"replies/+", false, false},
		{"$SYS/x", false, false},
		{"", false, false},
	} {
		for who, want := range map[*protocol.Principal]bool{device: test.forDevice, anonymous: test.forAnyone} {
			if got := r.MayRespond(who, test.topic); got != want {
				t.Errorf("answers to %s on %q: %v, want %v", who.ID, test.topic, got, want)
			}
		}
	}
}

func TestRememberedRulingsCostNoMemory(t *testing.T) {
	r := rights(t)
	var m DecisionCache
	if n := testing.AllocsPerRun(100, func() {
		if r.MayPublishFrom(&m, device, "aibridge/agent/lamp/response", false).Reason != 0 || r.MayPublishFrom(&m, device, "aibridge/cap/lamp listens/message/x", false).Reason == 0 {
			t.Fatal("wrong")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRememberedRulingsEndWithWhatTheyDependOn(t *testing.T) {
	engine := policies(t)
	may := true
	r := NewTopicRights(TopicOptions{Topics: protocol.NewTopics(""), Policies: engine, Standing: member(func() bool { return may })})
	var m DecisionCache
	const topic = "aibridge/cap/c/message/x"
	if r.MayPublishFrom(&m, device, topic, false).Reason != 0 {
		t.Fatal("a member is refused")
	}
	may = false
	if r.MayPublishFrom(&m, device, topic, false).Reason != 0 {
		t.Error("nothing was remembered: the test shows nothing")
	}
	engine.FactsChanged()
	if r.MayPublishFrom(&m, device, topic, false).Reason == 0 {
		t.Error("who is no member any more still speaks")
	}
	may = true
	engine.FactsChanged()
	other := *device
	if r.MayPublishFrom(&m, &other, topic, true).Reason != 0 {
		t.Error("another principal gets the ruling of the one before")
	}
}

type member func() bool

func (m member) MayUseChannel(*protocol.Principal, protocol.CapID, bool) bool { return m() }
func (member) OwnsAgent(*protocol.Principal, protocol.AgentID) bool           { return false }
func (member) MayHearScene(*protocol.Principal, protocol.SceneType, protocol.CapID) bool {
	return false
}
func (member) MayFollowFiles(*protocol.Principal, string) bool         { return false }
func (member) MayFollowTask(*protocol.Principal, protocol.TaskID) bool { return false }

func TestWhatOperatorsAndObserversHear(t *testing.T) {
	r := rights(t)
	for filter, want := range map[string]struct{ operator, observer bool }{
		"aibridge/agent/+/card":        {true, true},
		"aibridge/agent/+/state/+":     {true, true},
		"aibridge/event/#":             {true, true},
		"aibridge/cap/+/message/#":     {true, true},
		"aibridge/scene/HOME/+/event":  {true, true},
		"aibridge/client/+/response":   {},
		"aibridge/bridge/request":      {},
		"aibridge/agent/+/request":     {},
		"aibridge/agent/lamp/response": {},
		"aibridge/task/+/event":        {},
		"aibridge/vfs/+/#":             {},
		"aibridge/#":                   {},
		"#":                            {},
	} {
		if got := r.MaySubscribe(operator, filter).Reason == 0; got != want.operator {
			t.Errorf("an operator on %s: %v", filter, got)
		}
		if got := r.MaySubscribe(observer, filter).Reason == 0; got != want.observer {
			t.Errorf("an observer on %s: %v", filter, got)
		}
	}
	if r.MayPublish(observer, "aibridge/cap/c/message/x", false).Reason == 0 {
		t.Error("an observer speaks on a channel")
	}
	if r.MayPublish(operator, "aibridge/cap/c/message/x", false).Reason != 0 {
		t.Error("an operator does not")
	}
}

func TestCredentialsForSomeActionsStayOnTheirTopics(t *testing.T) {
	r := rights(t)
	limited := *device
	limited.Scopes = []string{"skill:invoke"}
	for filter, want := range map[string]bool{
		"aibridge/agent/lamp/request":          true,
		"aibridge/client/lamp-client/response": true,
		"home/kitchen":                         false,
		"aibridge/cap/lamp speaks/message/#":   false,
	} {
		if got := r.MaySubscribe(&limited, filter).Reason == 0; got != want {
			t.Errorf("%s: %v", filter, got)
		}
	}
	if r.MayPublish(&limited, "aibridge/bridge/request", false).Reason != 0 || r.MayPublish(&limited, "home/kitchen", false).Reason == 0 {
		t.Error("publishes go by other rules")
	}
	limited.Scopes = []string{"topic:*"}
	if r.MaySubscribe(&limited, "home/kitchen").Reason != 0 {
		t.Error("a credential for topics is not for topics")
	}
}

func BenchmarkMayPublish(b *testing.B) {
	r := rights(b)
	var m DecisionCache
	b.ReportAllocs()
	for b.Loop() {
		if r.MayPublishFrom(&m, device, "aibridge/agent/lamp/response", false).Reason != 0 {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMayPublishAnew(b *testing.B) {
	r := rights(b)
	b.ReportAllocs()
	for b.Loop() {
		if r.MayPublish(device, "aibridge/agent/lamp/response", false).Reason != 0 {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMaySubscribe(b *testing.B) {
	r := rights(b)
	b.ReportAllocs()
	for b.Loop() {
		if r.MaySubscribe(device, "$share/g/aibridge/agent/lamp/request").Reason != 0 {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMayRespond(b *testing.B) {
	r := rights(b)
	b.ReportAllocs()
	for b.Loop() {
		if !r.MayRespond(device, "aibridge/client/lamp-client/response") {
			b.Fatal("refused")
		}
	}
}

// closed are topics that a device may not listen to.
var closed = []string{
	"aibridge/bridge/request", "aibridge/agent/other/request", "aibridge/agent/other/response", "aibridge/agent/lamp/response",
	"aibridge/client/other-client/response", "aibridge/client/unused/response", "aibridge/event/security", "aibridge/task/t/event",
	"aibridge/cap/c/message/x", "aibridge/scene/s/c/event", "aibridge", "$SYS/broker/load",
}

func FuzzSubscription(f *testing.F) {
	for _, filter := range append([]string{
		"#", "+", "+/#", "$share/g/#", "$share/g/$share/h/aibridge/#", "aibridge/+/lamp/request", "aibridge/agent/lamp/request", "aibridge/agent/lamp/request/#",
		"+/agent/other/+", "/#", "home/+/#", "$SYS/#", "$share/aibridge/agent", "aibridge/client/+/response", "aibridge/client/lamp-client/response",
	}, closed...) {
		f.Add(filter)
	}
	r := rights(f)
	f.Fuzz(func(t *testing.T, filter string) {
		if protocol.CheckFilter(filter) != "" || r.MaySubscribe(device, filter).Reason != 0 {
			return
		}
		if _, inner, shared := protocol.SplitShare(filter); shared {
			filter = inner
		}
		for _, topic := range closed {
			if protocol.Match(filter, topic) {
				t.Fatalf("%s subscribes to %q and hears %s", device.ID, filter, topic)
			}
		}
	})
}

func FuzzPublish(f *testing.F) {
	for _, topic := range append([]string{"aibridge/agent/lamp/response", "aibridge/agent//response", "aibridge//response", "aibridge/agent/lamp/response/x", "aibridge/agent/lamp/card/response"}, closed...) {
		f.Add(topic, false)
		f.Add(topic, true)
	}
	r := rights(f)
	f.Fuzz(func(t *testing.T, topic string, retain bool) {
		if protocol.CheckTopic(topic) != "" {
			return
		}
		for _, who := range []*protocol.Principal{device, admin, anonymous} {
			if r.MayPublish(who, topic, retain).Reason != 0 {
				continue
			}
			// What only the bridge says is said by nobody else, whoever they are.
			for _, filter := range []string{
				"aibridge/agent/+/card", "aibridge/agent/+/request", "aibridge/client/#", "aibridge/task/#", "aibridge/event/#", "aibridge/scene/#",
				"aibridge/cap/+/data/#", "aibridge/cap/+/event", "$SYS/#",
			} {
				if protocol.Match(filter, topic) {
					t.Fatalf("%s publishes to %q", who.ID, topic)
				}
			}
			if retain && topic == "aibridge/bridge/request" {
				t.Fatalf("%s retains a request", who.ID)
			}
			if who == device && protocol.Match("aibridge/agent/+/response", topic) && topic != "aibridge/agent/lamp/response" {
				t.Fatalf("%s answers on %q", who.ID, topic)
			}
		}
	})
}
