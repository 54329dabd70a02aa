package relay

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A pairing is two relays that hand each other frames, one of which stores nothing of
// what it gets.
type pairing struct {
	relays map[string]*Relay
	notes  map[string]*notebook
	inbox  map[string]chan []byte
	quit   chan struct{}
	wait   sync.WaitGroup
}

// pair is a pairing of bridges a and b, b of a version.
func pair(t *testing.T, wire int) *pairing {
	p := &pairing{relays: map[string]*Relay{}, notes: map[string]*notebook{}, inbox: map[string]chan []byte{}, quit: make(chan struct{})}
	for i, id := range []string{"a", "b"} {
		p.inbox[id] = make(chan []byte, 1024)
		p.relays[id] = New(Options{Self: Node{id, uint64(i + 1)}, Key: &testKey, Transport: handing{p, id}, Wire: []int{TwoLanes, wire}[i], Window: 32 << 10, Outbox: 256 << 10})
		p.notes[id] = newNotebook(p.relays[id])
		p.relays[id].Start(storesNothing{})
	}
	for id, r := range p.relays {
		p.wait.Go(func() { p.serve(id, r) })
	}
	members := []Member{{Node: Node{"a", 1}, Wire: TwoLanes, Ready: true}, {Node: Node{"b", 2}, Wire: wire, Ready: true}}
	for _, r := range p.relays {
		r.Reconcile(members)
	}
	t.Cleanup(func() {
		close(p.quit)
		p.wait.Wait()
		for _, r := range p.relays {
			r.Close()
		}
	})
	eventually.Holds(t, "the bridges know each other", func() bool { return p.relays["a"].Ready() && p.relays["b"].Ready() })
	return p
}

func (p *pairing) serve(id string, r *Relay) {
	from := map[string]string{"a": "b", "b": "a"}[id]
	for {
		select {
		case frame := <-p.inbox[id]:
			r.Take(from, frame)
		case <-p.quit:
			return
		}
	}
}

// handing is the transport of one of them. It loses what there is no room for.
type handing struct {
	p    *pairing
	from string
}

func (h handing) Send(to string, frame []byte) error {
	select {
	case h.p.inbox[to] <- append([]byte(nil), frame...):
	default:
	}
	return nil
}

// storesNothing is the local side of a bridge whose disk stands still.
type storesNothing struct{}

func (storesNothing) Marked(string, uint64) uint64                              { return 0 }
func (storesNothing) AnswerReceipts()                                           {}
func (storesNothing) Reoffer([]byte, []uint64, broker.Outcome, broker.Answerer) {}
func (storesNothing) Arrive(string, uint64) Arrival                             { return new(neverStored) }

type neverStored struct{ some bool }

func (a *neverStored) Deliver([]byte, []uint64, bool) (broker.Outcome, []uint64, error) {
	a.some = true
	return broker.Taken, nil, nil
}

func (a *neverStored) End(uint64, func()) bool { return !a.some }

// fill sends messages to b until there is no room for more.
func (p *pairing) fill() {
	b := p.relays["a"].peer("b")
	for b.Send(broker.Outgoing{Encoded: make([]byte, 1<<10), QoS: 1, Receipt: new(answer)}) != broker.SendCrowded {
	}
	p.relays["a"].Flush()
}

