package protocol_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestTopicsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	topics := protocol.NewTopics("")
	for want, got := range map[string]string{
		"aibridge/bridge/request":       topics.BridgeRequest(),
		"aibridge/client/c1/response":   topics.ClientResponse("c1"),
		"aibridge/agent/a1/request":     topics.AgentRequest("a1"),
		"aibridge/agent/a1/response":    topics.AgentResponse("a1"),
		"aibridge/agent/a1/card":        topics.AgentCard("a1"),
		"aibridge/cap/c1/message/x/y":   topics.CapMessage("c1", "x/y"),
		"aibridge/cap/c1/data/g1/k1":    topics.CapData("c1", "g1", "k1"),
		"aibridge/cap/c1/event":         topics.CapEvent("c1"),
		"aibridge/scene/SMART/c1/event": topics.SceneEvent("SMART", "c1"),
		"aibridge/task/t1/event":        topics.TaskEvent("t1"),
		"aibridge/vfs/g1/upload":        topics.VFS("g1", "upload"),
		"aibridge/event/registry":       topics.Event("registry"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if reason := protocol.CheckTopic(got); reason != "" {
			t.Errorf("%s %s", got, reason)
		}
	}
	if got := protocol.NewTopics("home").BridgeRequest(); got != "home/bridge/request" {
		t.Error(got)
	}
}

func TestTopicsAreTakenApart(t *testing.T) {
	t.Parallel()
	topics := protocol.NewTopics("r")
	for topic, want := range map[string][2]string{
		"r/agent/a1/request":   {"a1", "request"},
		"r/agent/+/#":          {"+", "#"},
		"r/agent/a1":           {},
		"r/agent/a1/request/x": {},
		"r/agent//request":     {},
		"r/agentx/a1/request":  {},
		"rr/agent/a1/request":  {},
		"agent/a1/request":     {},
		"r":                    {},
		"":                     {},
	} {
		id, leaf, ok := topics.Agent(topic)
		if got := [2]string{string(id), leaf}; got != want || ok != (want != [2]string{}) {
			t.Errorf("%s: got %v, %v", topic, got, ok)
		}
	}
	if id, leaf, ok := topics.Client("r/client/c1/response"); id != "c1" || leaf != "response" || !ok {
		t.Error(id, leaf, ok)
	}
	if rest, ok := topics.Under("r/x/y"); rest != "x/y" || !ok {
		t.Error(rest, ok)
	}
}

func TestTopicNamesAreChecked(t *testing.T) {
	t.Parallel()
	for topic, ok := range map[string]bool{
		"a": true, "/": true, "a//b": true, "$SYS/x": true, "界": true, strings.Repeat("a", 65535): true,
		"": false, "a/+": false, "a#": false, "a\x00": false, "\xff": false, strings.Repeat("a", 65536): false,
	} {
		if reason := protocol.CheckTopic(topic); (reason == "") != ok {
			t.Errorf("%.20q: %q", topic, reason)
		}
	}
}

func TestTopicFiltersAreChecked(t *testing.T) {
	t.Parallel()
	for filter, ok := range map[string]bool{
		"a": true, "#": true, "+": true, "+/#": true, "a/+/b": true, "/": true, "/#": true, "//": true, "$SYS/#": true,
		"$share/g/a": true, "$share/g/#": true, "$share/g//": true, "$shared/x": true,
		"": false, "a#": false, "#/a": false, "a/#/b": false, "a+": false, "+a/b": false, "a/b+": false, "a\x00": false, "\xff": false,
		"$share/": false, "$share/g": false, "$share/g/": false, "$share//a": false, "$share/+/a": false, "$share/g/a#": false,
	} {
		if reason := protocol.CheckFilter(filter); (reason == "") != ok {
			t.Errorf("%q: %q", filter, reason)
		}
	}
}

func TestFilterMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/b", "a", false}, {"a", "a/b", false}, {"a", "A", false},
		{"+", "a", true}, {"+", "a/b", false}, {"+/b", "a/b", true}, {"a/+", "a/", true}, {"a/+", "a", false}, {"+/+", "/", true}, {"/+", "/a", true}, {"+", "/a", false},
		{"#", "a/b/c", true}, {"#", "/", true}, {"a/#", "a", true}, {"a/#", "a/", true}, {"a/#", "a/b/c", true}, {"a/#", "ab", false}, {"a/+/#", "a/b", true}, {"a/+/#", "a", false},
		{"#", "$SYS/x", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"$SYS/+", "$SYS/x", true}, {"a/#", "a/$b", true}, {"a/+", "a/$b", true},
		{"a//b", "a//b", true}, {"a/+/b", "a//b", true}, {"a/b/", "a/b", false},
	} {
		if got := protocol.Match(tt.filter, tt.topic); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.filter, tt.topic, got)
		}
	}
}

func TestFiltersOverlap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/+", "+/b", true}, {"a/+", "b/+", false}, {"#", "a/b", true}, {"#", "+", true},
		{"a/#", "a", true}, {"a/#", "+", true}, {"a/#", "b", false}, {"a/#", "+/+/c", true}, {"a/b/#", "a/+", true}, {"a/b/c", "a/+", false},
		{"$SYS/#", "#", false}, {"$SYS/x", "+/x", false}, {"$SYS/#", "$SYS/+", true},
	} {
		if protocol.Overlap(tt.a, tt.b) != tt.want || protocol.Overlap(tt.b, tt.a) != tt.want {
			t.Errorf("Overlap(%q, %q) is not %v", tt.a, tt.b, tt.want)
		}
	}
}

func TestSharedSubscriptionsAreSplit(t *testing.T) {
	t.Parallel()
	if group, inner, ok := protocol.SplitShare("$share/g/a/#"); group != "g" || inner != "a/#" || !ok {
		t.Error(group, inner, ok)
	}
	for _, filter := range []string{"a/b", "$share/g", "$share//a", "$share/g/", "$share/#/a"} {
		if _, inner, ok := protocol.SplitShare(filter); ok || inner != filter {
			t.Errorf("%s: got %s, %v", filter, inner, ok)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if !protocol.Match("aibridge/cap/+/message/#", "aibridge/cap/smart_home/message/kitchen/temperature") {
			b.Fatal()
		}
	}
}
