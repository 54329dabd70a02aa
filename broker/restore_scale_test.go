package broker

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A replay is a restorer with one session, of serial 1, and an entry that
// gathers.
type replay struct {
	*restorer
	entry []byte
}

func newReplay(b *Broker) *replay {
	s := &restoredSession{session: b.newSession("a", &protocol.Principal{ID: "user:"})}
	return &replay{restorer: &restorer{b: b, sessions: map[uint64]*restoredSession{1: s}, messages: map[uint64]*message{}}}
}

func (r *replay) message(number uint64) {
	body := appendMessage(nil, &message{topic: "x", payload: fmt.Append(nil, number), qos: 2}, 0)
	r.add(recMessage, number, uint64(len(body)))
	r.entry = append(r.entry, body...)
}

func (r *replay) owed(number uint64, id uint16) {
	r.entry = appendOwed(r.entry, 1, &pending{msg: &message{id: number}, qos: 2}, id)
}

func (r *replay) add(kind byte, numbers ...uint64) {
	r.entry = append(r.entry, kind)
	for _, n := range numbers {
		r.entry = binary.AppendUvarint(r.entry, n)
	}
}

// end has the records replayed and returns the session.
func (r *replay) end(t testing.TB) *restoredSession {
	t.Helper()
	if err := r.restorer.entry(1, r.entry); err != nil {
		t.Fatal(err)
	}
	return r.sessions[1]
}

// A log of deliveries that are long done takes no more to replay than it is
// long: what is done is neither kept nor looked at again.
func TestReplayingManyDeliveriesKeepsOnlyWhatIsOwed(t *testing.T) {
	b := brokerOn(t, new(MemoryJournal))
	r := newReplay(b)
	const deliveries, window = 300_000, 8
	for n := uint64(1); n <= deliveries; n++ {
		id := uint16(n%window + 1)
		r.message(n)
		r.owed(n, 0)
		r.owed(n, id)
		r.add(recReleased, 1, uint64(id))
		if n > 3 {
			r.add(recDone, 1, n-3)
		}
	}
	s := r.end(t)
	if s.index(); len(s.by) != 3 || len(s.sent) != 3 || len(s.owed) > 100 || cap(s.owed) > 1000 {
		t.Errorf("%d messages, %d identifiers and %d of %d places are kept for 3 that are owed", len(s.by), len(s.sent), len(s.owed), cap(s.owed))
	}
	s.finish()
	if s.window.used != 3 || s.queue.len() != 0 {
		t.Errorf("%d are in the window, %d wait", s.window.used, s.queue.len())
	}
	for n := uint64(deliveries - 2); n <= deliveries; n++ {
		slot := s.window.get(uint16(n%window + 1))
		if slot == nil || slot.msg.id != n || slot.state != awaitPubcomp {
			t.Errorf("%d is %+v", n, slot)
		}
	}
}

// A retained message that a client asks for again and again is owed as often.
func TestReplayingOneMessageOwedOften(t *testing.T) {
	b := brokerOn(t, new(MemoryJournal))
	r := newReplay(b)
	const times, sent = 50_000, 20_000
	r.message(1)
	for range times {
		r.owed(1, 0)
	}
	for id := range sent {
		r.owed(1, uint16(id+1))
	}
	s := r.end(t)
	s.finish()
	if s.window.used != sent || s.queue.len() != times-sent {
		t.Errorf("%d are in the window and %d wait, want %d and %d", s.window.used, s.queue.len(), sent, times-sent)
	}
}

// Identifiers come back in any order, whatever the window held before.
func TestAWindowIsRestoredInAnyOrder(t *testing.T) {
	var w window
	m := &message{id: 1}
	const ids = 65_535
	for i := range ids / 2 { // odd ones, downwards
		w.restore(uint16(ids-2*i), pending{msg: m}, awaitPuback)
	}
	if w.used != ids/2 {
		t.Fatalf("%d in use", w.used)
	}
	taken := map[uint16]bool{}
	for range ids - ids/2 {
		id, _ := w.add(&pending{msg: m}, awaitPuback)
		if taken[id] || id%2 == 1 && id > 1 {
			t.Fatalf("identifier %d is given twice", id)
		}
		taken[id] = true
	}
	if w.free != 0 || w.freed != 0 || w.used != ids || len(w.slots) != ids {
		t.Errorf("free %d to %d, %d of %d in use", w.free, w.freed, w.used, len(w.slots))
	}
}

// The next process reads what counts, not what was done before the stop.
func TestAStopLeavesACheckpoint(t *testing.T) {
	journal := new(MemoryJournal)
	b, err := New(Options{Authenticate: authenticate, Permissions: permissions{}, Journal: journal, SysInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := keptSession(b, "a")
	turn := newTurn(b).begin()
	b.recordSession(turn, s)
	for i := range 1000 {
		m := &message{topic: "x", payload: fmt.Append(nil, i), qos: 1}
		p := pending{msg: m, qos: 1}
		b.recordOwed(turn, s, &p, 0)
		if i < 999 {
			b.recordDone(turn, s, m)
		} else {
			s.queue.push(p)
		}
	}
	turn.end()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, e := range journal.entries {
		size += len(e.data)
	}
	if len(journal.entries) != 1 || size > 200 {
		t.Errorf("the log has %d entries with %d bytes", len(journal.entries), size)
	}
	again := brokerOn(t, journal.Copy())
	if got := again.sessions[home("a")]; got == nil || got.queue.len() != 1 || string(got.queue.peek().msg.payload) != "999" {
		t.Errorf("session is %+v", got)
	}
}
