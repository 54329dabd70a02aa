package store

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// takes has a server take messages of so many bytes, as after a change of its
// configuration, and a store learn it.
func (n *natsServer) takes(t *testing.T, s *Store, bytes int32) {
	t.Helper()
	before := map[*connection]*connectedSpan{s.state: s.state.current(), s.flow: s.flow.current()}
	err := n.ReloadOptions(&server.Options{
		Host: "127.0.0.1", Port: n.port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: n.dir, MaxPayload: bytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.flow.conn.ForceReconnect(); err != nil { // which is that of the state, too
		t.Fatal(err)
	}
	eventually.Holds(t, "the store is connected anew", func() bool {
		for c, span := range before {
			if c.current() == span || !c.current().isUp() || c.conn.MaxPayload() != int64(bytes) {
				return false
			}
		}
		return true
	})
}

// TestLogsGoOnWhenNATSTakesSmallerMessages lowers max_payload below what a record took in
// one message, and raises it again.
func TestLogsGoOnWhenNATSTakesSmallerMessages(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	s := n.member(t, "a")
	j, err := s.OpenJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loaded(t, j)
	runs, err := s.OpenRunLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	var last uint64
	for i, limit := range []int32{natsd.MaxPayload, 64 << 10, 1 << 20} {
		n.takes(t, s, limit)
		record := bytes.Repeat(fmt.Append(nil, i), 300<<10)
		want = append(want, record)
		write(t, j, string(record))
		if last, err = runs.Append(t.Context(), "r", last, record); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := readLog(t, runs, "r"); len(got) != len(want) {
		t.Errorf("%d records of the run, want %d", len(got), len(want))
	}
	var got [][]byte
	if err := j.entries.read(t.Context(), func(r record) error { got = append(got, bytes.Clone(r.body)); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, record := range want {
		found := false
		for _, body := range got {
			found = found || bytes.Contains(body, record)
		}
		if !found {
			t.Errorf("the journal lacks the record of %c", record[0])
		}
	}
}

// TestARecordOfARunIsFoundInPartsOfAnotherLength repeats an append whose beginning was
// stored when NATS took other messages.
func TestARecordOfARunIsFoundInPartsOfAnotherLength(t *testing.T) {
	s, _ := fresh(t)
	l, err := s.OpenRunLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record := []byte("in parts of four, then of ten")
	l.most = 4
	first, took, err := l.put(t.Context(), "r", 0, record, 0)
	if err != nil || took != 4 {
		t.Fatalf("%d bytes, %v", took, err)
	}
	if _, _, err := l.put(t.Context(), "r", first, record, took); err != nil {
		t.Fatal(err)
	}
	l.most = 10
	if _, err := l.Append(t.Context(), "r", 0, record); err != nil {
		t.Fatal(err)
	}
	if got, _ := readLog(t, l, "r"); len(got) != 1 || !bytes.Equal(got[0], record) {
		t.Errorf("%q", got)
	}
}

// TestARetainedMessageThatBecameTooLargeHoldsUpNoOthers lowers max_payload after a
// message was taken.
func TestARetainedMessageThatBecameTooLargeHoldsUpNoOthers(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	s := n.member(t, "a")
	l, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.takes(t, s, 64<<10)
	positions, err := l.Put(t.Context(), []broker.RetainedValue{
		{Key: "large", Value: make([]byte, 100<<10)}, {Key: "small", Value: []byte("x")},
	})
	if err != nil || positions[0] != 0 || positions[1] == 0 {
		t.Errorf("they are at %v, %v", positions, err)
	}
}

// TestARecordInDoubtIsStoredOnceWhenNATSTakesOtherMessages repeats an append whose last
// confirmation was lost together with the connection, after which NATS takes larger or
// smaller messages.
func TestARecordInDoubtIsStoredOnceWhenNATSTakesOtherMessages(t *testing.T) {
	body := "in parts of ten bytes, or of others"
	for _, most := range []int{4, 100} {
		j := journal(t, embedded(t, t.TempDir()))
		loaded(t, j)
		l := &j.entries
		write(t, j, "before")
		l.most, l.room = 10, 10
		parts := l.parts([]byte(body))
		for i := range parts {
			if err := l.publish(t.Context(), l.part([]byte(body), i)); err != nil {
				t.Fatal(err)
			}
		}
		l.last, l.doubt, l.sent = l.last-1, []byte(body), parts-1
		l.most = most
		if seq := write(t, j, body); seq != 2 {
			t.Errorf("it is at %d, want 2", seq)
		}
		write(t, j, "behind")
		if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"before", body, "behind"}) {
			t.Errorf("the log has %q", got.entries)
		}
	}
}

// TestAGroupOfTheAuditTrailIsOneMessage lowers max_payload below a group, which could not
// be found in parts, and raises it again.
func TestAGroupOfTheAuditTrailIsOneMessage(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	s := n.member(t, "a")
	a := openAudit(t, s, "a")
	group := bytes.Repeat([]byte("g"), 100<<10)
	n.takes(t, s, 64<<10)
	wantCode(t, a.Append(t.Context(), group), protocol.StoreUnavailable)
	if b, err := a.Bounds(t.Context()); err != nil || b.Last != 0 {
		t.Errorf("something is stored up to %d, %v", b.Last, err)
	}
	n.takes(t, s, 1<<20)
	if err := a.Append(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Get(t.Context(), 1); err != nil || !bytes.Equal(got, group) {
		t.Errorf("it reads as %d bytes, %v", len(got), err)
	}
}
