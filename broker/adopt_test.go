package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// adopts has a broker adopt a journal, until the end of the test.
func (n *node) adopts(t *testing.T, j Journal) *Broker {
	t.Helper()
	a, err := n.Adopt("other", j, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

// left are the keys of a kind in a journal.
func left(j *MemoryJournal, kind string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(j.Copy().keyed)), func(key string) bool { return !strings.HasPrefix(key, kind) })
}

// TestAnAdoptedSessionGetsWhatComesForIt kills a broker whose session waits, has
// others serve it in turn, each killed as well, and gives it back.
func TestAnAdoptedSessionGetsWhatComesForIt(t *testing.T) {
	journal := new(MemoryJournal)
	on := func(o *Options) { o.Journal = journal }
	first := startNode(t, 1, on)
	p := first.connect(5, "sleeper", kept)
	p.subscribe("t", 2)
	speaker := first.connect(5, "speaker")
	for i := range 3 {
		m := text("t", fmt.Sprint("in flight ", i))
		m.QoS = byte(i % 3)
		speaker.publish(m)
		p.receive()
	}
	first.cut(p, "sleeper")
	m := text("t", "queued")
	m.QoS = 1
	speaker.publish(m)
	first.stop()

	n := newNode(t, 1)
	for run := range 3 {
		journal = journal.Copy() // whoever had it is killed
		a := n.adopts(t, journal)
		if info, found := n.Session(home("sleeper")); !found || info.Inflight != 2 || info.Queued != 1+run {
			t.Fatalf("adopted for the %d. time it is %+v, %v", run+1, info, found)
		}
		if all := n.Sessions(); len(all) != 1 || a.Count() != 1 || a.Vacant() {
			t.Fatalf("the sessions are %+v", all)
		}
		arrival := a.Arrive("peer", 7)
		became, _, err := arrival.Deliver(encoded(n.Broker, message{topic: "t", qos: 2, payload: fmt.Append(nil, "adopted ", run), to: everybody(protocol.DefaultSpace)}), nil, false)
		if err != nil || became != Taken {
			t.Fatal(became, err)
		}
		stored := make(chan struct{})
		if !arrival.End(uint64(run+1), func() { close(stored) }) {
			<-stored
		}
		if got := a.Marked("peer", 7); got != uint64(run+1) {
			t.Fatalf("the mark is %d", got)
		}
		a.leaveFamily() // as if its process ended
	}

	journal = journal.Copy()
	back := newNode(t, 1, on)
	p = back.connect(5, "sleeper", kept)
	var got []string
	for range 6 {
		m := p.receive()
		got = append(got, string(m.Payload))
		p.acknowledge(m)
	}
	want := []string{"in flight 1", "in flight 2", "queued", "adopted 0", "adopted 1", "adopted 2"}
	if !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
	p.quiet()
}

// TestAnAdoptedSessionThatMovesTakesNothingForItsGroup has a session of a dead
// bridge move on while somebody publishes to its group.
func TestAnAdoptedSessionThatMovesTakesNothingForItsGroup(t *testing.T) {
	journal := new(MemoryJournal)
	first := startNode(t, 1, func(o *Options) { o.Journal = journal })
	p := first.connect(5, "sleeper", kept)
	p.subscribe("$share/g/t", 2)
	first.cut(p, "sleeper")
	first.stop()

	n := newNode(t, 1)
	other := n.connect(5, "other")
	other.subscribe("$share/g/t", 2)
	a := n.adopts(t, journal.Copy())
	member := a.session(home("sleeper"))
	if _, became := a.Offer(home("sleeper"), member.principal.Party(), false); became != Offered {
		t.Fatalf("the offer became %v", became)
	}
	if _, settled := a.Cut(home("sleeper")); !settled {
		t.Fatal("it cannot be cut")
	}
	turn := newTurn(a).begin()
	turn.use(&message{topic: "t", qos: 2, payload: []byte("late"), to: everybody(protocol.DefaultSpace)})
	if best, _ := turn.deliver(turn.routeOf("t")); best != missed {
		t.Fatalf("the message is %v", best)
	}
	turn.end()
	if m := other.receive(); string(m.Payload) != "late" {
		t.Errorf("received %q", m.Payload)
	}
}

