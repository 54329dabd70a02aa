package relay

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
)

// subscribes makes one subscription.
func (d *device) subscribes(o paho.SubscribeOptions, id int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	s := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{o}}
	if id != 0 {
		s.Properties = &paho.SubscribeProperties{SubscriptionIdentifier: &id}
	}
	if _, err := d.Subscribe(ctx, s); err != nil {
		d.t.Fatal(err)
	}
}

// publishes publishes anything, and waits for the answer.
func (d *device) publishes(p *paho.Publish) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if _, err := d.Publish(ctx, p); err != nil {
		d.t.Fatal(err)
	}
}

// packet is the next message that comes.
func (d *device) packet() *paho.Publish {
	d.t.Helper()
	select {
	case p := <-d.got:
		return p
	case <-time.After(eventually.Patience):
		d.t.Fatal("nothing came")
		return nil
	}
}

// hearsRetained is the next message that comes, which is said to be a retained one.
func (d *device) hearsRetained(want string) *paho.Publish {
	d.t.Helper()
	p := d.packet()
	if got := fmt.Sprintf("%s=%s@%d", p.Topic, p.Payload, p.QoS); got != want || !p.Retain {
		d.t.Fatalf("got %s (retained: %v), not %s", got, p.Retain, want)
	}
	return p
}

// hearsLive is the next message that comes, which is said to be a new one.
func (d *device) hearsLive(want string) {
	d.t.Helper()
	p := d.packet()
	if got := fmt.Sprintf("%s=%s@%d", p.Topic, p.Payload, p.QoS); got != want || p.Retain {
		d.t.Fatalf("got %s (retained: %v), not %s", got, p.Retain, want)
	}
}

// knows waits until a bridge has taken from the log all that is in it.
func (c *cluster) knows(bridge string) {
	c.t.Helper()
	c.mu.Lock()
	var other *bridgeNode
	for id, n := range c.nodes {
		if id != bridge {
			other = n
		}
	}
	n := c.nodes[bridge]
	c.mu.Unlock()
	c.marks++
	topic := fmt.Sprintf("last/%d", c.marks)
	if c.markers[other.id] == nil {
		if c.markers == nil {
			c.markers = make(map[string]*device)
		}
		c.markers[other.id] = c.connect(other.id, "marker-"+other.id, "home")
	}
	c.markers[other.id].retains(topic, "x")
	eventually.Holds(c.t, bridge+" has all of the log", func() bool {
		for range n.Retained(topic) {
			return true
		}
		return false
	})
}

// late is a cluster in which "t" is retained as "1", and the log comes to b no more
// until it is let go.
func late(t *testing.T, names ...string) (c *cluster, speaker *device, letGo func()) {
	c = newCluster(t, append([]string{"a", "b"}, names...)...)
	speaker = c.connect("a", "speaker", "home")
	speaker.retains("t", "1")
	c.knows("b")
	return c, speaker, c.retained.hold("b")
}

// TestWhoSubscribedTooEarlyGetsWhatWasRetained has a message retained while the log of
// a bridge is behind, so that who subscribes there gets the one before.
func TestWhoSubscribedTooEarlyGetsWhatWasRetained(t *testing.T) {
	for published := range byte(3) {
		for subscribed := range byte(3) {
			t.Run(fmt.Sprintf("QoS %d at QoS %d", published, subscribed), func(t *testing.T) {
				c, speaker, letGo := late(t)
				speaker.publishes(&paho.Publish{Topic: "t", Payload: []byte("2"), QoS: published, Retain: true})
				eventually.Holds(t, "it is in the log", func() bool { return c.retained.has("t", "2") })
				early := c.connect("b", "early", "home")
				early.subscribes(paho.SubscribeOptions{Topic: "t", QoS: subscribed}, 7)
				early.hearsRetained(fmt.Sprintf("t=1@%d", min(1, subscribed)))
				letGo()
				p := early.hearsRetained(fmt.Sprintf("t=2@%d", min(published, subscribed)))
				if id := p.Properties.SubscriptionIdentifier; id == nil || *id != 7 {
					t.Errorf("it came with the subscription identifier %v", id)
				}
				speaker.retains("t", "3")
				early.hearsLive(fmt.Sprintf("t=3@%d", min(1, subscribed)))
			})
		}
	}
}