// TestAFullQueueHoldsUpNoSubscription has the queue to a bridge that stores nothing be
// full: a subscription is acknowledged all the same, when that bridge knows it, and what
// a part says is heard.
func TestAFullQueueHoldsUpNoSubscription(t *testing.T) {
	p := pair(t, TwoLanes)
	p.fill()
	a, b := p.relays["a"], p.relays["b"]
	known := make(chan bool, 1)
	a.Subscribed(broker.Interest{Space: "home", Filter: "late"})
	p.notes["a"].write("late", true)
	a.Announced(&answer{then: func() {
		known <- b.Away("late", false, "home") != nil && p.notes["b"].knows(Node{"a", 1}, "late")
	}})
	select {
	case is := <-known:
		if !is {
			t.Error("a subscription is acknowledged that the other bridge does not know")
		}
	case <-time.After(eventually.Patience):
		t.Fatal("a subscription is not acknowledged")
	}
	if !p.notes["a"].voice.Say(Node{"b", 2}, []byte("hear")) {
		t.Fatal("nothing can be said")
	}
	eventually.Holds(t, "a word is heard", func() bool { return len(p.notes["b"].heard(Node{"a", 1})) == 1 })
	eventually.Holds(t, "the announcements are accepted", func() bool { return a.Peers()[0].Unheard == 0 })
	if held := a.Peers()[0].Queued; held < 256<<10 {
		t.Errorf("%d bytes wait", held)
	}
}

// TestABridgeSaysHowLongItIsNotHeard has a full queue to a bridge of an earlier release,
// for which everything waits behind the messages.
func TestABridgeSaysHowLongItIsNotHeard(t *testing.T) {
	p := pair(t, TwoLanes-1)
	p.fill()
	a := p.relays["a"]
	a.Subscribed(broker.Interest{Space: "home", Filter: "late"})
	a.Announced(new(answer))
	eventually.Holds(t, "the bridge waits", func() bool { return a.Peers()[0].Unheard > 50*time.Millisecond })
}

// TestNobodyWaitsForAnAdoptedBridgeThatDoesNotAnswer calls two bridges in vain: a living
// one, and one whose sessions another serves, which reads the journal for long.
func TestNobodyWaitsForAnAdoptedBridgeThatDoesNotAnswer(t *testing.T) {
	r := New(Options{Self: Node{"a", 1}, Key: &testKey, Transport: handing{&pairing{}, "a"}})
	r.Start(storesNothing{})
	defer r.Close()
	r.Reconcile([]Member{{Node: Node{"b", 2}, Ready: true}, {Node: Node{"c", 3}, Ready: true, Adopted: true}})
	eventually.Holds(t, "the call of the living one has an age", func() bool {
		for _, p := range r.Peers() {
			if p.ID == "c" && p.Unheard != 0 {
				t.Fatalf("c is not heard for %v, and nobody waits for it", p.Unheard)
			}
			if p.ID == "b" && p.Unheard > 50*time.Millisecond {
				return true
			}
		}
		return false
	})
	answered := make(chan bool, 1)
	r.Reconcile([]Member{{Node: Node{"c", 3}, Ready: true, Adopted: true}})
	r.Announced(&answer{then: func() { answered <- true }})
	if len(answered) == 0 {
		t.Error("a subscription waits for the adopted one")
	}
}

// TestWhatIsSaidBeforeAMessageArrivesBeforeIt has a bridge send control before each
// message, while frames are lost, doubled and overtake each other: the other one gets the
// control of a message no later than the message.
func TestWhatIsSaidBeforeAMessageArrivesBeforeIt(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, "a", "b", "c")
				w.loss = int(seed % 4 * 8)
				roll := rand.New(rand.NewPCG(seed, 5))
				a, b := w.process("a"), w.process("b")
				time.Sleep(time.Minute)
				b.arrived = func(number uint64) {
					if heard := len(b.notes.heard(Node{"a", a.epoch})); heard < int(number) {
						t.Errorf("message %d comes behind %d words", number, heard)
					}
				}
				for i := range uint64(300) {
					if !a.notes.voice.Say(Node{"b", b.epoch}, binary.LittleEndian.AppendUint64(nil, i)) {
						t.Fatalf("word %d cannot be said", i)
					}
					w.send("a", "b", i+1)
					if roll.IntN(5) == 0 {
						time.Sleep(time.Duration(roll.IntN(20)) * time.Millisecond)
					}
				}
				time.Sleep(time.Minute)
				w.close()
				w.mu.Lock()
				defer w.mu.Unlock()
				if n := len(w.nodes["b"].kept); n < 250 {
					t.Errorf("%d messages came", n)
				}
			})
		})
	}
}
