package link

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// heard waits until a site has sessions that listen for filters.
func heard(t *testing.T, s *site, filters ...string) {
	t.Helper()
	for _, filter := range filters {
		eventually.Holds(t, filter+" is subscribed to at "+s.mark, func() bool {
			return slices.ContainsFunc(s.broker.Sessions(), func(i broker.SessionInfo) bool {
				return slices.ContainsFunc(i.Subscriptions, func(f broker.SubscriptionInfo) bool { return f.Filter == filter })
			})
		})
	}
}

func TestTopicsPrefixesRetainAndProperties(t *testing.T) {
	t.Parallel()
	near, far := newSite(t, "near"), newSite(t, "far")
	near.link(Config{Name: "far", URL: "mqtt://" + far.address,
		Out: []Rule{
			{Topic: "+/set", Local: "zigbee/", Remote: "z2m/", QoS: 1},
			{Topic: "plain", Remote: "never/", QoS: 1, Retain: retainNever},
			{Topic: "answers/#", QoS: 1},
		},
		In: []Rule{{Topic: "#", Local: "zigbee/", Remote: "z2m/", QoS: 2}, {Topic: "replies/#", Local: "here/", QoS: 1}},
	})
	near.connected()
	here, there := newClient(near, "here", "#"), newClient(far, "there", "#")
	heard(t, far, "z2m/#")
	there.publish("z2m/lamp", "on", 1, func(p *packet.Publish) {
		p.Retain = true
		p.Properties.SetBytes(packet.ContentType, []byte("text/plain"))
		p.Properties.SetBytes(packet.ResponseTopic, []byte("answers/1"))
		p.Properties.AddUser([]byte("k"), []byte("v"))
	})
	got := here.takes("on")
	if string(got.Topic) != "zigbee/lamp" || got.QoS != 1 || !got.Retain {
		t.Errorf("%s QoS %d retain %v", got.Topic, got.QoS, got.Retain)
	}
	if rt := string(got.Properties.Bytes(packet.ResponseTopic)); rt != "answers/1" {
		t.Errorf("answers would go to %s", rt)
	}
	if !slices.ContainsFunc(got.Properties.User, func(u packet.UserProperty) bool { return string(u.Key) == "k" && string(u.Value) == "v" }) {
		t.Error("a user property is lost")
	}
	here.publish("zigbee/lamp/set", "dim", 2, func(p *packet.Publish) {
		p.Properties.SetBytes(packet.ResponseTopic, []byte("here/replies/7"))
	})
	got = there.takes("dim")
	if string(got.Topic) != "z2m/lamp/set" || got.QoS != 1 {
		t.Errorf("%s QoS %d", got.Topic, got.QoS)
	}
	if rt := string(got.Properties.Bytes(packet.ResponseTopic)); rt != "replies/7" {
		t.Errorf("answers would go to %s", rt)
	}
	here.publish("plain", "secret", 1, func(p *packet.Publish) { p.Retain = true })
	if got = there.takes("secret"); string(got.Topic) != "never/plain" || got.Retain {
		t.Errorf("%s retain %v", got.Topic, got.Retain)
	}
}

// Retained messages of either side are there on the other one once the link is made.
func TestRetainedMessagesMeetALinkThatIsNew(t *testing.T) {
	t.Parallel()
	near, far := newSite(t, "near"), newSite(t, "far")
	newClient(near, "a", "").publish("out/x", "here before", 0, retained)
	newClient(far, "b", "").publish("in/x", "there before", 0, retained)
	near.link(Config{Name: "far", URL: "mqtt://" + far.address, Out: []Rule{{Topic: "out/#", QoS: 1}}, In: []Rule{{Topic: "in/#", QoS: 1}}})
	newClient(far, "there", "out/#").takes("here before") // at once, or retained
	newClient(near, "here", "in/#").takes("there before")
}

// The remote broker was never there when messages were published for it.
func TestWhatWaitsSurvivesAKillAndIsBounded(t *testing.T) {
	t.Parallel()
	bound := func(o *broker.Options) {
		o.Waiting = func(id broker.SessionID) *broker.Waiting {
			if id.Client == "link-far" {
				return &broker.Waiting{Messages: 3, Upgrade: true}
			}
			return nil
		}
	}
	near, far := newSite(t, "near", bound), newSite(t, "far")
	wire := newLine(t, far.address)
	wire.rests(true)
	near.link(Config{Name: "far", URL: "mqtt://" + wire.address, UpgradeQoS: true, Out: []Rule{{Topic: "x", QoS: 1}}})
	heard(t, near, "x")
	eventually.Holds(t, "the link's session is away", func() bool { // it would take one more while it is there
		s, found := near.broker.Session(broker.SessionID{Space: "default", Client: "link-far"})
		return found && !s.Connected
	})
	publisher := newClient(near, "publisher", "x") // somebody else has it, so that none is refused
	for i := range 5 {
		publisher.publish("x", fmt.Sprint(i), byte(i%2))
	}
	publisher.takes("4")
	if s, _ := near.links.Broker.Session("default", "link-far"); s.Queued != 3 || s.Dropped != 2 {
		t.Errorf("%d wait, %d were dropped", s.Queued, s.Dropped)
	}
	near.kill()
	near.start()
	receiver := newClient(far, "receiver", "x")
	wire.rests(false)
	receiver.takes("2")
	if got := receiver.texts(); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("arrived: %v", got)
	}
}

