package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A mortal is bridge a, which holds clients with Wills and is killed: what is in its journal
// at a moment is all that its next process, or its adopter, has.
type mortal struct {
	c       *cluster
	journal *broker.MemoryJournal
	clients int
}

func newMortal(c *cluster) *mortal {
	m := &mortal{c: c, journal: new(broker.MemoryJournal)}
	m.c.entrance = new(turnstile)
	m.start()
	return m
}

// start starts a process of the bridge.
func (m *mortal) start() {
	m.c.journal = m.journal
	m.c.add("a")
	m.c.agree()
}

// kill ends the process, of which nothing is left but what the journal has by now.
func (m *mortal) kill() {
	m.journal = m.journal.Copy()
	m.c.end(m.c.node("a"))
}

// onRecord counts the Wills that the journal has.
func (m *mortal) onRecord() (wills int) {
	_ = m.journal.Copy().Load(context.Background(), func(key string, _ []byte) error {
		if strings.HasPrefix(key, "w/") {
			wills++
		}
		return nil
	}, func(uint64, []byte) error { return nil })
	return wills
}

// mourned connects a client with a Will, which is on record then.
func (m *mortal) mourned() (bare, string) {
	m.c.t.Helper()
	m.clients++
	id := fmt.Sprintf("mourned-%d", m.clients)
	return m.c.bareWith("a", id, id, 0), "t=" + id + "@2"
}

// TestAWillIsHeardAtBridgesThatAReturningOneDoesNotKnowYet kills a bridge with a client
// that has a Will. Its next process has that before it knows who listens elsewhere.
func TestAWillIsHeardAtBridgesThatAReturningOneDoesNotKnowYet(t *testing.T) {
	c := newCluster(t, "b")
	m := newMortal(c)
	listener := c.connect("b", "listener", "home")
	listener.hears("t", 2)
	_, will := m.mourned()
	m.kill()
	m.start()
	listener.expect(will)
	c.connect("a", "last", "home").says("t", "end", 1)
	listener.expect("t=end@1")
}

// TestAWillIsOnRecordUntilAllHaveIt kills a bridge that has published a Will, of which
// another has heard nothing yet.
func TestAWillIsOnRecordUntilAllHaveIt(t *testing.T) {
	c := newCluster(t, "b")
	m := newMortal(c)
	far, near := c.connect("b", "far", "home"), c.connect("a", "near", "home")
	far.hears("t", 2)
	near.hears("t", 2)
	kept := wandering{c, broker.SessionID{Space: "home", Client: "kept"}}
	kept.connect("a", true).hears("mark", 1)
	lost, will := m.mourned()
	c.deafen("b", true)
	_ = lost.Close()
	near.expect(will)
	near.says("mark", "is stored behind what was before", 1)
	m.kill()
	c.deafen("b", false)
	m.start()
	far.expect(will)
}

// TestAWillIsForOneMemberThoughItIsPublishedAgain kills a bridge when a member of a
// group elsewhere has a Will, and that is still on record.
func TestAWillIsForOneMemberThoughItIsPublishedAgain(t *testing.T) {
	c := newCluster(t, "b", "c")
	m := newMortal(c)
	members := []*device{c.connect("b", "m1", "home"), c.connect("c", "m2", "home")}
	for _, member := range members {
		member.hears("$share/g/t", 2)
	}
	got := make(map[string]int)
	for range 4 { // so that it would be the turn of another
		lost, will := m.mourned()
		before := m.journal.Copy()
		_ = lost.Close()
		select {
		case <-members[0].got:
		case <-members[1].got:
		}
		got[will]++
		m.kill()
		m.journal = before
		m.start()
	}
	for _, member := range members {
		member.hears("over", 1)
	}
	c.connect("a", "last", "home").says("over", "?", 1)
	for _, member := range members {
		for text := member.next(); text != "over=?@1"; text = member.next() {
			t.Errorf("%s came again", text)
		}
	}
}

// TestASessionThatMovesGetsAWillOnce moves a session that has a Will while that is
// published again.
func TestASessionThatMovesGetsAWillOnce(t *testing.T) {
	c := newCluster(t, "b", "c")
	m := newMortal(c)
	there := c.connect("b", "there", "home")
	there.hears("t", 2)
	w := wandering{c, broker.SessionID{Space: "home", Client: "wanderer"}}
	w.connect("b", true).hears("t", 2)
	lost, will := m.mourned()
	before := m.journal.Copy()
	c.deafen("a", true) // which does not learn that the session is at c too
	w.offer()
	_ = lost.Close()
	there.expect(will)
	state := w.cut()
	m.kill()
	c.deafen("a", false)
	m.journal = before
	m.start() // c hears it, for the session that is on its way
	c.connect("a", "last", "home").says("t", "end", 1)
	there.expect("t=end@1")
	w.arrive(state).expect(will, "t=end@1")
}

