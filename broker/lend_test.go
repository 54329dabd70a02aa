package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// lend lends a message to a subscriber of "work".
func lend(n *node, payload string, most int, done chan<- string) bool {
	return n.Lend(protocol.DefaultSpace, []string{"work"}, most, protocol.Message{Topic: "jobs/1", QoS: 1, Payload: []byte(payload)}, func(became Return) {
		done <- fmt.Sprint(payload, " ", [...]string{"accepted", "rejected", "abandoned"}[became])
	})
}

func TestAMessageIsLentUntilItIsAcknowledgedOrTheConnectionEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		n := newNode(t, readers, func(o *Options) { o.Journal = journal })
		done := make(chan string, 8)
		if lend(n, "nobody", 9, done) {
			t.Error("it was lent to nobody")
		}
		p := n.connect(5, "a", kept)
		p.subscribe("work", 1)
		if n.Borrowers("other", []string{"work"}, 9) > 0 || n.Borrowers(protocol.DefaultSpace, []string{"else", "work"}, 9) == 0 {
			t.Error("the borrowers are others")
		}
		for _, payload := range []string{"1", "2", "3"} {
			if got := lend(n, payload, 2, done); got != (payload != "3") {
				t.Errorf("%s is lent: %v", payload, got)
			}
		}
		m := p.receive()
		if string(m.Payload) != "1" || string(m.Topic) != "jobs/1" || m.QoS != 1 {
			t.Errorf("got %+v", m)
		}
		p.acknowledge(m)
		if got := <-done; got != "1 accepted" {
			t.Errorf("became %s", got)
		}
		n.leave(p, "a")
		if got := <-done; got != "2 abandoned" {
			t.Errorf("became %s", got)
		}
		p = n.connect(5, "a", kept)
		p.quiet() // it is in no session
		if !lend(n, "4", 1, done) {
			t.Error("a session that came back borrows nothing")
		}
		p.take("4")
		if got := <-done; got != "4 accepted" {
			t.Errorf("became %s", got)
		}
		if !lend(n, "5", 1, done) {
			t.Error("it is not lent")
		}
		p.send(packet.AppendAck(nil, 5, packet.PUBACK, p.receive().PacketID, packet.UnspecifiedError))
		if got := <-done; got != "5 rejected" {
			t.Errorf("became %s", got)
		}
	})
}

func TestAMessageIsLentToWhoHasTheFewest(t *testing.T) {
	n := newNode(t, 1)
	done := make(chan string, 8)
	a, b, c := n.connect(5, "a"), n.connect(4, "b"), n.connect(5, "c")
	a.subscribe("work", 2)
	b.subscribe("work", 1)
	for i := range 4 {
		if !lend(n, fmt.Sprint(i), 2, done) {
			t.Errorf("%d is not lent", i)
		}
	}
	for _, p := range []*peer{a, a, b, b} {
		p.acknowledge(p.receive())
		<-done
	}
	c.subscribe("work", 0)
	n.leave(a, "a")
	n.leave(b, "b")
	eventually.Holds(t, "they are gone", func() bool { return !n.has("a") && !n.has("b") })
	if !lend(n, "once", 2, done) || <-done != "once accepted" { // sent is taken
		t.Error("it was not sent with QoS 0")
	}
	c.take("once")
}

// Who lends hears how large a packet may be for the client that takes most of those that
// have room.
func TestBorrowersTellTheirLargestPacket(t *testing.T) {
	n := newNode(t, 1)
	done := make(chan string, 8)
	largest := func() int { return n.Borrowers(protocol.DefaultSpace, []string{"work"}, 1) }
	small, large := n.connect(5, "small", property(packet.MaximumPacketSize, 100)), n.connect(5, "large", property(packet.MaximumPacketSize, 1000))
	small.subscribe("work", 1)
	if got := largest(); got != 100 {
		t.Errorf("%d bytes", got)
	}
	if lend(n, strings.Repeat("x", 200), 1, done) {
		t.Error("a client was lent a message that is too large for it")
	}
	large.subscribe("work", 1)
	if got := largest(); got != 1000 {
		t.Errorf("%d bytes", got)
	}
	if !lend(n, strings.Repeat("x", 200), 1, done) {
		t.Error("nobody was lent a message that one of two takes")
	}
	if got := largest(); got != 100 { // the other one has enough
		t.Errorf("%d bytes", got)
	}
	n.connect(4, "old").subscribe("work", 1)
	if got := largest(); got < packet.MaxRemaining {
		t.Errorf("%d bytes", got)
	}
}

// A subscription to a queue has neither groups nor conditions.
func TestSubscriptionsToWhatIsLentArePlain(t *testing.T) {
	n := newNode(t, 1, conditions, func(o *Options) { o.Lending = "work/" })
	p := n.connect(5, "a")
	for _, filter := range []string{"work/a?x=1", "$share/g/work/a", "$share/g/work/a?x=1", "$exclusive/work/a"} {
		if got := p.trySubscribe(filter, 1); got[0] != packet.TopicFilterInvalid {
			t.Errorf("%s: %v", filter, got)
		}
	}
	for _, filter := range []string{"work/a", "work?x=1", "$share/g/work", "$share/work/a"} {
		p.subscribe(filter, 1)
	}
}
