package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// contents is what the journal has now.
func (j *MemoryJournal) contents() JournalCopy {
	c := j.Copy()
	copied := JournalCopy{Values: c.keyed}
	for _, e := range c.entries {
		copied.Entries = append(copied.Entries, e.data)
	}
	return copied
}

// merged is a journal with what was merged.
func merged(t *testing.T, readings ...[]JournalCopy) *MemoryJournal {
	t.Helper()
	all, err := MergeJournals(readings...)
	if err != nil {
		t.Fatal(err)
	}
	j := &MemoryJournal{keyed: all.Values}
	for i, e := range all.Entries {
		j.entries = append(j.entries, memoryEntry{uint64(i + 1), e})
	}
	return j
}

// TestJournalsOfAClusterAreMerged merges the journals of bridges whose sessions and messages have
// the same numbers.
func TestJournalsOfAClusterAreMerged(t *testing.T) {
	var reading []JournalCopy
	for _, bridge := range []string{"a", "b"} {
		journal := new(MemoryJournal)
		n := newNode(t, 1, func(o *Options) { o.Journal = journal })
		for _, id := range []string{"one", "two"} {
			p := n.connect(5, id+bridge, kept, func(c *packet.Connect) {
				c.HasWill, c.Will.Topic, c.Will.Payload = true, []byte("wills"), []byte("of "+id+bridge)
				c.Will.Properties.SetNumber(packet.WillDelay, 3600)
			})
			p.subscribe("t", 2)
		}
		speaker := n.connect(5, "speaker")
		for i := range 3 {
			m := text("t", fmt.Sprint(bridge, i))
			m.QoS, m.Retain = byte(i), i == 1
			speaker.publish(m)
		}
		n.settled()
		reading = append(reading, journal.contents())
	}
	all := merged(t, reading)
	for _, id := range []string{"onea", "twoa", "oneb", "twob"} {
		bridge := id[3:]
		want := []string{bridge + "1 dup=true qos=1", bridge + "2 dup=true qos=2"}
		if got := received(t, all.Copy(), id); !slices.Equal(got, want) {
			t.Errorf("%s received %q, want %q", id, got, want)
		}
	}
	n := newNode(t, 1, func(o *Options) { o.Journal = all })
	for _, id := range []string{"onea", "twob"} {
		if info, _ := n.Session(home(id)); info.Will != "wills" || len(info.Subscriptions) != 1 {
			t.Errorf("the session is %+v", info)
		}
	}
	if retained := left(all, keyRetained); len(retained) != 1 {
		t.Errorf("retained are %q", retained)
	}
}

// TestASessionThatMovesIsMergedAsItIs copies the journals of two bridges at every step of
// a move between them.
func TestASessionThatMovesIsMergedAsItIs(t *testing.T) {
	from, to := new(MemoryJournal), new(MemoryJournal)
	a := newNode(t, 1, func(o *Options) { o.Journal = from })
	b := newNode(t, 1, func(o *Options) { o.Journal = to })
	p := a.connect(5, "mover", kept)
	p.subscribe("t", 1)
	a.cut(p, "mover")
	publish := func(n *node, payload string) {
		m := text("t", payload)
		m.QoS = 1
		n.connect(5, "speaker").publish(m)
		n.settled()
	}
	publish(a, "before")
	s := a.session(home("mover"))
	s.mu.Lock()
	s.epoch = 7
	a.putTurn(func() *turn { turn := a.getTurn().begin(); a.recordSession(turn, s); return turn }())
	s.mu.Unlock()
	a.settled()
	check := func(step string, want ...string) {
		t.Helper()
		reading := []JournalCopy{from.contents(), to.contents()}
		for _, r := range [][]JournalCopy{reading, {reading[1], reading[0]}} {
			if got := received(t, merged(t, r), "mover"); !slices.Equal(got, want) {
				t.Errorf("%s: received %q, want %q", step, got, want)
			}
		}
	}
	first := []JournalCopy{from.contents(), to.contents()}
	check("before", "before dup=false qos=1")

	offer, became := a.Offer(home("mover"), s.principal.Party(), false)
	if became != Offered {
		t.Fatal(became)
	}
	if err := b.Expect(home("mover"), offer, 8, func() {}); err != nil {
		t.Fatal(err)
	}
	publish(b, "meanwhile")
	check("expected", "before dup=false qos=1", "meanwhile dup=false qos=1")

	state, _ := a.Cut(home("mover"))
	stored := make(chan struct{})
	if err := b.Take(home("mover"), state, func() { close(stored) }); err != nil {
		t.Fatal(err)
	}
	<-stored
	check("taken", "before dup=false qos=1", "meanwhile dup=false qos=1")

	b.Own(home("mover"))
	a.Drop(home("mover"))
	a.settled()
	b.settled()
	check("moved", "before dup=false qos=1", "meanwhile dup=false qos=1")

	// It came after its new bridge was copied, and was gone before its old one was.
	missed := []JournalCopy{from.contents(), first[1]}
	if got := received(t, merged(t, missed), "mover"); !slices.Equal(got, []string{"no session"}) {
		t.Errorf("of journals that lack it, received %q", got)
	}
	if got := received(t, merged(t, missed, first), "mover"); !slices.Equal(got, []string{"before dup=false qos=1"}) {
		t.Errorf("of two readings, received %q", got)
	}
}

// TestADamagedJournalIsNotMerged gives what is no journal.
func TestADamagedJournalIsNotMerged(t *testing.T) {
	for name, j := range map[string]JournalCopy{
		"entry":   {Entries: [][]byte{{255}}},
		"session": {Values: map[string][]byte{keyOfSession(home("x")): []byte("{")}},
	} {
		if _, err := MergeJournals([]JournalCopy{j}); err == nil {
			t.Errorf("a damaged %s is merged", name)
		}
	}
}
