package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/condition"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func conditions(o *Options) { o.Conditions = true }

// said is a message with user properties, "name=value" each.
func said(topic, payload string, qos byte, users ...string) publish {
	m := text(topic, payload)
	m.QoS = qos
	for _, u := range users {
		key, value, _ := strings.Cut(u, "=")
		m.Properties.AddUser([]byte(key), []byte(value))
	}
	return m
}

func TestASubscriptionWithAConditionGetsWhatFits(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, conditions)
		p, old, all, from := n.connect(5, "a"), n.connect(4, "old"), n.connect(5, "all"), n.connect(5, "from")
		p.subscribe("x/+?room=hall&value>25", 2)
		old.subscribe("x/+?room=hall", 1)
		all.subscribe("x/#", 0)
		for qos := range byte(3) {
			for i, users := range [][]string{{"room=hall", "value=26"}, {"room=hall", "value=25"}, {"room=yard", "value=30"}, nil} {
				name := fmt.Sprint(qos, i)
				if reason := from.publish(said("x/y", name, qos, users...)); reason.Failed() || reason != packet.Success {
					t.Errorf("%s was answered by %v", name, reason)
				}
				all.take(name)
				if i == 0 {
					if m := p.take(name); m.QoS != qos {
						t.Errorf("%s came with QoS %d", name, m.QoS)
					}
				}
				if i < 2 {
					old.take(name)
				}
			}
		}
		p.quiet()
		old.quiet()
		eventually.Holds(t, "15 were unwanted", func() bool { return n.stats.unwanted.Load() == 3*5 }, func() any { return n.stats.unwanted.Load() })
	})
}

// Who publishes is told if nobody wants the message.
func TestWhatFitsNobodyHasNoReceiver(t *testing.T) {
	n := newNode(t, 1, conditions)
	p, from := n.connect(5, "a"), n.connect(5, "from")
	p.subscribe("x?a=1", 1)
	p.subscribe("$share/g/x?a=1", 1)
	if reason := from.publish(said("x", "no", 1, "a=2")); reason != packet.NoMatchingSubscribers {
		t.Errorf("answered by %v", reason)
	}
	p.quiet()
}

// Each filter is a subscription of its own: what fits several comes once, with the
// identifiers of those that it fits, and by the best QoS of these.
func TestSubscriptionsWithConditionsOverlap(t *testing.T) {
	n := newNode(t, 1, conditions)
	p, from := n.connect(5, "a"), n.connect(5, "from")
	for i, filter := range []string{"x?a=1", "x?b=1", "+?a=1&b=1", "x"} {
		p.subscribe(filter, byte(i%2), func(s *packet.Subscribe) { s.Properties.AddSubscriptionID(uint32(i + 1)) })
	}
	for _, c := range []struct {
		users []string
		ids   []uint32
	}{
		{[]string{"a=1"}, []uint32{1, 4}},
		{[]string{"b=1"}, []uint32{2, 4}},
		{[]string{"a=1", "b=1"}, []uint32{1, 2, 3, 4}},
		{nil, []uint32{4}},
	} {
		from.publish(said("x", "m", 1, c.users...))
		m := p.take("m")
		slices.Sort(m.Properties.SubscriptionIDs)
		if !slices.Equal(m.Properties.SubscriptionIDs, c.ids) {
			t.Errorf("%v came by %v, not %v", c.users, m.Properties.SubscriptionIDs, c.ids)
		}
	}
	p.quiet()
	if r := p.unsubscribe("x", "x?b=1", "x?a=2"); !slices.Equal(r, []packet.Reason{0, 0, packet.NoSubscriptionExisted}) {
		t.Errorf("unsubscribed: %v", r)
	}
	from.publish(said("x", "gone", 1, "b=1"))
	from.publish(said("x", "left", 1, "a=1"))
	if m := p.take("left"); m.QoS != 0 {
		t.Errorf("QoS %d of a subscription that it does not fit", m.QoS)
	}
}

func (p *peer) unsubscribe(filters ...string) []packet.Reason {
	p.t.Helper()
	u := packet.Unsubscribe{PacketID: 5}
	for _, f := range filters {
		u.Filters = append(u.Filters, []byte(f))
	}
	p.send(u.Append(nil, p.version))
	var a packet.Suback
	if err := a.Decode(p.version, packet.UNSUBACK, p.expect(packet.UNSUBACK)); err != nil {
		p.t.Fatalf("%v", err)
	}
	return a.Reasons
}

func TestNoLocalOfASubscriptionWithACondition(t *testing.T) {
	n := newNode(t, 1, conditions)
	p := n.connect(5, "a")
	p.subscribe("x?a=1", 0, func(s *packet.Subscribe) { s.Filters[0].NoLocal = true })
	p.subscribe("x?b=1", 0)
	p.publish(said("x", "own", 0, "a=1"))
	p.publish(said("x", "both", 0, "a=1", "b=1"))
	p.take("both")
	p.quiet()
}

