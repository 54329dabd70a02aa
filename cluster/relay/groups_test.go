package relay

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// deafen has nothing come to a bridge any more, or again.
func (c *cluster) deafen(id string, deaf bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf[id] = deaf
}

// saying publishes with QoS 1 and does not wait for the answer.
func (d *device) saying(topic, text string) <-chan byte {
	answered := make(chan byte, 1)
	go func() { answered <- d.says(topic, text, 1) }()
	return answered
}

func TestWhatAMemberLeftBeforeItCameGoesToAMemberElsewhere(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	leaving, staying := c.connect("b", "leaving", "home"), c.connect("c", "staying", "home")
	leaving.hears("$share/g/work", 1)
	staying.hears("$share/g/work", 1)
	listener := c.connect("b", "listener", "home")
	listener.hears("work", 1)
	speaker := c.connect("a", "speaker", "home")
	c.deafen("a", true) // and it does not learn who left
	if _, err := leaving.Unsubscribe(leaving.context(), &paho.Unsubscribe{Topics: []string{"$share/g/work"}}); err != nil {
		t.Fatal(err)
	}
	var answers []<-chan byte
	for i := range 4 { // two of them at the turn of who left
		answers = append(answers, speaker.saying("work", fmt.Sprint(i)))
	}
	for range answers {
		listener.next()
	}
	c.deafen("a", false)
	got := make(map[string]bool)
	for range answers {
		got[staying.next()] = true
	}
	for i, answered := range answers {
		if reason := <-answered; reason != 0 {
			t.Errorf("message %d was answered by %#x", i, reason)
		}
	}
	if len(got) != len(answers) {
		t.Errorf("the member that stayed got %v", got)
	}
	c.connect("a", "other", "home").says("work", "end", 1)
	listener.expect("work=end@1") // and nothing twice
}

func TestAMessageWaitsForAMemberThatIsOnItsWay(t *testing.T) {
	c := newCluster(t, "a", "b")
	leaving := c.connect("b", "leaving", "home")
	leaving.hears("$share/g/work", 1)
	speaker := c.connect("a", "speaker", "home")
	c.deafen("a", true)
	if _, err := leaving.Unsubscribe(leaving.context(), &paho.Unsubscribe{Topics: []string{"$share/g/work"}}); err != nil {
		t.Fatal(err)
	}
	answered := speaker.saying("work", "?")
	eventually.Holds(t, "it is on its way", func() bool { return c.node("a").relay.Peers()[0].Queued > 0 })
	c.deafen("a", false)
	late := c.connect("b", "late", "home")
	late.hears("$share/g/work", 1) // before it is given up
	late.expect("work=?@1")
	if reason := <-answered; reason != 0 {
		t.Errorf("it was answered by %#x", reason)
	}
}

func TestWhatADeadBridgeOwedAGroupGoesToMembersElsewhere(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.connect("b", "dying", "home").hears("$share/g/work", 1)
	staying := c.connect("c", "staying", "home")
	staying.hears("$share/g/work", 1)
	speaker := c.connect("a", "speaker", "home")
	c.deafen("b", true)
	answers := []<-chan byte{speaker.saying("work", "0"), speaker.saying("work", "1")}
	got := map[string]bool{staying.next(): true} // at its turn
	c.end(c.node("b"))
	c.agree()
	got[staying.next()] = true
	if !got["work=0@1"] || !got["work=1@1"] {
		t.Errorf("the member that stayed got %v", got)
	}
	for i, answered := range answers {
		if reason := <-answered; reason != 0 {
			t.Errorf("message %d was answered by %#x", i, reason)
		}
	}
}

func (c *cluster) node(id string) *bridgeNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

func (d *device) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	d.t.Cleanup(cancel)
	return ctx
}

// A wandering is a session that moves from bridge b to c, step by step.
type wandering struct {
	c  *cluster
	id broker.SessionID
}

// wander begins the move of a session with a subscription.
func wander(c *cluster, filter string) wandering {
	w := wandering{c, broker.SessionID{Space: "home", Client: "wanderer"}}
	w.connect("b", true).hears(filter, 2)
	<-w.offer()
	return w
}

