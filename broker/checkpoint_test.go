package broker

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A message that a session is done with may be owed to another one later, as
// those of shared subscriptions are. A checkpoint in between forgets it.
func TestAMessageOwedAfterACheckpointSurvives(t *testing.T) {
	kept := new(MemoryJournal)
	b := brokerOn(t, kept)
	started := b.journal
	b.journal = newScribe(b, kept) // written by the test alone
	a, other := keptSession(b, "a"), keptSession(b, "b")
	m := &message{topic: "x", payload: []byte("body"), qos: 1}
	p := pending{msg: m, qos: 1}

	turn := newTurn(b).begin()
	b.recordSession(turn, a)
	b.recordSession(turn, other)
	b.recordOwed(turn, a, &p, 0)
	if _, _, err := b.journal.flush(turn); err != nil {
		t.Fatal(err)
	}
	b.recordDone(turn, a, m)
	if err := b.journal.checkpoint(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	b.recordOwed(turn, other, &p, 0)
	if _, _, err := b.journal.flush(turn); err != nil {
		t.Fatal(err)
	}
	b.journal = started

	again := brokerOn(t, kept.Copy())
	for id, want := range map[string]int{"a": 0, "b": 1} {
		s := again.sessions[home(id)]
		if s == nil || s.queue.len() != want {
			t.Fatalf("session %s is %+v, want %d messages", id, s, want)
		}
	}
	if got := again.sessions[home("b")].queue.peek().msg; string(got.payload) != "body" || got.topic != "x" {
		t.Errorf("message = %+v", got)
	}
}

// brokerOn is a broker without listeners.
func brokerOn(t testing.TB, j Journal) *Broker {
	t.Helper()
	b, err := New(Options{
		Authenticate: authenticate, Permissions: permissions{},
		Journal:     j,
		SysInterval: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// keptSession is a session that outlives its connection, and has none.
func keptSession(b *Broker, id string) *session {
	principal := &protocol.Principal{ID: "user:"}
	s, _ := b.sessionFor(id, principal)
	s.client = NewClient(id, principal)
	s.client.Version = 5
	s.expiry = forever
	return s
}