// has reports whether a message is in the log.
func (l *retainedLog) has(topic, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.values, func(v broker.RetainedValue) bool {
		return strings.HasSuffix(v.Key, "\x00"+topic) && strings.HasSuffix(string(v.Value), text)
	})
}

// TestWhoSubscribesWhileAMessageIsStoredGetsIt has nothing be stored for a while, as
// during an election.
func TestWhoSubscribesWhileAMessageIsStoredGetsIt(t *testing.T) {
	c, speaker, letGo := late(t)
	letGo()
	c.retained.mu.Lock()
	c.retained.broken = true
	c.retained.mu.Unlock()
	answered := make(chan byte, 1)
	go func() { answered <- speaker.retains("t", "2") }()
	there := c.connect("a", "there", "home")
	eventually.Holds(t, "it counts at its bridge", func() bool {
		there.hears("t", 1)
		return there.next() == "t=2@1"
	})
	early := c.connect("b", "early", "home")
	early.hears("t", 1)
	early.hearsRetained("t=1@1")
	c.retained.mu.Lock()
	c.retained.broken = false
	c.retained.mu.Unlock()
	early.hearsRetained("t=2@1")
	<-answered
}

// TestWhoHadAMessageDoesNotGetItFromTheLog has one be subscribed all the time, and
// another one subscribe after the message has come to their bridge.
func TestWhoHadAMessageDoesNotGetItFromTheLog(t *testing.T) {
	c, speaker, letGo := late(t)
	long := c.connect("b", "long", "home")
	long.hears("t", 2)
	long.hearsRetained("t=1@1")
	speaker.retains("t", "2")
	long.hearsLive("t=2@1")
	early := c.connect("b", "early", "home")
	early.hears("+", 2)
	early.hearsRetained("t=1@1")
	letGo()
	early.hearsRetained("t=2@1")
	c.knows("b")
	speaker.retains("t", "3")
	long.hearsLive("t=3@1")
	early.hearsLive("t=3@1")
}

// TestALogThatIsAheadOfABridgeDoublesNothing has the log bring what the bridge of the
// publisher is still to bring.
func TestALogThatIsAheadOfABridgeDoublesNothing(t *testing.T) {
	c, speaker, letGo := late(t)
	letGo()
	long := c.connect("b", "long", "home")
	long.hears("t", 2)
	long.hearsRetained("t=1@1")
	c.mu.Lock()
	c.deaf["b"] = true
	c.mu.Unlock()
	answered := make(chan byte, 1)
	go func() { answered <- speaker.retains("t", "2") }()
	eventually.Holds(t, "it is in the log", func() bool { return c.retained.has("t", "2") })
	c.knows("b")
	c.mu.Lock()
	c.deaf["b"] = false
	c.mu.Unlock()
	long.hearsLive("t=2@1")
	<-answered
	c.knows("b")
	speaker.retains("t", "3")
	long.hearsLive("t=3@1")
}

// TestNobodyGetsAnOlderMessageAfterANewerOne has a message come by its bridge while an
// earlier one is still to come by the log.
func TestNobodyGetsAnOlderMessageAfterANewerOne(t *testing.T) {
	for name, by := range map[string]string{"of the same bridge": "a", "of another bridge": "c", "of their own bridge": "b"} {
		t.Run(name, func(t *testing.T) {
			c, speaker, letGo := late(t, "c")
			speaker.retains("t", "2")
			early := c.connect("b", "early", "home")
			early.hears("t", 1)
			early.hearsRetained("t=1@1")
			other := c.connect(by, "other", "home")
			other.retains("t", "3")
			early.hearsLive("t=3@1")
			letGo()
			c.knows("b")
			other.retains("t", "4")
			early.hearsLive("t=4@1")
		})
	}
}

