package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// get waits for something that must come.
func get[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(eventually.Patience):
		t.Fatalf("in %v there was no %s", eventually.Patience, what)
		panic("unreachable")
	}
}

// TestALateWriterIsFenced has one process write on while another takes over:
// what the first was told is stored is what the second finds, and nothing that
// the first writes later counts.
func TestALateWriterIsFenced(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	old, _ := n.bridge(t)
	acked := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(acked)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := old.Write(ctx, []KeyedValue{{Key: fmt.Sprint(i), Value: []byte("v")}}, fmt.Append(nil, i)); err != nil {
				return
			}
			acked <- i
		}
	}()
	for range 20 {
		get(t, acked, "acknowledgement")
	}
	if err := old.store.Claims().Claim(t.Context(), claim(1, 10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	last := make(chan int, 1)
	go func() {
		most := 0
		for i := range acked {
			most = i
		}
		last <- most
	}()
	fresh, found := n.bridge(t)
	most := get(t, last, "end of the old one")
	if got := found(); got.entries != most+1 || got.values < most+1 {
		t.Errorf("%d were acknowledged, there are %+v", most+1, got)
	}
	for range 2 { // the second finds out why the first was refused
		if _, err := old.Write(t.Context(), nil, []byte("late")); protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("a late write: %v", err)
		}
	}
	get(t, old.store.Fenced(), "word that the old one is fenced")
	if got := testutil.ToFloat64(old.store.metrics.fenced.WithLabelValues(whyTaken)); got < 1 {
		t.Error("no refused write was counted")
	}
	if _, err := fresh.Write(t.Context(), nil, []byte("new")); err != nil {
		t.Error(err)
	}
	wantCode(t, old.store.Claims().Claim(t.Context(), claim(2, 10*time.Minute)), protocol.StoreUnavailable)
	if err := fresh.store.Claims().Claim(t.Context(), claim(3, 10*time.Minute)); err != nil {
		t.Error(err)
	}
	if got := pending(fresh.store); len(got) != 1 || got["request-1"].RequestID == "" {
		t.Errorf("pending are %v", got)
	}
}

// counts are the numbers of values and entries of a journal.
type counts struct{ values, entries int }

// bridge is the journal of a process on the server.
func (n *natsServer) bridge(t *testing.T) (*Journal, func() counts) {
	t.Helper()
	return n.bridgeOf(t, "")
}

// bridgeOf is bridge of one that has a journal of its own.
func (n *natsServer) bridgeOf(t *testing.T, node string) (*Journal, func() counts) {
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
	j, err := s.OpenJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found counts
	err = j.Load(t.Context(), func(string, []byte) error { found.values++; return nil }, func(uint64, []byte) error { found.entries++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return j, func() counts { return found }
}

// TestARefusalAloneEndsNoBridge has NATS refuse claims while nobody else has begun,
// as it may while its servers choose a leader.
func TestARefusalAloneEndsNoBridge(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	old, _ := n.bridge(t)
	claims := old.store.Claims()
	if err := claims.Claim(t.Context(), claim(1, 10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := claims.refused(t.Context()); protocol.CodeOf(err) != protocol.StoreUnavailable {
		t.Errorf("a refused record: %v", err)
	}
	select {
	case err := <-old.store.Fenced():
		t.Fatalf("the bridge ends: %v", err)
	default:
	}
	if err := claims.Claim(t.Context(), claim(2, 10*time.Minute)); err != nil {
		t.Errorf("the next claim: %v", err)
	}
	n.bridge(t)
	if err := claims.refused(t.Context()); protocol.CodeOf(err) != protocol.StoreUnavailable {
		t.Errorf("a record refused after another bridge began: %v", err)
	}
	get(t, old.store.Fenced(), "word that the old one is fenced")
}