// offer has c expect the session. What it returns is closed when all know of that.
func (w wandering) offer() (known chan struct{}) {
	w.c.t.Helper()
	party := (&protocol.Principal{ID: "someone", Space: "home"}).Party()
	offer, became := w.c.node("b").Offer(w.id, party, false)
	if became != broker.Offered {
		w.c.t.Fatalf("the offer became %v", became)
	}
	known = make(chan struct{})
	if err := w.c.node("c").Expect(w.id, offer, 2, func() { close(known) }); err != nil {
		w.c.t.Fatal(err)
	}
	return known
}

// cut is b's part of the session. What is published from then on is not in it.
func (w wandering) cut() []byte {
	w.c.t.Helper()
	state, settled := w.c.node("b").Cut(w.id)
	if !settled {
		w.c.t.Fatal("the session cannot be cut")
	}
	return state
}

// arrive ends the move, and connects the client to c.
func (w wandering) arrive(state []byte) *device {
	w.c.t.Helper()
	stored := make(chan struct{})
	if err := w.c.node("c").Take(w.id, state, func() { close(stored) }); err != nil {
		w.c.t.Fatal(err)
	}
	<-stored
	w.c.node("b").Drop(w.id)
	w.c.node("c").Own(w.id)
	return w.connect("c", false)
}

func (w wandering) connect(to string, clean bool) *device {
	w.c.t.Helper()
	nc, err := net.Dial("tcp", w.c.node(to).addr)
	if err != nil {
		w.c.t.Fatal(err)
	}
	d := &device{got: make(chan *paho.Publish, 64), t: w.c.t}
	d.Client = paho.NewClient(paho.ClientConfig{Conn: nc, PacketTimeout: eventually.Patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			d.got <- p.Packet
			return true, nil
		},
	}})
	keep := uint32(3600)
	answer, err := d.Connect(d.context(), &paho.Connect{
		ClientID: w.id.Client, CleanStart: clean, UsernameFlag: true, Username: string(w.id.Space),
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &keep},
	})
	if err != nil || answer.ReasonCode != packets.ConnackSuccess || answer.SessionPresent == clean {
		w.c.t.Fatalf("connect: %v %+v", err, answer)
	}
	w.c.t.Cleanup(func() { _ = d.Disconnect(&paho.Disconnect{}) })
	return d
}

// TestWhatIsForAGroupWaitsWhileItsOnlyMemberMoves publishes to a group between the
// moments at which its member has left one bridge and has come to another.
func TestWhatIsForAGroupWaitsWhileItsOnlyMemberMoves(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	speaker := c.connect("a", "speaker", "home")
	w := wander(c, "$share/g/work")
	near := c.connect("b", "near", "home") // publishes where the member leaves
	known := c.connect("b", "known", "home")
	known.hears("work", 1)
	state := w.cut()
	late := []<-chan byte{speaker.saying("work", "late"), near.saying("work", "later")}
	known.next()
	known.next()
	d := w.arrive(state)
	for i, answered := range late {
		if reason := <-answered; reason != 0 {
			t.Errorf("message %d was answered by %#x", i, reason)
		}
	}
	got := []string{d.next(), d.next()}
	slices.Sort(got)
	if want := []string{"work=late@1", "work=later@1"}; !slices.Equal(got, want) {
		t.Errorf("it got %v, want %v", got, want)
	}
}

func TestARetainedMessageComesOnceToASessionThatMoves(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	speaker := c.connect("a", "speaker", "home")
	w := wander(c, "work")
	for qos := byte(1); qos <= 2; qos++ { // b and c have both
		if _, err := speaker.Publish(speaker.context(), &paho.Publish{Topic: "work", Payload: []byte("kept"), QoS: qos, Retain: true}); err != nil {
			t.Fatal(err)
		}
	}
	there := c.connect("c", "there", "home")
	if _, err := there.Publish(there.context(), &paho.Publish{Topic: "work", Payload: []byte("its own"), QoS: 1, Retain: true}); err != nil {
		t.Fatal(err)
	}
	d := w.arrive(w.cut())
	speaker.says("work", "end", 1)
	d.expect("work=kept@1", "work=kept@2", "work=its own@1", "work=end@1")
}