func TestRetainedMessagesMustFitToo(t *testing.T) {
	n := newNode(t, 1, conditions)
	from := n.connect(5, "from")
	for i, users := range [][]string{{"a=1"}, {"a=2"}, nil} {
		m := said(fmt.Sprint("r/", i), fmt.Sprint(i), 1, users...)
		m.Retain = true
		from.publish(m)
	}
	p := n.connect(5, "p")
	p.subscribe("r/#?a=1", 1)
	p.take("0")
	p.quiet()
	p.subscribe("r/#?a!=1", 1)
	got := []string{string(p.receive().Payload), string(p.receive().Payload)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
}

// A group is what its name, its filter and its condition make it.
func TestMembersOfAGroupShareItsCondition(t *testing.T) {
	n := newNode(t, 1, conditions)
	a, b, c, from := n.connect(5, "a"), n.connect(5, "b"), n.connect(5, "c"), n.connect(5, "from")
	a.subscribe("$share/g/x?kind=hot", 1)
	b.subscribe("$share/g/x?kind=hot", 1)
	c.subscribe("$share/g/x?kind!=hot", 1)
	for i := range 4 {
		from.publish(said("x", fmt.Sprint("hot", i), 1, "kind=hot"))
		from.publish(said("x", fmt.Sprint("cold", i), 1))
	}
	got := map[string]bool{}
	for range 2 {
		for _, p := range []*peer{a, b} {
			m := p.receive()
			p.acknowledge(m)
			got[string(m.Payload)] = true
		}
	}
	for i := range 4 {
		c.take(fmt.Sprint("cold", i))
		if !got[fmt.Sprint("hot", i)] {
			t.Errorf("hot%d is lost", i)
		}
	}
	n.leave(a, "a") // what it leaves goes to who has the same condition
	from.publish(said("x", "last", 1, "kind=hot"))
	b.take("last")
	c.quiet()
}

func TestConditionsOutliveTheProcess(t *testing.T) {
	journal := new(MemoryJournal)
	durable := func(o *Options) { o.Journal, o.Conditions = journal, true }
	n := startNode(t, 1, durable)
	p, from := n.connect(5, "a", kept), n.connect(5, "from")
	p.subscribe("x?a=1", 1)
	n.leave(p, "a")
	n.stop()
	from.ended()
	n = startNode(t, 1, durable)
	from = n.connect(5, "from")
	for i := range 2 {
		from.publish(said("x", fmt.Sprint(i), 1, fmt.Sprint("a=", i)))
	}
	p = n.connect(5, "a", kept)
	p.take("1")
	p.quiet()
	n.stop()
	// Without conditions, the question mark is a part of the topic.
	n = startNode(t, 1, func(o *Options) { o.Journal = journal })
	defer n.stop()
	p, from = n.connect(5, "a", kept), n.connect(5, "from")
	from.publish(said("x", "plain", 1, "a=1"))
	from.publish(said("x?a=1", "literal", 1))
	p.take("literal")
	p.quiet()
}

// What waits by a subscription that goes is not sent, unless it fits another one.
func TestWhatWaitsByALostConditionIsTakenBack(t *testing.T) {
	n := newNode(t, 1, conditions)
	p, from := n.connect(5, "a", kept), n.connect(5, "from")
	p.subscribe("x?a=1", 1)
	p.subscribe("x?b=1", 1)
	n.leave(p, "a")
	from.publish(said("x", "a", 1, "a=1"))
	from.publish(said("x", "both", 1, "a=1", "b=1"))
	if !n.DropSubscription(home("a"), "x?a=1") {
		t.Error("there was none")
	}
	p = n.connect(5, "a", kept)
	p.take("both")
	p.quiet()
}

func TestBadConditionsAreRefusedByName(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, conditions)
		p, old := n.connect(5, "a"), n.connect(4, "old")
		for filter, want := range map[string]string{
			"x?":               `"" in the condition has none of the operators`,
			"x?value>hot":      `"value>hot" in the condition compares with "hot", which is no number`,
			"x/#/y?a=1":        "malformed topic filter",
			"$exclusive/x?a=1": "an exclusive subscription takes no condition",
			"?a=1":             "malformed topic filter",
		} {
			s := packet.Subscribe{PacketID: 9, Filters: []packet.Subscription{{Filter: []byte(filter)}}}
			p.send(s.Append(nil, 5))
			var a packet.Suback
			if err := a.Decode(5, packet.SUBACK, p.expect(packet.SUBACK)); err != nil || a.Reasons[0] != packet.TopicFilterInvalid {
				t.Errorf("%s: %v %v", filter, a.Reasons, err)
			}
			if got := string(a.Properties.Bytes(packet.ReasonString)); !strings.Contains(got, want) {
				t.Errorf("%s is refused by %q", filter, got)
			}
		}
		if got := p.trySubscribe("forbidden/x?a=1", 0); got[0] != packet.NotAuthorized {
			t.Errorf("the right is that to the topic: %v", got)
		}
		if got := old.trySubscribe("x?value>hot", 0); got[0] != 0x80 {
			t.Errorf("3.1.1: %v", got)
		}
	})
}