// TestTheLogGivesNothingToWhoWantsNothing has a message come by the log that is not for
// those who subscribe.
func TestTheLogGivesNothingToWhoWantsNothing(t *testing.T) {
	for name, o := range map[string]paho.SubscribeOptions{
		"retained messages are not wanted": {Topic: "t", QoS: 1, RetainHandling: 2},
		"the subscription is shared":       {Topic: "$share/g/t", QoS: 1},
		"the message is another's":         {Topic: "t?room=hall", QoS: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, speaker, letGo := late(t)
			speaker.retains("t", "2")
			early := c.connect("b", "early", "home")
			early.subscribes(o, 0)
			letGo()
			c.knows("b")
			speaker.publishes(&paho.Publish{Topic: "t", Payload: []byte("3"), QoS: 1, Properties: &paho.PublishProperties{User: paho.UserProperties{{Key: "room", Value: "hall"}}}})
			early.hearsLive("t=3@1")
		})
	}
	t.Run("it is in another space", func(t *testing.T) {
		c, speaker, letGo := late(t)
		speaker.retains("t", "2")
		early := c.connect("b", "early", "work")
		early.hears("t", 1)
		letGo()
		c.knows("b")
		c.connect("a", "colleague", "work").retains("t", "3")
		early.hearsLive("t=3@1")
	})
	t.Run("it is gone", func(t *testing.T) {
		c, speaker, letGo := late(t)
		speaker.retains("t", "")
		early := c.connect("b", "early", "home")
		early.hears("t", 1)
		early.hearsRetained("t=1@1")
		letGo()
		c.knows("b")
		speaker.retains("t", "3")
		early.hearsLive("t=3@1")
	})
	t.Run("it is the client's own", func(t *testing.T) {
		c, speaker, letGo := late(t)
		early := c.connect("a", "early", "home")
		early.retains("t", "2")
		_ = early.Disconnect(&paho.Disconnect{})
		early = c.connect("b", "early", "home")
		early.subscribes(paho.SubscribeOptions{Topic: "t", QoS: 1, NoLocal: true}, 0)
		early.hearsRetained("t=1@1")
		letGo()
		c.knows("b")
		speaker.retains("t", "3")
		early.hearsLive("t=3@1")
	})
}

// TestASubscriptionMadeAgainKeepsWhatItIsOwed subscribes once more before the log has
// brought what is missing, to get no retained message again.
func TestASubscriptionMadeAgainKeepsWhatItIsOwed(t *testing.T) {
	c, speaker, letGo := late(t)
	speaker.retains("t", "2")
	early := c.connect("b", "early", "home")
	o := paho.SubscribeOptions{Topic: "t", QoS: 1, RetainHandling: 1}
	early.subscribes(o, 0)
	early.hearsRetained("t=1@1")
	early.subscribes(o, 8)
	letGo()
	if p := early.hearsRetained("t=2@1"); p.Properties.SubscriptionIdentifier == nil {
		t.Error("it came without the subscription identifier")
	}
}

// TestAKeptSessionIsOwedWhatTheLogBrings lets the client go before the log comes.
func TestAKeptSessionIsOwedWhatTheLogBrings(t *testing.T) {
	c, speaker, letGo := late(t)
	speaker.retains("t", "2")
	early := c.connectKept("b", "early")
	early.hears("t", 1)
	early.hearsRetained("t=1@1")
	early.hasAcknowledged()
	_ = early.Disconnect(&paho.Disconnect{ReasonCode: packets.DisconnectNormalDisconnection})
	letGo()
	c.knows("b")
	c.connectKept("b", "early").hearsRetained("t=2@1")
}

// hasAcknowledged waits until all that was heard is acknowledged, which is done after
// a message is handed over, and before the next one is.
func (d *device) hasAcknowledged() {
	d.t.Helper()
	d.hears("acknowledged", 0)
	d.says("acknowledged", "", 0)
	d.hearsLive("acknowledged=@0")
}