// TestASessionGetsAWillOnceWhereItIsKnown moves a session that has a Will to a bridge
// where somebody else has it, while that is published again.
func TestASessionGetsAWillOnceWhereItIsKnown(t *testing.T) {
	c := newCluster(t, "b", "c")
	m := newMortal(c)
	other := c.connect("c", "other", "home")
	other.hears("t", 2)
	w := wandering{c, broker.SessionID{Space: "home", Client: "wanderer"}}
	d := w.connect("b", true)
	d.hears("t", 2)
	if err := d.Disconnect(&paho.Disconnect{}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the session has no client", func() bool {
		info, _ := c.node("b").Session(w.id)
		return !info.Connected
	})
	lost, will := m.mourned()
	before := m.journal.Copy()
	_ = lost.Close()
	other.expect(will)
	eventually.Holds(t, "the session has it", func() bool {
		info, _ := c.node("b").Session(w.id)
		return info.Queued == 1
	})
	<-w.offer()
	state := w.cut()
	m.kill()
	m.journal = before
	m.start()
	c.connect("a", "last", "home").says("t", "end", 1)
	other.expect("t=end@1")
	w.arrive(state).expect(will, "t=end@1")
}

// TestAnEarlierWillComesAfterALaterOne has a client lost at a bridge that is killed, and
// lost again elsewhere before that bridge is back.
func TestAnEarlierWillComesAfterALaterOne(t *testing.T) {
	c := newCluster(t, "b")
	m := newMortal(c)
	c.journal = nil
	c.add("c")
	c.agree()
	listener := c.connect("b", "listener", "home")
	listener.hears("t", 2)
	c.bareWith("a", "mourned", "earlier", 0)
	m.kill()
	c.agree()
	_ = c.bareWith("c", "mourned", "later", 0).Close()
	listener.expect("t=later@2")
	m.start()
	listener.expect("t=earlier@2")
}

// TestASessionMovesOnWhenItsWillIsPublished has the client of a killed bridge come back
// elsewhere while the next process may not publish its Will yet.
func TestASessionMovesOnWhenItsWillIsPublished(t *testing.T) {
	c := newCluster(t, "b")
	m := newMortal(c)
	listener := c.connect("b", "listener", "home")
	listener.hears("t", 2)
	c.bareWith("a", "mourned", "dead", 3600)
	m.kill()
	c.journal = m.journal
	c.add("a")
	a, id := c.node("a"), broker.SessionID{Space: "home", Client: "mourned"}
	if _, became := a.Offer(id, (&protocol.Principal{ID: "someone", Space: "home"}).Party(), false); became != broker.Offered {
		t.Fatalf("the offer became %v", became)
	}
	if _, settled := a.Cut(id); settled {
		t.Fatal("the session is cut, and its Will is not published")
	}
	c.agree()
	listener.expect("t=dead@2")
	eventually.Holds(t, "the session can be cut", func() bool { _, settled := a.Cut(id); return settled })
	m.kill()
	m.start()
	c.connect("a", "last", "home").says("t", "end", 1)
	listener.expect("t=end@1")
}

// TestASessionOfAKilledBridgeGetsAWillOnce has a session in the same journal as the Will,
// and an adopter that gives the journal back at any moment.
func TestASessionOfAKilledBridgeGetsAWillOnce(t *testing.T) {
	for _, all := range []bool{true, false} {
		c := newCluster(t, "b")
		m := newMortal(c)
		keeper := wandering{c, broker.SessionID{Space: "home", Client: "keeper"}}
		keeper.connect("a", true).hears("t", 2)
		var want []string
		for range 6 {
			_, will := m.mourned()
			want = append(want, will)
			m.kill()
			m.adoptAt("b", all)
			m.start()
		}
		d := keeper.connect("a", false)
		c.connect("a", "last", "home").says("t", "end", 1)
		expectAll(t, append(want, "t=end@1"), d)
	}
}

// TestASessionHasAWillOnRecordThatIsOnRecordToo ends an adopter that has stored for a
// session of the journal that it has a Will, and not that all have it.
func TestASessionHasAWillOnRecordThatIsOnRecordToo(t *testing.T) {
	c := newCluster(t, "b")
	m := newMortal(c)
	keeper := wandering{c, broker.SessionID{Space: "home", Client: "keeper"}}
	keeper.connect("a", true).hears("t", 2)
	_, will := m.mourned()
	m.kill()
	var wills []broker.KeyedValue
	_ = m.journal.Load(t.Context(), func(key string, value []byte) error {
		if strings.HasPrefix(key, "w/") {
			wills = append(wills, broker.KeyedValue{Key: key, Value: slices.Clone(value)})
		}
		return nil
	}, func(uint64, []byte) error { return nil })
	m.adoptAt("b", true)
	if _, err := m.journal.Write(t.Context(), wills, nil); err != nil {
		t.Fatal(err)
	}
	m.start()
	c.connect("a", "last", "home").says("t", "end", 1)
	expectAll(t, []string{will, "t=end@1"}, keeper.connect("a", false))
}