// Two bridges are linked to each other, with everything in both directions, and
// one more link leads through a broker between them.
func TestMessagesDoNotGoRoundInCircles(t *testing.T) {
	t.Parallel()
	all := []Rule{{Topic: "x/#", QoS: 1}}
	for name, c := range map[string]struct{ a, b Config }{
		"both push":          {Config{Out: all}, Config{Out: all}},
		"both pull":          {Config{In: all}, Config{In: all}},
		"both do both":       {Config{Out: all, In: all}, Config{Out: all, In: all}},
		"one does both":      {Config{Out: all, In: all}, Config{}},
		"one pushes, pulled": {Config{Out: all}, Config{In: all}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newSite(t, "a"), newSite(t, "b")
			c.a.Name, c.a.URL, c.b.Name, c.b.URL = "ab", "mqtt://"+b.address, "ba", "mqtt://"+a.address
			a.link(c.a)
			a.connected()
			if len(c.b.Out)+len(c.b.In) > 0 {
				b.link(c.b)
				b.connected()
			}
			for _, one := range []*site{a, b} {
				for _, l := range one.links0() {
					heard(t, one, outFilters(l.config.Out)...)
					heard(t, map[*site]*site{a: b, b: a}[one], inFilters(l.config.In)...)
				}
			}
			atA, atB := newClient(a, "at-a", "x/#"), newClient(b, "at-b", "x/#")
			atA.publish("x/1", "from a", 1)
			atB.publish("x/2", "from b", 1)
			atA.publish("x/3", "last of a", 1)
			atB.publish("x/4", "last of b", 1)
			atA.takes("last of a")
			atB.takes("last of b")
			if len(c.a.Out)+len(c.b.In) > 0 {
				atB.takes("last of a")
			}
			if len(c.a.In)+len(c.b.Out) > 0 {
				atA.takes("last of b")
			}
			for _, at := range []*client{atA, atB} { // two links may both carry it, and none sends it back
				most := 1
				if name == "both do both" || name == "one pushes, pulled" {
					most = 2
				}
				for _, text := range []string{"from a", "from b"} {
					n := 0
					for _, got := range at.texts() {
						if got == text {
							n++
						}
					}
					if at == atA && text == "from a" || at == atB && text == "from b" {
						if n != 1 {
							t.Errorf("%s hears %q %d times", at.id, text, n)
						}
					} else if n > most {
						t.Errorf("%s hears %q %d times", at.id, text, n)
					}
				}
			}
		})
	}
}

func (s *site) links0() []*Link {
	if s.links == nil {
		return nil
	}
	return s.links.links
}

func outFilters(rules []Rule) []string { return (&way{rules: rules, outbound: true}).filters() }

func inFilters(rules []Rule) []string { return (&way{rules: rules}).filters() }

// A ring of three links leads over a broker that knows nothing of bridges.
func TestARingThroughAPlainBrokerEnds(t *testing.T) {
	t.Parallel()
	a, b, plain := newSite(t, "a"), newSite(t, "b"), newSite(t, "")
	all := []Rule{{Topic: "x", QoS: 1}}
	a.link(Config{Name: "plain", URL: "mqtt://" + plain.address, Out: all, In: all}, Config{Name: "b", URL: "mqtt://" + b.address, Out: all, In: all})
	b.link(Config{Name: "plain", URL: "mqtt://" + plain.address, Out: all, In: all})
	a.connected()
	b.connected()
	eventually.Holds(t, "all are subscribed", func() bool {
		n := 0
		for _, s := range []*site{a, b, plain} {
			for _, i := range s.broker.Sessions() {
				n += len(i.Subscriptions)
			}
		}
		return n == 6
	})
	listener := newClient(plain, "listener", "x")
	newClient(a, "talker", "").publish("x", "round", 1)
	listener.takes("round")
	quiet(t, a, b)
	if n := len(listener.texts()); n > 4 {
		t.Errorf("heard %d times", n)
	}
}

