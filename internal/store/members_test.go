package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
)

// members opens the stream of the members on a connection of its own.
func (n *natsServer) members(t *testing.T) *Members {
	t.Helper()
	conn, err := nats.Connect(n.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return openMembers(t, conn, 1)
}

func openMembers(t *testing.T, conn *nats.Conn, replicas int) *Members {
	t.Helper()
	m, err := OpenMembers(t.Context(), conn, "aibridge", replicas, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestRecordsOfMembersAreWrittenOneAfterTheOther(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	m := n.members(t)
	if _, revision, err := m.Read(t.Context(), "a.b c"); err != nil || revision != 0 {
		t.Fatalf("nothing has revision %d, %v", revision, err)
	}
	first, err := m.Write(t.Context(), "a.b c", []byte("1"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(t.Context(), "a.b c", []byte("x"), 0, 0); !errors.Is(err, cluster.ErrTaken) {
		t.Errorf("over what is there: %v", err)
	}
	proof, err := m.Prove(t.Context(), "i")
	if err != nil || proof <= first {
		t.Errorf("the proof has revision %d after %d, %v", proof, first, err)
	}
	second, err := m.Write(t.Context(), "a.b c", []byte("2"), first, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if data, revision, err := m.Read(t.Context(), "a.b c"); err != nil || revision != second || string(data) != "2" {
		t.Errorf("there is %q at %d, %v", data, revision, err)
	}
	heard := make(chan string, 16)
	ctx, cancel := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() {
		following <- m.Follow(ctx, func() { heard <- "current" }, func(id string, revision uint64, data []byte) {
			heard <- fmt.Sprint(id, " ", revision, " ", string(data))
		})
	}()
	for _, want := range []string{fmt.Sprint(" ", proof, " "), fmt.Sprint("a.b c ", second, " 2"), "current"} {
		if got := get(t, heard, want); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	third, err := m.Write(t.Context(), "d", []byte("3"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, heard, "another"), fmt.Sprint("d ", third, " 3"); got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
	cancel()
	if err := get(t, following, "end"); err == nil {
		t.Error("following ends without a reason")
	}
}

// TestMembersOutliveTheServerOfTheirRecords stops NATS for longer than anybody
// may be silent.
func TestMembersOutliveTheServerOfTheirRecords(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	var all []*cluster.Membership
	for _, id := range []string{"a", "b"} {
		m, err := cluster.Join(t.Context(), n.members(t), cluster.Options{ID: id, Working: cluster.All, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Leave(context.Background()) })
		all = append(all, m)
	}
	both := func() bool {
		for _, m := range all {
			if len(m.Members()) != 2 || m.Check() != nil {
				return false
			}
		}
		return true
	}
	eventually.Holds(t, "both know both", both)
	n.stop()
	away := time.Now()
	eventually.Holds(t, "both are unsure", func() bool {
		return all[0].Check() != nil && all[1].Check() != nil && time.Since(away) > cluster.SilentAfter+time.Second
	})
	runNATS(t, n.dir, n.port)
	eventually.Holds(t, "both are sure again", both)
	for _, m := range all {
		none(t, m.Lost(), "a verdict")
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

// TestMembersOfAClusterOutliveItsLeader stops the server that leads the records,
// five times over. It runs when it is asked for, see
// TestWhatAClusterAcknowledgedIsThereWhenItsLeaderIsLost.
func TestMembersOfAClusterOutliveItsLeader(t *testing.T) {
	if os.Getenv("AIBRIDGE_CLUSTER") == "" {
		t.Skip("AIBRIDGE_CLUSTER is not set")
	}
	servers := threeServers(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	var all []*cluster.Membership
	for _, id := range []string{"a", "b", "c"} {
		c, err := natsd.Connect(natsd.ExternalOptions{URL: strings.Join(urls, ","), Name: id, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		m, err := cluster.Join(t.Context(), openMembers(t, c.State(), 3), cluster.Options{ID: id, Working: cluster.All, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Leave(context.Background()) })
		all = append(all, m)
	}
	everybody := func() bool {
		for _, m := range all {
			if len(m.Members()) != len(all) || m.Check() != nil {
				return false
			}
		}
		return true
	}
	eventually.Holds(t, "all know all", everybody)
	for i, s := range servers {
		if s.JetStreamIsStreamLeader("$G", "aibridge-cluster") {
			began := time.Now()
			servers[i].Shutdown()
			eventually.Holds(t, "somebody is unsure, or another leads already", func() bool {
				return !everybody() || time.Since(began) > cluster.UnsureAfter
			})
			eventually.Holds(t, "all are sure again", everybody)
			t.Logf("sure again after %v", time.Since(began))
			break
		}
	}
	for _, m := range all {
		none(t, m.Lost(), "a verdict")
	}
}

// TestEachNodeHasAJournalAndClaimsOfItsOwn has two bridges write at once.
func TestEachNodeHasAJournalAndClaimsOfItsOwn(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a, _ := n.bridgeOf(t, "a")
	b, _ := n.bridgeOf(t, "b.c") // whose id is no name of NATS's
	for i := range 3 {
		for _, j := range []*Journal{a, b} {
			if _, err := j.Write(t.Context(), []KeyedValue{{Key: "k", Value: fmt.Append(nil, i)}}, []byte("entry")); err != nil {
				t.Fatal(err)
			}
			if err := j.store.Claims().Claim(t.Context(), claim(i, 10*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, found := n.bridgeOf(t, "a")
	if got := found(); got.entries != 3 || got.values != 1 {
		t.Errorf("the next run of a finds %+v", got)
	}
	if len(pending(again.store)) == 0 {
		t.Error("it knows no claims")
	}
	if _, err := b.Write(t.Context(), nil, []byte("entry")); err != nil {
		t.Errorf("the other bridge: %v", err)
	}
	if err := b.store.Claims().Claim(t.Context(), claim(9, 10*time.Minute)); err != nil {
		t.Errorf("the other bridge: %v", err)
	}
	if err := a.store.Claims().Claim(t.Context(), claim(9, 10*time.Minute)); err == nil {
		t.Error("the earlier run of a claims something")
	}
}

// TestNothingDurableIsWrittenByWhoIsUnsure has a bridge that may have been
// declared dead.
func TestNothingDurableIsWrittenByWhoIsUnsure(t *testing.T) {
	t.Parallel()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	j, _ := n.bridgeOf(t, "a")
	doubt := errors.New("unsure")
	j.store.options.Sure = func(context.Context) error { return doubt }
	if _, err := j.Write(t.Context(), nil, []byte("entry")); !errors.Is(err, doubt) {
		t.Errorf("the journal: %v", err)
	}
	if err := j.store.Claims().Claim(t.Context(), claim(1, 10*time.Minute)); !errors.Is(err, doubt) {
		t.Errorf("a claim: %v", err)
	}
	if _, err := j.store.probes.Put(t.Context(), "x", &probe{}); !errors.Is(err, doubt) {
		t.Errorf("a record: %v", err)
	}
	if got := testutil.ToFloat64(j.store.metrics.fenced.WithLabelValues(whyUnsure)); got != 3 {
		t.Errorf("%v writes were counted", got)
	}
}