// An heir serves what a killed bridge has left, under that bridge's name.
type heir struct {
	broker *broker.Broker
	relay  *Relay
	line   *straight
}

// TestWillsComeOnceWhoeverPublishesThem has clients with Wills at a bridge that is
// killed again and again, while others are deaf for some time, and listeners move.
func TestWillsComeOnceWhoeverPublishesThem(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { mournAtRandom(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func mournAtRandom(t *testing.T, random *rand.Rand) {
	c := newCluster(t, "b", "c")
	m := newMortal(c)
	listeners := []*device{c.connect("b", "b1", "home"), c.connect("c", "c1", "home")}
	members := []*device{c.connect("b", "b2", "home"), c.connect("c", "c2", "home")}
	for _, d := range listeners {
		d.hears("t", 2)
	}
	for _, d := range members {
		d.hears("$share/g/t", 2)
	}
	var want []string
	for range 4 {
		var lost []bare
		for range 1 + random.IntN(3) {
			client, will := m.mourned()
			lost, want = append(lost, client), append(want, will)
		}
		deaf := []string{"", "b", "c"}[random.IntN(3)]
		c.deafen(deaf, true)
		early := m.journal.Copy()
		for _, client := range lost {
			if random.IntN(3) > 0 {
				_ = client.Close()
			}
		}
		for range random.IntN(3) {
			m.journal.Copy() // what it stores meanwhile differs from run to run
		}
		m.kill()
		if random.IntN(2) == 0 {
			m.journal = early
		}
		c.deafen(deaf, false)
		if random.IntN(2) == 0 {
			m.adoptAt([]string{"b", "c"}[random.IntN(2)], random.IntN(2) == 0)
		}
		m.start()
	}
	slices.Sort(want)
	for _, d := range listeners {
		expectAll(t, want, d)
	}
	expectAll(t, want, members...)
	c.connect("a", "last", "home").says("t", "end", 1)
	for _, d := range listeners {
		d.expect("t=end@1")
	}
	for _, d := range members {
		select {
		case p := <-d.got:
			if string(p.Payload) != "end" {
				t.Errorf("a member got %s once more", p.Payload)
			}
		default:
		}
	}
}

// expectAll has devices get everything once, together and in any order.
func expectAll(t *testing.T, want []string, devices ...*device) {
	t.Helper()
	var got []string
	eventually.Holds(t, "all have come", func() bool {
		for _, d := range devices {
			select {
			case p := <-d.got:
				got = append(got, fmt.Sprintf("%s=%s@%d", p.Topic, p.Payload, p.QoS))
			default:
			}
		}
		return len(got) >= len(want)
	}, &got)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("got %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// adoptAt has another bridge serve the journal until all Wills are published, or be
// stopped before that may be.
func (m *mortal) adoptAt(at string, all bool) {
	c := m.c
	c.t.Helper()
	c.runs["a"]++
	run := c.runs["a"]
	h := &heir{line: &straight{c: c, from: "a", to: make(map[string]chan []byte)}}
	h.relay = New(Options{Self: Node{"a", run}, Key: &testKey, Transport: h.line})
	var err error
	if h.broker, err = c.node(at).Adopt("a", m.journal, h.relay, c.entrance, nil); err != nil {
		c.t.Fatal(err)
	}
	h.relay.Start(Of(h.broker))
	others := []Member{{Node: Node{"a", run}, Ready: true, Adopted: true}}
	for _, n := range c.all() {
		others = append(others, Member{Node: Node{n.id, n.epoch}, Ready: true})
	}
	c.mu.Lock()
	c.nodes["a"] = &bridgeNode{Broker: h.broker, relay: h.relay, id: "a", epoch: run, stop: func() {}}
	c.mu.Unlock()
	for _, n := range c.all() {
		n.relay.Reconcile(others)
	}
	if all {
		eventually.Holds(c.t, "no Will is on record", func() bool { return m.onRecord() == 0 })
	} else {
		m.journal = m.journal.Copy()
	}
	c.mu.Lock()
	delete(c.nodes, "a")
	c.mu.Unlock()
	h.relay.Close()
	h.line.close()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if err := h.broker.Close(ctx); err != nil {
		c.t.Errorf("close: %v", err)
	}
}