// TestTheWillsOfAdoptedSessionsArePublishedOnce kills a broker with clients that
// left Wills, of kept sessions and others, and has its journal adopted twice.
func TestTheWillsOfAdoptedSessionsArePublishedOnce(t *testing.T) {
	journal, own := new(MemoryJournal), new(MemoryJournal)
	first := startNode(t, 1, func(o *Options) { o.Journal = journal })
	will := func(c *packet.Connect) {
		c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS = true, []byte("wills"), []byte("of "+string(c.ClientID)), 1
	}
	delayed := func(c *packet.Connect) {
		kept(c)
		will(c)
		c.Will.Properties.SetNumber(packet.WillDelay, 3600)
	}
	first.connect(5, "clean", will)
	first.connect(5, "kept", kept, will)
	first.connect(5, "delayed", delayed)
	eventually.Holds(t, "the journal has all", func() bool { return len(left(journal, keyWill)) == 1 && len(left(journal, keySession)) == 2 })
	journal = journal.Copy()
	first.stop()

	n := newNode(t, 1, func(o *Options) { o.Journal = own })
	listener := n.connect(5, "listener")
	listener.subscribe("wills", 1)
	a := n.adopts(t, journal)
	var got []string
	for range 2 {
		m := listener.receive()
		got = append(got, string(m.Payload))
		listener.acknowledge(m)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"of clean", "of kept"}) {
		t.Errorf("published %q", got)
	}
	eventually.Holds(t, "the journal has no Will of a clean session", func() bool { return len(left(journal, keyWill)) == 0 })
	eventually.Holds(t, "one Will is left", func() bool {
		wills := 0
		for _, value := range journal.Copy().keyed {
			var v storedSession
			if json.Unmarshal(value, &v) == nil && v.Will != nil {
				wills++
			}
		}
		return wills == 1
	})
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = n.adopts(t, journal.Copy())
	listener.quiet()
	if !n.Kick(home("kept"), true) || !n.Kick(home("delayed"), true) || n.Kick(home("clean"), true) {
		t.Error("the wrong sessions are there")
	}
	if m := listener.receive(); string(m.Payload) != "of delayed" { // its delay ends with the session
		t.Errorf("published %q", m.Payload)
	}
	eventually.Holds(t, "nobody is left", a.Vacant)
}

// A slowLog has what clients of all bridges retain. What is put into it waits.
type slowLog struct {
	put  chan []RetainedValue
	done chan struct{}
}

func (l *slowLog) Put(_ context.Context, values []RetainedValue) ([]uint64, error) {
	l.put <- values
	<-l.done
	return make([]uint64, len(values)), nil
}

func (l *slowLog) Largest() int { return 1 << 20 }

func (l *slowLog) Follow(ctx context.Context, current func(), _ func(uint64, RetainedValue)) {
	current()
	<-ctx.Done()
}

// TestWhatClientsRetainedOfAnAdoptedBrokerIsShared adopts the journal of a broker
// that worked alone.
func TestWhatClientsRetainedOfAnAdoptedBrokerIsShared(t *testing.T) {
	journal := new(MemoryJournal)
	first := startNode(t, 1, func(o *Options) { o.Journal = journal })
	p := first.connect(5, "speaker")
	for _, m := range []publish{text("state/door", "open"), text("state/brief", "for an hour")} {
		m.QoS, m.Retain = 1, true
		if string(m.Topic) == "state/brief" {
			m.Properties.SetNumber(packet.MessageExpiry, 3600)
		}
		p.publish(m)
	}
	if _, err := first.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "card", Payload: []byte("the bridge's own"), Retain: true}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "all is stored", func() bool { return len(left(journal, keyRetained)) == 3 })
	journal = journal.Copy()
	first.stop()

	log := &slowLog{put: make(chan []RetainedValue), done: make(chan struct{})}
	n := newNode(t, 1, func(o *Options) { o.Retained = log })
	a := n.adopts(t, journal)
	values := <-log.put
	if len(values) != 2 || !values[0].Earlier || !values[1].Earlier || values[0].Life+values[1].Life <= 0 {
		t.Errorf("shared is %+v", values)
	}
	if a.Vacant() {
		t.Error("the journal is vacant, and what was retained is not shared")
	}
	close(log.done)
	eventually.Holds(t, "it is vacant", a.Vacant)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := left(journal, keyRetained); len(keys) != 1 || !strings.HasSuffix(keys[0], "card") {
		t.Errorf("the journal still has %q", keys)
	}
}
