package security

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

var (
	device    = &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: protocol.DefaultSpace}
	admin     = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
	anonymous = &protocol.Principal{Kind: protocol.KindOperator, ID: "anonymous", Roles: []string{protocol.RoleAnonymous}}
)

func rights() *TopicRights {
	owners := map[string]string{"lamp-client": "lamp", "other-client": "other", "anon-client": "anonymous"}
	return NewTopicRights(protocol.NewTopics(""), func(id string) (string, bool) {
		owner, ok := owners[id]
		return owner, ok
	}, channels{"lamp listens": false, "lamp speaks": true})
}

// channels says of the device's Caps whether it may send on them.
type channels map[protocol.CapID]bool

func (c channels) MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool {
	speaks, member := c[id]
	return who == device && member && (speaks || !send)
}

func TestWhoMayPublishWhere(t *testing.T) {
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
		{"aibridge/agent/lamp/request", false, false, false, false},
		{"aibridge/agent/lamp/card", true, false, false, false},
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
		{"aibridge/anything", false, false, false, false},
		{"aibridge/", false, false, false, false},
		{"aibridgex/bridge", false, true, true, true},
		{"home/kitchen", true, true, true, true},
		{"$SYS/broker", false, false, false, false},
	} {
		for who, want := range map[*protocol.Principal]bool{device: test.byDevice, admin: test.byAdmin, anonymous: test.byAnyone} {
			if got := rights().MayPublish(who, test.topic, test.retain); (got.Reason == 0) != want {
				t.Errorf("%s publishes to %s (retain %v): %+v, want allowed %v", who.ID, test.topic, test.retain, got, want)
			}
		}
	}
}

func TestWhoMaySubscribeWhere(t *testing.T) {
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
		{"aibridge/agent/lamp/card", false, true},
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
			if got := rights().MaySubscribe(who, test.filter); (got.Reason == 0) != want {
				t.Errorf("%s subscribes to %s: %+v, want allowed %v", who.ID, test.filter, got, want)
			}
		}
	}
}

func TestAnswersGoOnlyWhereTheRequesterMayListen(t *testing.T) {
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
			if got := rights().MayRespond(who, test.topic); got != want {
				t.Errorf("answers to %s on %q: %v, want %v", who.ID, test.topic, got, want)
			}
		}
	}
}

func TestTopicChecksDoNotAllocate(t *testing.T) {
	r := rights()
	if n := testing.AllocsPerRun(100, func() {
		r.MayPublish(device, "aibridge/agent/lamp/response", false)
		r.MaySubscribe(device, "$share/g/aibridge/agent/lamp/request")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMayPublish(b *testing.B) {
	r := rights()
	for b.Loop() {
		if r.MayPublish(device, "aibridge/agent/lamp/response", false).Reason != 0 {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMaySubscribe(b *testing.B) {
	r := rights()
	b.ReportAllocs()
	for b.Loop() {
		if r.MaySubscribe(device, "$share/g/aibridge/agent/lamp/request").Reason != 0 {
			b.Fatal("refused")
		}
	}
}

func BenchmarkMayRespond(b *testing.B) {
	r := rights()
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
	f.Fuzz(func(t *testing.T, filter string) {
		if protocol.CheckFilter(filter) != "" || rights().MaySubscribe(device, filter).Reason != 0 {
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
	f.Fuzz(func(t *testing.T, topic string, retain bool) {
		if protocol.CheckTopic(topic) != "" {
			return
		}
		for _, who := range []*protocol.Principal{device, admin, anonymous} {
			if rights().MayPublish(who, topic, retain).Reason != 0 {
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
