package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// member is the store of a bridge that has a journal of its own.
func (n *natsServer) member(t *testing.T, node string) *Store {
	t.Helper()
	conn, err := nats.Connect(n.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s, err := Open(t.Context(), Conns{State: conn, Flow: conn}, patient(Options{Fence: true, Node: node, Log: testLog(t)}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	load(t, s)
	return s
}

// of is the journal of another bridge, yet to be loaded.
func (s *Store) of(t *testing.T, node string) *Journal {
	t.Helper()
	j, err := s.OpenJournalOf(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// unfenced fails if the store was told that it works in another's place.
func (s *Store) unfenced(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.Fenced():
		t.Errorf("the store is to end: %v", err)
	default:
	}
}

// TestAJournalIsTakenFromABridgeThatStillWrites has a bridge write while another
// takes its journal.
func TestAJournalIsTakenFromABridgeThatStillWrites(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	first, _ := n.bridgeOf(t, "a")
	acked := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(acked)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := first.Write(ctx, []KeyedValue{set(fmt.Sprint(i), "v")}, fmt.Append(nil, i)); err != nil {
				return
			}
			acked <- i
		}
	}()
	for range 20 {
		get(t, acked, "acknowledgement")
	}
	last := make(chan int, 1)
	go func() {
		most := 0
		for i := range acked {
			most = i
		}
		last <- most
	}()
	adopter := n.member(t, "b")
	j := adopter.of(t, "a")
	found := loaded(t, j)
	most := get(t, last, "end of the first writer")
	if len(found.entries) < most+1 || len(found.values) < most+1 {
		t.Errorf("%d were acknowledged, there are %d entries and %d values", most+1, len(found.entries), len(found.values))
	}
	write(t, j, "by the adopter", set("more", "v"))
	for range 2 {
		if _, err := first.Write(t.Context(), nil, []byte("late")); protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("a late write: %v", err)
		}
	}
	get(t, first.store.Fenced(), "word that the first one is fenced")
	adopter.unfenced(t)
}

// TestANextAdopterGoesOnWhereOneWasKilled kills adopters at every record that
// they read, and once after they wrote.
func TestANextAdopterGoesOnWhereOneWasKilled(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	first, _ := n.bridgeOf(t, "a")
	const records = 6
	for i := range records {
		write(t, first, fmt.Sprint("entry ", i), set(fmt.Sprint(i), "v"))
	}
	killed := errors.New("killed")
	s := n.member(t, "b")
	for at := range 2 * records {
		left := at
		step := func() error {
			if left--; left < 0 {
				return killed
			}
			return nil
		}
		err := s.of(t, "a").Load(t.Context(), func(string, []byte) error { return step() }, func(uint64, []byte) error { return step() })
		if !errors.Is(err, killed) {
			t.Fatalf("killed at %d: %v", at, err)
		}
	}
	second, third := s.of(t, "a"), n.member(t, "c").of(t, "a")
	loaded(t, second)
	write(t, second, "by the second", unset("0"))
	found := loaded(t, third)
	if _, there := found.values["0"]; there || len(found.values) != records-1 || len(found.entries) != records+1 || !slices.Contains(found.entries, "by the second") {
		t.Errorf("the third found %+v", found)
	}
	for range 2 { // the second finds out why the first was refused
		if _, err := second.Write(t.Context(), nil, []byte("late")); protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("a late write: %v", err)
		}
	}
	s.unfenced(t)
}

// TestAJournalIsGivenBack has an adopter end in order, and the bridge itself go on.
func TestAJournalIsGivenBack(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	first, _ := n.bridgeOf(t, "a")
	write(t, first, "one", set("k", "v"))
	s := n.member(t, "b")
	j := s.of(t, "a")
	loaded(t, j)
	write(t, j, "two")
	j.Close()
	j.Close() // twice is once
	if _, err := j.Write(t.Context(), nil, []byte("late")); err == nil {
		t.Error("a journal was written that is closed")
	}
	again, found := n.bridgeOf(t, "a")
	if got := found(); got != (counts{values: 1, entries: 2}) {
		t.Errorf("the bridge found %+v", got)
	}
	write(t, again, "three")
	again.store.unfenced(t)
	loaded(t, j) // and takes it once more
	write(t, j, "four")
	j.Close()
}

// TestABridgeLoadsItsJournalWhileTheAdopterTrimsIt has a bridge return while another one
// serves its journal. What that one trims is no loss; what is lost is told from it.
func TestABridgeLoadsItsJournalWhileTheAdopterTrimsIt(t *testing.T) {
	const entries, size = 12, 900 << 10 // each one message, and together more than NATS sends ahead
	for name, c := range map[string]struct {
		behind uint64 // how much less the adopter means to trim than goes
		want   string
	}{
		"trimmed":      {0, ""},
		"and one lost": {1, "1 messages are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
			first, _ := n.bridgeOf(t, "a")
			first.store.Close()
			adopter := n.member(t, "b").of(t, "a")
			loaded(t, adopter)
			for range entries {
				write(t, adopter, strings.Repeat("x", size))
			}
			last := adopter.entries.last
			if err := adopter.extent.keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			own, err := n.member(t, "a").OpenJournal(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			err = own.Load(t.Context(), func(string, []byte) error { return nil }, func(uint64, []byte) error {
				if read++; read > 1 {
					return nil
				}
				if err := adopter.Trim(t.Context(), last-c.behind); err != nil {
					return err
				}
				return purge(t.Context(), adopter.entries.nc, adopter.entries.stream, jetstream.WithPurgeSequence(last))
			})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Load = %v, want %q", err, c.want)
			}
			if read == entries {
				t.Error("everything had come before it was trimmed")
			}
		})
	}
}