func TestConditionsOfASessionAreBounded(t *testing.T) {
	n := newNode(t, 1, conditions)
	p := n.connect(5, "a")
	for i := range mostConditional {
		p.subscribe(fmt.Sprint("x?a=", i), 0)
	}
	if got := p.trySubscribe("x?b=1", 0); got[0] != packet.QuotaExceeded {
		t.Errorf("one more: %v", got)
	}
	p.subscribe("x?a=0", 1) // again
	p.subscribe("x", 0)
	p.unsubscribe("x?a=0")
	p.subscribe("x?b=1", 0)
}

// The conditions of a principal's sessions together are bounded, and those of another
// principal count for themselves.
func TestConditionsOfAPrincipalAreBounded(t *testing.T) {
	n := newNode(t, 1, conditions, tenants)
	long := strings.Repeat("v>0&", condition.MostComparisons-1)
	ids, left := 0, mostComparisons
	fill := func(p *peer) {
		for i := 0; i < mostConditional && left >= condition.MostComparisons; i++ {
			p.subscribe(fmt.Sprint("x?", long, "n=", i), 0)
			left -= condition.MostComparisons
		}
	}
	var some *peer
	for ; left >= condition.MostComparisons; ids++ {
		some = n.connect(packet.V5, fmt.Sprint("a", ids), as("red/a"))
		fill(some)
	}
	more := n.connect(packet.V5, "more", as("red/a"))
	if got := more.trySubscribe("x?a=1", 0); got[0] != packet.QuotaExceeded {
		t.Errorf("one more: %v", got)
	}
	more.subscribe("x", 0)
	n.connect(packet.V5, "other", as("red/b")).subscribe("x?a=1", 0)
	some.subscribe("x?"+long+"n=0", 1) // again
	some.unsubscribe("x?" + long + "n=0")
	more.subscribe("x?a=1", 0)
	n.cut(some, fmt.Sprint("a", ids-1)) // with a clean session
	eventually.Holds(t, "the session takes no room", func() bool {
		return n.index.compares(protocol.Party{Space: "red", ID: "a"}) <= mostComparisons-mostConditional/4*condition.MostComparisons
	}, func() any { return n.index.comparisons })
}

// A client that has a topic alone, and has subscribed to it beside, gets one copy.
func TestATopicHadAloneAndBesideComesOnce(t *testing.T) {
	n := newNode(t, 1)
	p, from := n.connect(5, "a"), n.connect(5, "from")
	p.subscribe("$exclusive/x", 1)
	p.subscribe("x", 0)
	from.publish(said("x", "once", 1))
	if m := p.take("once"); m.QoS != 1 {
		t.Errorf("QoS %d", m.QoS)
	}
	p.quiet()
	p.unsubscribe("$exclusive/x")
	from.publish(said("x", "again", 1))
	p.take("again")
	p.quiet()
}

// A pair: what conditions cost, and that they cost nothing where there are none.
func BenchmarkDeliverTo100(b *testing.B) {
	for name, condition := range map[string]string{"without": "", "fits": "?room=hall&value>25", "fits not": "?room=yard"} {
		b.Run(name, func(b *testing.B) {
			n := startNode(b, -1, conditions)
			defer n.stop()
			for i := range 100 {
				s := n.makeStored(fmt.Sprint("s", i), &storedSession{
					Principal: &protocol.Principal{ID: "user:", Space: protocol.DefaultSpace}, Subs: []storedSubscription{{Filter: "x/+" + condition}},
				})
				for sub := range s.subs.all() {
					n.index.add(sub, nil)
				}
			}
			t := newTurn(n.Broker).begin()
			var p packet.Properties
			p.AddUser([]byte("room"), []byte("hall"))
			p.AddUser([]byte("value"), []byte("26"))
			m := message{topic: "x/y", payload: []byte("payload"), props: p.Append(nil), to: everybody(protocol.DefaultSpace)}
			b.ReportAllocs()
			for b.Loop() {
				t.use(&m)
				t.deliver(t.routeOf("x/y"))
			}
		})
	}
}
