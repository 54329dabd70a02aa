package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// sharing opens stores on one NATS whose claims are shared, by process.
func sharing(t testing.TB, url string, replicas int, alive func(string) bool, owners ...string) map[string]*SharedClaims {
	t.Helper()
	all := make(map[string]*SharedClaims)
	for _, owner := range owners {
		node, _, _ := strings.Cut(owner, "/")
		conns, err := natsd.Connect(natsd.ExternalOptions{URL: url, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conns.Close)
		options := Options{Node: node, Replicas: replicas, Fence: true}
		if replicas > 1 { // a server is lost
			options.WriteTimeout = time.Second
		}
		s := open(t, conns, options)
		all[owner] = s.ShareClaims(owner, alive)
		load(t, s)
	}
	return all
}

func everybodyLives(string) bool { return true }

// tries claims a request and says what became of that: "" for the first.
func tries(c *SharedClaims, claim commands.Claim) string {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	err := c.Claim(ctx, claim)
	if taken := (*commands.Taken)(nil); errors.As(err, &taken) {
		return string(taken.Answer)
	}
	if err != nil {
		return string(protocol.CodeOf(err))
	}
	return ""
}

func TestOfClaimsOfSeveralProcessesTheFirstCounts(t *testing.T) {
	t.Parallel()
	var dead sync.Map
	alive := func(owner string) bool { _, is := dead.Load(owner); return !is }
	all := sharing(t, runNATS(t, t.TempDir(), server.RANDOM_PORT).ClientURL(), 1, alive, "a/1", "b/1")
	a, b := all["a/1"], all["b/1"]
	one, two, three := claim(1, 10*time.Minute), claim(2, 10*time.Minute), claim(3, 10*time.Minute)

	if got := tries(a, one); got != "" {
		t.Fatalf("the first is told %q", got)
	}
	waits := make(chan string, 1)
	go func() { waits <- tries(b, one) }()
	a.Settle(one, []byte(`{"result":1}`))
	if got := <-waits; got != `{"result":1}` {
		t.Errorf("who waits is told %q", got)
	}
	for name, c := range all {
		if got := tries(c, one); got != `{"result":1}` {
			t.Errorf("%s is told %q", name, got)
		}
	}
	changed := one
	changed.Hash[0]++
	if got := tries(b, changed); got != string(protocol.IDReused) {
		t.Errorf("of another request b is told %q", got)
	}

	if got := tries(a, two); got != "" {
		t.Fatalf("the first is told %q", got)
	}
	go func() { waits <- tries(b, two) }()
	a.Settle(two, nil)
	if got := <-waits; got != "" {
		t.Errorf("of what was given up b is told %q", got)
	}
	b.Settle(two, make([]byte, mostAnswer+1))
	if got := tries(a, two); got != string(protocol.OutcomeUnknown) {
		t.Errorf("of an answer that is too large a is told %q", got)
	}

	if got := tries(a, three); got != "" {
		t.Fatalf("the first is told %q", got)
	}
	go func() { waits <- tries(b, three) }()
	dead.Store("a/1", true)
	if got := <-waits; got != string(protocol.OutcomeUnknown) {
		t.Errorf("of what a dead process left b is told %q", got)
	}
	late := sharing(t, b.store.flow.conn.ConnectedUrl(), 1, alive, "c/1")["c/1"]
	for want, claim := range map[string]commands.Claim{`{"result":1}`: one, string(protocol.OutcomeUnknown): three} {
		if got := tries(late, claim); got != want {
			t.Errorf("a process that comes later is told %q, not %q", got, want)
		}
	}
}

// TestAnswersGoWithTheNextClaimOrSoon settles many requests while nothing is claimed:
// their answers are not a record each.
func TestAnswersGoWithTheNextClaimOrSoon(t *testing.T) {
	t.Parallel()
	nats := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	a := sharing(t, nats.ClientURL(), 1, everybodyLives, "a/1")["a/1"]
	const most = 100
	for i := range most {
		if got := tries(a, claim(i, 10*time.Minute)); got != "" {
			t.Fatalf("claim %d is told %q", i, got)
		}
	}
	records := func() uint64 {
		info, err := inspect(t.Context(), a.store.flow, a.store.names.claims)
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq
	}
	before := records()
	for i := range most {
		a.Settle(claim(i, 10*time.Minute), []byte(`{}`))
	}
	if got := tries(a, claim(most, 10*time.Minute)); got != "" {
		t.Fatalf("the claim behind the answers is told %q", got)
	}
	if after := records(); after-before > most/10 {
		t.Errorf("%d answers and a claim were %d records", most, after-before)
	}
	a.Settle(claim(most, 10*time.Minute), []byte(`{}`))
	eventually.Holds(t, "an answer that no claim takes along is stored", func() bool {
		request, _ := a.look(takenKey{claim(most, 0).Principal, claim(most, 0).RequestID})
		a.mu.Lock()
		defer a.mu.Unlock()
		return request != nil && request.ended
	})
}

// TestWhatBecameOfTheLastRequestIsStoredAtTheEnd closes a store right behind an answer.
func TestWhatBecameOfTheLastRequestIsStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	alive := func(owner string) bool { return owner != "a/1" || !dead.Load() }
	all := sharing(t, runNATS(t, t.TempDir(), server.RANDOM_PORT).ClientURL(), 1, alive, "a/1", "b/1")
	a, b := all["a/1"], all["b/1"]
	last := claim(1, 10*time.Minute)
	if got := tries(a, last); got != "" {
		t.Fatalf("the first is told %q", got)
	}
	a.Settle(last, []byte(`{"result":1}`))
	a.store.Close()
	dead.Store(true)
	if got := tries(b, last); got != `{"result":1}` {
		t.Errorf("who repeats it elsewhere is told %q", got)
	}
}

