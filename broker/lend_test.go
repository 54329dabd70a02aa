package broker

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// lend lends a message to a subscriber of "work".
func lend(n *node, payload string, most int, done chan<- string) bool {
	return n.Lend(protocol.DefaultSpace, []string{"work"}, most, protocol.Message{Topic: "jobs/1", QoS: 1, Payload: []byte(payload)}, func(taken bool) {
		done <- fmt.Sprint(payload, " ", taken)
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
		if n.Borrowers("other", []string{"work"}, 9) || !n.Borrowers(protocol.DefaultSpace, []string{"else", "work"}, 9) {
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
		if got := <-done; got != "1 true" {
			t.Errorf("became %s", got)
		}
		n.leave(p, "a")
		if got := <-done; got != "2 false" {
			t.Errorf("became %s", got)
		}
		p = n.connect(5, "a", kept)
		p.quiet() // it is in no session
		if !lend(n, "4", 1, done) {
			t.Error("a session that came back borrows nothing")
		}
		p.take("4")
		if got := <-done; got != "4 true" {
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
	if !lend(n, "once", 2, done) || <-done != "once true" { // sent is taken
		t.Error("it was not sent with QoS 0")
	}
	c.take("once")
}
