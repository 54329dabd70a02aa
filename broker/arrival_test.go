package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// encoded is a message as another bridge sends it.
func encoded(b *Broker, m message) []byte {
	t := newTurn(b).begin()
	t.use(&m)
	out, _ := t.encodeAway()
	return out
}

// arrives delivers messages of a peer, and waits until they are stored.
func arrives(t *testing.T, n *node, offset uint64, messages ...message) {
	t.Helper()
	a := n.Arrive("peer", 7)
	for i := range messages {
		if became, _, err := a.Deliver(encoded(n.Broker, messages[i]), nil, false); err != nil || became != Taken {
			t.Fatalf("a message became %v, %v", became, err)
		}
	}
	stored := make(chan struct{})
	if a.End(offset, func() { close(stored) }) {
		t.Fatal("nothing had to be stored")
	}
	<-stored
}

// TestMarksOfPeersAreStoredWithWhatTheyCover delivers messages to a session that
// is kept, with checkpoints of the journal, over restarts.
func TestMarksOfPeersAreStoredWithWhatTheyCover(t *testing.T) {
	journal := new(MemoryJournal)
	begin := func() *node {
		return startNode(t, 1, func(o *Options) { o.Journal, o.checkpointAfter = journal, 4<<10 })
	}
	n := begin()
	p := n.connect(5, "sleeper", kept)
	p.subscribe("t", 1)
	n.cut(p, "sleeper")
	offset := uint64(0)
	for run := range 3 {
		for i := range 40 {
			offset += 100
			arrives(t, n, offset, message{topic: "t", payload: fmt.Appendf(nil, "%d-%d", run, i), qos: 1, to: everybody(protocol.DefaultSpace)})
		}
		n.stop()
		n = begin()
		if got := n.Marked("peer", 7); got != offset {
			t.Fatalf("after a restart the mark is %d, not %d", got, offset)
		}
		if got := n.Marked("peer", 8); got != 0 {
			t.Fatalf("another process of the peer has the mark %d", got)
		}
	}
	p = n.connect(5, "sleeper", kept)
	for run := range 3 {
		for i := range 40 {
			m := p.take(fmt.Sprintf("%d-%d", run, i))
			p.acknowledge(m)
		}
	}
	n.stop()
}

// TestNothingOfAnArrivalIsStoredBeforeItsMark holds the journal while what came
// from a peer is delivered.
func TestNothingOfAnArrivalIsStoredBeforeItsMark(t *testing.T) {
	journal := new(MemoryJournal)
	n := newNode(t, 1, func(o *Options) { o.Journal = journal })
	p := n.connect(5, "sleeper", kept)
	p.subscribe("t", 1)
	n.cut(p, "sleeper")
	a := n.Arrive("peer", 7)
	if _, _, err := a.Deliver(encoded(n.Broker, message{topic: "t", qos: 1, to: everybody(protocol.DefaultSpace)}), nil, false); err != nil {
		t.Fatal(err)
	}
	before := n.journal.stored.Load()
	other := n.connect(5, "other") // whose packets have the journal woken
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m := text("t", "another")
		m.QoS = 1
		other.publish(m)
	}()
	eventually.Holds(t, "the journal has something to do", func() bool {
		n.journal.mu.Lock()
		defer n.journal.mu.Unlock()
		return len(n.journal.conns) > 0
	})
	if now := n.journal.stored.Load(); now != before {
		t.Errorf("group %d was stored in the middle of an arrival", now)
	}
	stored := make(chan struct{})
	if a.End(5, func() { close(stored) }) {
		t.Error("nothing had to be stored")
	}
	<-stored
	<-answered
	if got := n.Marked("peer", 7); got != 5 {
		t.Errorf("the mark is %d", got)
	}
}

// FuzzAway delivers whatever another bridge may send.
func FuzzAway(f *testing.F) {
	b, err := New(Options{
		Authenticate: authenticate, Permissions: permissions{}, SysInterval: -1,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = b.Close(context.Background()) })
	party := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	for _, to := range []protocol.Recipients{protocol.Everybody("home"), protocol.Only(party), protocol.Administrators()} {
		f.Add(encoded(b, message{topic: "a/b", payload: []byte("x"), qos: 2, from: "c", to: audienceOf(&to), props: []byte{byte(packet.ContentType), 0, 1, 'j'}}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		turn := newTurn(b).begin()
		if turn.decodeAway(data) != nil {
			return
		}
		first := turn.msg
		again, ok := turn.encodeAway()
		if !ok {
			return
		}
		if err := newTurn(b).begin().decodeAway(again); err != nil {
			t.Fatalf("a message on %q that was read is written so that it cannot be: %v", first.topic, err)
		}
	})
}