// connectKept connects a device whose session is kept.
func (c *cluster) connectKept(to, id string) *device {
	c.t.Helper()
	c.mu.Lock()
	addr := c.nodes[to].addr
	c.mu.Unlock()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	d := &device{got: make(chan *paho.Publish, 4096), t: c.t}
	d.Client = paho.NewClient(paho.ClientConfig{Conn: nc, PacketTimeout: eventually.Patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			d.got <- p.Packet
			return true, nil
		},
	}})
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	hour := uint32(3600)
	answer, err := d.Connect(ctx, &paho.Connect{ClientID: id, UsernameFlag: true, Username: "home", Properties: &paho.ConnectProperties{SessionExpiryInterval: &hour}})
	if err != nil || answer.ReasonCode != 0 {
		c.t.Fatalf("connect: %v %+v", err, answer)
	}
	c.t.Cleanup(func() { _ = d.Disconnect(&paho.Disconnect{}) })
	return d
}

// TestEverySubscriberEndsWithWhatIsRetained has clients at three bridges publish, and
// subscribe, while what the log brings is held back here and there. In the end each
// subscriber has heard last what is retained, nothing twice, and nothing that was
// published before what it had.
func TestEverySubscriberEndsWithWhatIsRetained(t *testing.T) {
	names := []string{"a", "b", "c"}
	c := newCluster(t, names...)
	speakers := make(map[string]*device)
	for _, name := range names {
		speakers[name] = c.connect(name, "speaker-"+name, "home")
	}
	round, number := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		topics := []string{fmt.Sprintf("%d/1", round), fmt.Sprintf("%d/2", round)}
		type subscriber struct {
			*device
			what string
		}
		var all []subscriber
		holds := make(map[string]func())
		retained := make(map[string]int)
		for range rapid.IntRange(4, 30).Draw(r, "steps") {
			at := rapid.SampledFrom(names).Draw(r, "at")
			topic := rapid.SampledFrom(topics).Draw(r, "topic")
			switch rapid.SampledFrom([]string{"publish", "publish", "remove", "subscribe", "subscribe", "hold", "let go"}).Draw(r, "step") {
			case "publish":
				number++
				retained[topic] = number
				speakers[at].publishes(&paho.Publish{Topic: topic, Payload: []byte(strconv.Itoa(number)), QoS: byte(rapid.IntRange(1, 2).Draw(r, "QoS")), Retain: true})
			case "remove":
				delete(retained, topic)
				speakers[at].retains(topic, "")
			case "subscribe":
				filter := rapid.SampledFrom([]string{topic, fmt.Sprintf("%d/+", round)}).Draw(r, "filter")
				d := c.connect(at, fmt.Sprintf("listener-%d-%d", round, len(all)), "home")
				d.hears(filter, byte(rapid.IntRange(0, 2).Draw(r, "QoS")))
				all = append(all, subscriber{d, fmt.Sprintf("%d at %s, to %s", len(all), at, filter)})
			case "hold":
				if holds[at] == nil {
					holds[at] = c.retained.hold(at)
				}
			case "let go":
				if holds[at] != nil {
					holds[at]()
					delete(holds, at)
				}
			}
		}
		for _, letGo := range holds {
			letGo()
		}
		for _, name := range names {
			c.knows(name)
		}
		for _, s := range all {
			ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
			if _, err := s.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "end", QoS: 2}}}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		speakers["a"].publishes(&paho.Publish{Topic: "end", QoS: 2})
		for _, s := range all {
			defer func() { _ = s.Disconnect(&paho.Disconnect{}) }()
			last := make(map[string]int)
			for p := s.packet(); p.Topic != "end"; p = s.packet() {
				if len(p.Payload) == 0 {
					last[p.Topic] = 0
					continue
				}
				n, err := strconv.Atoi(string(p.Payload))
				if err != nil || n <= last[p.Topic] {
					r.Fatalf("%s got %s=%s (retained: %v) after %d", s.what, p.Topic, p.Payload, p.Retain, last[p.Topic])
				}
				last[p.Topic] = n
			}
			for topic, want := range retained {
				if strings.HasSuffix(s.what, "+") || strings.HasSuffix(s.what, topic) {
					if last[topic] != want {
						r.Fatalf("%s has %d last of %s, not %d", s.what, last[topic], topic, want)
					}
				}
			}
		}
	})
}
