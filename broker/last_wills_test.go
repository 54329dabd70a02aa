package broker

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A slowPeer is the only other bridge of a cluster. It has a subscriber to everything,
// and accepts nothing by itself.
type slowPeer struct {
	noPeers
	sent chan Outgoing
}

func newSlowPeer() *slowPeer { return &slowPeer{sent: make(chan Outgoing, 16)} }

func (p *slowPeer) Away(string, bool, ...protocol.SpaceID) *Away { return &Away{Peers: []Peer{p}} }
func (p *slowPeer) All() []Peer                                  { return []Peer{p} }
func (p *slowPeer) Room() <-chan struct{}                        { return nil }

func (p *slowPeer) Process() Process { return Process{"there", 1} }

func (p *slowPeer) Send(m Outgoing) SendResult {
	p.sent <- m
	return SendQueued
}

// accept has the peer accept the next message.
func (p *slowPeer) accept(b *Broker) {
	if m := <-p.sent; m.Receipt != nil {
		m.Receipt.Answer(Taken)
		b.AnswerReceipts()
	}
}

// mourned is a client with a Will, retained or not.
func mourned(qos byte, retain bool) func(*packet.Connect) {
	return func(c *packet.Connect) {
		c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS, c.Will.Retain = true, []byte("will"), []byte("gone"), qos, retain
	}
}

// settled returns when all is stored that is recorded by now.
func (n *node) settled() {
	stored := make(chan struct{})
	t := n.getTurn().begin()
	n.journal.put(t, "last", []byte("of all"))
	n.journal.whenStored(func() { close(stored) })
	n.putTurn(t)
	<-stored
}

// TestABridgeThatEndsForgetsWillsOnceOthersHaveThem closes a broker with a client that
// has a Will while another bridge, which somebody listens at, accepts it or does not.
func TestABridgeThatEndsForgetsWillsOnceOthersHaveThem(t *testing.T) {
	for name, c := range map[string]struct {
		change  []func(*packet.Connect)
		accepts bool
	}{
		"QoS 0, accepted":                       {[]func(*packet.Connect){mourned(0, false)}, true},
		"QoS 1, accepted":                       {[]func(*packet.Connect){mourned(1, false)}, true},
		"QoS 2 of a kept session, accepted":     {[]func(*packet.Connect){kept, mourned(2, false)}, true},
		"QoS 0, not accepted":                   {[]func(*packet.Connect){mourned(0, false)}, false},
		"QoS 1, not accepted":                   {[]func(*packet.Connect){mourned(1, false)}, false},
		"QoS 2 of a kept session, not accepted": {[]func(*packet.Connect){kept, mourned(2, false)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal, peer := new(MemoryJournal), newSlowPeer()
			n := newNode(t, 1, func(o *Options) { o.Journal, o.Peers = journal, peer })
			n.PublishWills()
			n.connect(5, "sleeper", c.change...)
			within, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			closed := make(chan error, 1)
			go func() { closed <- n.Close(within) }()
			if c.accepts {
				peer.accept(n.Broker)
			} else {
				<-peer.sent
				giveUp()
			}
			<-closed
			want := 1
			if c.accepts {
				want = 0
			}
			if wills := left(journal, keyWill); len(wills) != want {
				t.Errorf("%d Wills are on record, want %d", len(wills), want)
			}
		})
	}
}

// TestAWillIsOnRecordUntilOthersHaveIt cuts off a client whose Will another bridge is slow
// to accept.
func TestAWillIsOnRecordUntilOthersHaveIt(t *testing.T) {
	for qos := range byte(3) {
		journal, peer := new(MemoryJournal), newSlowPeer()
		n := newNode(t, 1, func(o *Options) { o.Journal, o.Peers = journal, peer })
		n.PublishWills()
		n.cut(n.connect(5, "lost", mourned(qos, false)), "lost")
		m := <-peer.sent
		n.settled()
		if wills := left(journal, keyWill); len(wills) != 1 {
			t.Errorf("QoS %d: %d Wills are on record before the other bridge has it", qos, len(wills))
		}
		m.Receipt.Answer(Taken)
		n.AnswerReceipts()
		eventually.Holds(t, "it is off the record", func() bool { return len(left(journal, keyWill)) == 0 })
	}
}

// TestARetainedWillIsOnRecordUntilItIsRetained closes a broker while the log of what
// clients retain is slow.
func TestARetainedWillIsOnRecordUntilItIsRetained(t *testing.T) {
	for qos := range byte(2) {
		journal, log := new(MemoryJournal), &slowLog{put: make(chan []RetainedValue), done: make(chan struct{})}
		n := newNode(t, 1, func(o *Options) { o.Journal, o.Peers, o.Retained = journal, noPeers{}, log })
		n.PublishWills()
		n.connect(5, "lost", mourned(qos, true))
		closed := make(chan error, 1)
		go func() { closed <- n.Close(context.Background()) }()
		if values := <-log.put; len(values) != 1 {
			t.Errorf("QoS %d: retained is %+v", qos, values)
		}
		n.settled()
		if wills := left(journal, keyWill); len(wills) != 1 {
			t.Errorf("QoS %d: %d Wills are on record before it is retained", qos, len(wills))
		}
		close(log.done)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if wills := left(journal, keyWill); len(wills) != 0 {
			t.Errorf("QoS %d: %d Wills are on record", qos, len(wills))
		}
	}
}

// TestAnAdopterGivesNoWillBackThatIsOnItsWay has an adopter give sessions back while
// another bridge is slow to accept a Will of theirs, and while Wills are held back.
func TestAnAdopterGivesNoWillBackThatIsOnItsWay(t *testing.T) {
	for qos := range byte(3) {
		peer, journal := newSlowPeer(), new(MemoryJournal)
		n := newNode(t, 1, func(o *Options) { o.Journal, o.Peers = new(MemoryJournal), peer })
		value, err := json.Marshal(storedLastWill{
			Principal: &protocol.Principal{ID: "someone", Space: protocol.DefaultSpace},
			Will:      storedWill{Message: appendMessage(nil, &message{topic: "will", from: "lost", qos: qos}, 0), Since: 7},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Write(t.Context(), []KeyedValue{{keyOfWill(home("lost"), 7), value}}, nil); err != nil {
			t.Fatal(err)
		}
		a := n.adopts(t, journal)
		a.GiveUpWills(t.Context()) // held back until all bridges know each other
		n.PublishWills()
		if err := a.Close(t.Context()); err != nil || len(left(journal, keyWill)) != 1 {
			t.Fatalf("QoS %d: closed with %d Wills on record: %v", qos, len(left(journal, keyWill)), err)
		}

		a = n.adopts(t, journal)
		m := <-peer.sent
		gaveUp := make(chan struct{})
		go func() {
			defer close(gaveUp)
			a.GiveUpWills(context.Background())
		}()
		eventually.Holds(t, "it gives up", a.gaveUpWills.Load)
		m.Receipt.Answer(Taken)
		n.AnswerReceipts()
		<-gaveUp
		if err := a.Close(t.Context()); err != nil || len(left(journal, keyWill)) != 0 {
			t.Errorf("QoS %d: given back with %d Wills on record: %v", qos, len(left(journal, keyWill)), err)
		}
	}
}
