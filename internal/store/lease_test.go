package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// renewed is how often holders renew in tests: a write of a candidate may take a
// second and a half, and no holder that is slow counts as dead before five are over.
const renewed = 500 * time.Millisecond

// A candidate is a bridge that wants the lease, on a connection of its own.
type candidate struct {
	conn    *nats.Conn
	waiting chan string
	got     chan *Lease
	failed  chan error
}

func (n *natsServer) candidate(t *testing.T, ctx context.Context, name string) *candidate {
	t.Helper()
	conn, err := nats.Connect(n.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c := &candidate{conn: conn, waiting: make(chan string, 1), got: make(chan *Lease, 1), failed: make(chan error, 1)}
	go func() {
		l, err := AcquireLease(ctx, conn, LeaseOptions{
			Holder: name, renew: renewed, Log: testLog(t), Waiting: func(holder string) { c.waiting <- holder },
		})
		if err != nil {
			c.failed <- err
			return
		}
		t.Cleanup(func() { _ = l.Release(context.Background()) })
		c.got <- l
	}()
	return c
}

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

func none[T any](t *testing.T, c <-chan T, what string) {
	t.Helper()
	select {
	case v := <-c:
		t.Fatalf("there is %s: %v", what, v)
	default:
	}
}

func TestOneBridgeWorksAndAnotherTakesOverWhenItEnds(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a := n.candidate(t, t.Context(), "a")
	first := get(t, a.got, "lease for the first")
	b := n.candidate(t, t.Context(), "b")
	if holder := get(t, b.waiting, "wait"); holder != "a" {
		t.Errorf("b waits for %q", holder)
	}
	none(t, b.got, "a second lease")
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := get(t, b.got, "lease for the second")
	if second.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d follows %d", second.Epoch(), first.Epoch())
	}
	none(t, first.Lost(), "a verdict on who has ended")
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}

// TestWhoIsSilentLosesTheLease has the holder frozen, which then goes on.
func TestWhoIsSilentLosesTheLease(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a := n.candidate(t, t.Context(), "a")
	first := get(t, a.got, "lease for the first")
	thaw := first.freeze()
	eventually.Holds(t, "the frozen one is unsure", func() bool { return first.Check() != nil })
	b := n.candidate(t, t.Context(), "b")
	second := get(t, b.got, "lease for the second")
	thaw()
	if err := get(t, first.Lost(), "verdict"); protocol.CodeOf(err) != protocol.StoreUnavailable {
		t.Error(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	third := n.candidate(t, t.Context(), "c")
	if holder := get(t, third.waiting, "wait"); holder != "b" {
		t.Errorf("the lease of %q was given away", holder)
	}
	none(t, second.Lost(), "a verdict on who works")
}

// freeze keeps a holder from renewing, as a machine does that is suspended.
func (l *Lease) freeze() (thaw func()) {
	l.stop()
	l.done.Wait()
	return func() {
		run, stop := context.WithCancel(context.Background())
		l.stop = stop
		l.done.Go(func() { l.keep(run) })
	}
}

// TestNobodyDiesWhileNATSIsAway stops NATS for much longer than a holder may
// be silent.
func TestNobodyDiesWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a := n.candidate(t, t.Context(), "a")
	first := get(t, a.got, "lease")
	b := n.candidate(t, t.Context(), "b")
	get(t, b.waiting, "wait")
	for range 2 {
		n.stop()
		away := time.Now()
		eventually.Holds(t, "the holder is unsure", func() bool { return first.Check() != nil && time.Since(away) > 2*silentAfter*renewed })
		n = runNATS(t, n.dir, n.port)
		eventually.Holds(t, "the holder is sure again", func() bool { return first.Check() == nil })
		none(t, b.got, "a second lease")
		none(t, first.Lost(), "a verdict")
	}
}

func TestWhoWaitsForTheLeaseCanGiveUp(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a := n.candidate(t, t.Context(), "a")
	get(t, a.got, "lease")
	ctx, cancel := context.WithCancel(t.Context())
	b := n.candidate(t, ctx, "b")
	get(t, b.waiting, "wait")
	cancel()
	if err := get(t, b.failed, "end"); !errors.Is(err, context.Canceled) {
		t.Error(err)
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

// counts are how many values and entries a journal has.
type counts struct{ values, entries int }

// bridge is the journal of a process on the server.
func (n *natsServer) bridge(t *testing.T) (*Journal, func() counts) {
	t.Helper()
	conn, err := nats.Connect(n.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s, err := Open(t.Context(), Conns{State: conn, Flow: conn}, patient(Options{Fence: true, Log: testLog(t)}))
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