// quiet waits until links have nothing under way and count no more.
func quiet(t *testing.T, sites ...*site) {
	t.Helper()
	var before string
	same := 0
	eventually.Holds(t, "nothing goes on", func() bool {
		var now strings.Builder
		for _, s := range sites {
			for _, l := range s.links.links {
				_, session := l.look()
				l.mu.Lock()
				fmt.Fprint(&now, session, l.counts)
				l.mu.Unlock()
				if session.Inflight+session.Queued > 0 {
					same = 0
				}
			}
		}
		if now.String() == before {
			same++
		} else {
			same, before = 0, now.String()
		}
		return same > 50
	})
}

func TestRightsAndRefusals(t *testing.T) {
	t.Parallel()
	near, far := newSite(t, "near"), newSite(t, "far")
	near.link(Config{Name: "far", URL: "mqtt://" + far.address,
		Out: []Rule{{Topic: "forbidden/x", QoS: 1}, {Topic: "y", Remote: "forbidden/", QoS: 2}, {Topic: "ok", QoS: 1}},
		In:  []Rule{{Topic: "#", Remote: "in/", Local: "forbidden/", QoS: 2}, {Topic: "z", QoS: 2}},
	})
	near.connected()
	heard(t, far, "in/#", "z")
	eventually.Holds(t, "the refused filter is told", func() bool {
		l := near.links.links[0]
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.refuses[0]) == 1 && strings.Contains(l.refuses[0][0], "forbidden/x")
	})
	here, there := newClient(near, "here", "z"), newClient(far, "there", "ok")
	there.publish("in/a", "no", 2)
	there.publish("in/a", "no", 1)
	there.publish("z", "yes", 2)
	here.takes("yes")
	here.publish("y", "no", 2)
	here.publish("ok", "yes", 1)
	there.takes("yes")
	eventually.Holds(t, "refusals are counted", func() bool {
		return near.counted(false, outcomeRefused) == 2 && near.counted(true, outcomeRefused) == 1
	})
	quiet(t, near)
}

// The configuration changes between two starts.
func TestALinkThatChangesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	near, far := newSite(t, "near"), newSite(t, "far")
	c := Config{Name: "far", URL: "mqtt://" + far.address, Out: []Rule{{Topic: "old", QoS: 1}}, In: []Rule{{Topic: "old/in", QoS: 1}}}
	near.link(c)
	near.connected()
	heard(t, far, "old/in")
	near.kill()
	c.Out, c.In = []Rule{{Topic: "new", QoS: 1}}, []Rule{{Topic: "new/in", QoS: 1}}
	near.configs = []Config{c}
	near.start()
	near.connected()
	heard(t, far, "new/in")
	heard(t, near, "new")
	filters := func(s *site, id string) (list []string) {
		info, _ := s.broker.Session(broker.SessionID{Space: "default", Client: id})
		for _, f := range info.Subscriptions {
			list = append(list, f.Filter)
		}
		return list
	}
	if here, there := filters(near, "link-far"), filters(far, "near-far"); !slices.Equal(here, []string{"new"}) || !slices.Equal(there, []string{"new/in"}) {
		t.Errorf("subscribed here to %v, there to %v", here, there)
	}
	near.kill()
	near.configs = nil
	near.start()
	near.link(Config{Name: "other", URL: "mqtt://" + far.address, Out: []Rule{{Topic: "x", QoS: 1}}})
	near.connected()
	if _, ok := near.broker.Session(broker.SessionID{Space: "default", Client: "link-far"}); ok {
		t.Error("the session of a link that is gone is kept")
	}
}

// A remote broker that has lost its sessions gives identifiers anew.
func TestARemoteBrokerThatForgetsLosesNothingAgain(t *testing.T) {
	t.Parallel()
	near, far := newSite(t, "near"), newSite(t, "far")
	near.link(Config{Name: "far", URL: "mqtt://" + far.address, In: []Rule{{Topic: "x", QoS: 2}}})
	near.connected()
	heard(t, far, "x")
	receiver := newClient(near, "receiver", "x")
	// The second half of a message never comes.
	l := near.links.links[0]
	newClient(far, "publisher", "").publish("x", "one", 2)
	receiver.takes("one")
	quiet(t, near)
	far.kill()
	eventually.Holds(t, "the link is down", func() bool { v, _ := l.look(); return v.State == Down })
	eventually.Holds(t, "the link has put off the end of its session, as its own client", func() bool { return !near.links.stale(l) })
	half := &client{site: near, id: "link-far", began: map[uint16]bool{}, acks: make(chan packet.Type, 16)}
	t.Cleanup(half.close)
	half.connect()
	p := packet.Publish{Topic: []byte("x"), Payload: []byte("half"), QoS: 2, PacketID: 1}
	half.send(p.Append(nil, packet.V5))
	half.await(packet.PUBREC)
	half.close()
	far.disk = new(broker.MemoryJournal)
	far.start()
	near.connected()
	heard(t, far, "x")
	newClient(far, "publisher-2", "").publish("x", "two", 2)
	receiver.takes("two")
}

func retained(p *packet.Publish) { p.Retain = true }