func TestAnAnswerThatCouldNotBeStoredIsStoredLater(t *testing.T) {
	t.Parallel()
	nats := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	all := sharing(t, nats.ClientURL(), 1, everybodyLives, "a/1", "b/1")
	a, b := all["a/1"], all["b/1"]
	ran, refused := claim(1, 10*time.Minute), claim(2, 10*time.Minute)
	for _, request := range []commands.Claim{ran, refused} {
		if got := tries(a, request); got != "" {
			t.Fatalf("the first is told %q", got)
		}
	}
	js := nats.jetstream(t)
	resize(t, js, 1) // nothing has room
	a.Settle(ran, []byte(`{"result":1}`))
	a.Settle(refused, nil)
	if got := tries(a, claim(3, 10*time.Minute)); got != string(protocol.StoreUnavailable) {
		t.Fatalf("while nothing can be stored a claim is told %q", got)
	}
	resize(t, js, -1)
	if got := tries(b, ran); got != `{"result":1}` {
		t.Errorf("of what ran b is told %q", got)
	}
	if got := tries(b, refused); got != "" {
		t.Errorf("of what was given up b is told %q", got)
	}
}

// resize bounds the records of claims, in bytes.
func resize(t *testing.T, js jetstream.JetStream, most int32) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "aibridge-claims")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgSize = most
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// insists claims a request, again as long as NATS cannot say whether that is done.
func insists(c *SharedClaims, request commands.Claim) (err error) {
	for end := time.Now().Add(eventually.Patience); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		err = c.Claim(ctx, request)
		cancel()
		if protocol.CodeOf(err) != protocol.StoreUnavailable {
			return err
		}
	}
	return err
}

// race has processes claim the same requests at the same time, and returns how many
// took each.
func race(claims []*SharedClaims, requests, callers int) (winners []atomic.Int32, err error) {
	winners = make([]atomic.Int32, requests)
	var wait sync.WaitGroup
	var failed atomic.Pointer[error]
	for i, c := range claims {
		for caller := range callers {
			wait.Go(func() {
				for n := caller; n < requests; n += callers {
					request := claim(n, 10*time.Minute)
					err := insists(c, request)
					taken := (*commands.Taken)(nil)
					switch {
					case err == nil:
						winners[n].Add(1)
						c.Settle(request, fmt.Appendf(nil, `{"result":%d}`, i))
					case !errors.As(err, &taken):
						failed.Store(&err)
					}
				}
			})
		}
	}
	wait.Wait()
	if e := failed.Load(); e != nil {
		err = *e
	}
	return winners, err
}

func TestEveryRequestHasOneWinner(t *testing.T) {
	t.Parallel()
	all := sharing(t, runNATS(t, t.TempDir(), server.RANDOM_PORT).ClientURL(), 1, everybodyLives, "a/1", "b/1", "c/1")
	winners, err := race([]*SharedClaims{all["a/1"], all["b/1"], all["c/1"]}, 2000, 40)
	check(t, winners, err)
}

// TestEveryRequestHasOneWinnerInACluster is the same on three servers, of which the
// one that leads the log is stopped. It runs when it is asked for, as
// [TestWhatAClusterAcknowledgedIsThereWhenItsLeaderIsLost].
func TestEveryRequestHasOneWinnerInACluster(t *testing.T) {
	if os.Getenv("AIBRIDGE_CLUSTER") == "" {
		t.Skip("AIBRIDGE_CLUSTER is not set")
	}
	nodes := threeServers(t)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.ClientURL())
	}
	all := sharing(t, strings.Join(urls, ","), 3, everybodyLives, "a/1", "b/1", "c/1")
	claims := []*SharedClaims{all["a/1"], all["b/1"], all["c/1"]}
	const requests, callers = 30_000, 150
	began := time.Now()
	winners, err := race(claims, requests, callers)
	t.Logf("%d requests, each claimed by three and settled, in %v: %.0f claims a second", requests, time.Since(began), 3*requests/time.Since(began).Seconds())
	check(t, winners, err)

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for _, n := range nodes {
			if n.JetStreamIsStreamLeader("$G", "aibridge-claims") {
				n.Shutdown()
				return
			}
		}
	}()
	began = time.Now()
	winners, err = race(claims, 2*requests, callers)
	<-stopped
	took := time.Since(began)
	t.Logf("%d requests while the leader is lost, in %v", 2*requests, took)
	check(t, winners[requests:], err)
}

func check(t *testing.T, winners []atomic.Int32, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	for n := range winners {
		if winners[n].Load() != 1 {
			t.Errorf("request %d was taken %d times", n, winners[n].Load())
		}
	}
}

func FuzzSharedClaims(f *testing.F) {
	record := beginShared("a/1")
	for kind := itemClaim; kind <= itemGivenUp; kind++ {
		record = appendItem(record, kind, claim(1, time.Minute), []byte("answer"))
	}
	f.Add(record)
	f.Add(appendClaim(beginClaims(), claim(1, time.Minute)))
	f.Fuzz(func(_ *testing.T, record []byte) {
		_, items := itemsOf(record)
		for range items {
		}
	})
}
