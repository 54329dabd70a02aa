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

// A mourning has Wills of clients of bridge a, each of which goes to one member of a group
// at b and c.
type mourning struct {
	*mortal
	members []*device
	clients []bare
	texts   []string
}

func newMourning(t *testing.T) *mourning {
	c := newCluster(t, "b", "c")
	m := &mourning{mortal: newMortal(c), members: []*device{c.connect("b", "m1", "home"), c.connect("c", "m2", "home")}}
	for _, d := range m.members {
		d.hears("$share/g/t", 2)
		d.hears("over", 1)
	}
	for range 4 { // so that both have their turn
		client, _ := m.mourned()
		m.clients, m.texts = append(m.clients, client), append(m.texts, fmt.Sprint("mourned-", m.mortal.clients))
	}
	return m
}

// expectOnce has the group get each Will once.
func (m *mourning) expectOnce() {
	m.c.t.Helper()
	got := make(map[string]int)
	for i, d := range m.members {
		m.c.connect([]string{"b", "c"}[i], fmt.Sprint("last", i), "home").says("over", fmt.Sprint(i), 1)
		for text := d.next(); text != fmt.Sprintf("over=%d@1", i); text = d.next() {
			got[text]++
		}
	}
	for _, text := range m.texts {
		if n := got["t="+text+"@2"]; n != 1 {
			m.c.t.Errorf("%s came %d times: %v", text, n, got)
		}
	}
}

// TestAGroupGetsAWillOnceThatTwoPublish has a bridge come back, publish its Wills and ask
// who has them, while its adopter still waits for the same answers.
func TestAGroupGetsAWillOnceThatTwoPublish(t *testing.T) {
	m := newMourning(t)
	c := m.c
	m.kill()
	first := c.detain("b", "c")
	h := m.bequeath("b")
	h.isKnownTo(c.all()...)
	m.journal = m.journal.Copy()
	h.end()
	first.await(m.texts...)
	c.journal = m.journal
	c.add("a")
	c.meet()
	second, answers := c.detain("a", "c"), c.detain("c", "a")
	c.node("a").PublishWills()
	second.await(m.texts...)
	second.release() // c has them for nobody, and bridge a does not hear that yet
	first.release()
	eventually.Holds(t, "the adopter has published them", h.broker.Vacant)
	answers.release()
	eventually.Holds(t, "bridge a has published them", func() bool { return m.onRecord() == 0 })
	m.expectOnce()
}

// TestAGroupGetsAWillOnceThatADeadBridgeHadSent has Wills of a bridge that is killed arrive
// when its adopter has asked who has them, and has given them to others.
func TestAGroupGetsAWillOnceThatADeadBridgeHadSent(t *testing.T) {
	m := newMourning(t)
	c := m.c
	late := c.detain("a", "c")
	for _, client := range m.clients {
		_ = client.Close()
	}
	got := []string{m.members[0].next(), m.members[0].next()}
	for _, text := range got { // of two it is the turn of c
		m.texts = slices.DeleteFunc(m.texts, func(other string) bool { return text == "t="+other+"@2" })
	}
	late.await(m.texts...)
	m.kill()
	h := m.bequeath("b")
	h.isKnownTo(c.node("b")) // so c takes it that the process is there which is dead
	eventually.Holds(t, "the adopter has published them", h.broker.Vacant)
	late.release()
	m.expectOnce()
	h.end()
}

// An heir serves what a killed bridge has left, under that bridge's name.
type heir struct {
	m      *mortal
	run    uint64
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
	m.c.t.Helper()
	h := m.bequeath(at)
	h.isKnownTo(m.c.all()...)
	if all {
		eventually.Holds(m.c.t, "no Will is on record", func() bool { return m.onRecord() == 0 })
	} else {
		m.journal = m.journal.Copy()
	}
	h.end()
}

// bequeath has another bridge serve the journal. Nobody knows of it.
func (m *mortal) bequeath(at string) *heir {
	c := m.c
	c.t.Helper()
	c.runs["a"]++
	h := &heir{m: m, run: c.runs["a"], line: &straight{c: c, from: "a", to: make(map[string]chan []byte)}}
	h.relay = New(Options{Self: Node{"a", h.run}, Key: &testKey, Transport: h.line})
	var err error
	if h.broker, err = c.node(at).Adopt("a", m.journal, h.relay, c.entrance, nil); err != nil {
		c.t.Fatal(err)
	}
	h.relay.Start(Of(h.broker))
	return h
}

// isKnownTo tells the heir of all bridges, and some of them of the heir.
func (h *heir) isKnownTo(some ...*bridgeNode) {
	c := h.m.c
	members := []Member{{Node: Node{"a", h.run}, Ready: true, Adopted: true}}
	for _, n := range c.all() {
		members = append(members, Member{Node: Node{n.id, n.epoch}, Ready: true})
	}
	self := &bridgeNode{Broker: h.broker, relay: h.relay, id: "a", epoch: h.run, stop: func() {}}
	c.mu.Lock()
	c.nodes["a"] = self
	c.mu.Unlock()
	for _, n := range append(some, self) {
		n.relay.Reconcile(members)
	}
}

// end gives the journal back.
func (h *heir) end() {
	c := h.m.c
	c.t.Helper()
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
