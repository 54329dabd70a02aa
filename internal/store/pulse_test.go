package store

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// refuse makes a stream refuse everything, and returns what makes it take it
// again.
func refuse(t *testing.T, js jetstream.JetStream, name string) (again func()) {
	t.Helper()
	update := func(change func(*jetstream.StreamConfig)) {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		change(&config)
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	update(func(c *jetstream.StreamConfig) { c.MaxBytes = 1 })
	return func() { update(func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }) }
}

// A stream that refuses one write is not ready, and is again without anybody's
// writing to it.
func TestAStreamThatTakesNothingIsTold(t *testing.T) {
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	things := NewTable[thing](s, "thing")
	load(t, s)
	state, err := jetstream.New(n.State())
	if err != nil {
		t.Fatal(err)
	}
	flow, err := jetstream.New(n.Flow())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		js     jetstream.JetStream
		stream string
		write  func() error
	}{
		{state, s.names.registry, func() error { _, err := things.Put(t.Context(), "a", &thing{}); return err }},
		{flow, s.names.claims, func() error { return s.Claims().Claim(t.Context(), claim(1, 0)) }},
	} {
		eventually.Holds(t, "all is well", func() bool { return s.Check() == nil }, func() any { return s.Check() })
		again := refuse(t, c.js, c.stream)
		wantCode(t, c.write(), protocol.StoreUnavailable)
		eventually.Holds(t, "it is told that "+c.stream+" refuses", func() bool {
			err := s.Check()
			return protocol.CodeOf(err) == protocol.StoreUnavailable && strings.Contains(err.Error(), c.stream)
		}, func() any { return s.Check() })
		again()
		eventually.Holds(t, c.stream+" is well again", func() bool { return s.Check() == nil })
	}
}

func TestAStreamThatIsGoneIsTold(t *testing.T) {
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	if _, err := s.OpenJournal(t.Context()); err != nil {
		t.Fatal(err)
	}
	load(t, s)
	js, err := jetstream.New(n.Flow())
	if err != nil {
		t.Fatal(err)
	}
	name := newJournalNames("aibridge", "").entries
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the store notices", func() bool {
		err := s.Check()
		return err != nil && strings.Contains(err.Error(), name)
	})
}
