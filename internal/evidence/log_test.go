package evidence

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func bothSyncs(t *testing.T, f func(t *testing.T, o Options)) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync=%t", sync), func(t *testing.T) {
			t.Parallel()
			f(t, Options{SyncAlways: sync})
		})
	}
}

func TestClaimsArePendingAfterRestart(t *testing.T) {
	bothSyncs(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		l := open(t, dir, o)
		const count = 200
		want := claim(7, 10*time.Minute)
		var wg sync.WaitGroup
		for i := range count {
			c := claim(i, 10*time.Minute)
			if i == 7 {
				c = want
			}
			wg.Go(func() {
				if err := l.Claim(context.Background(), c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantPending(t, l) // none of its own
		shut(t, l)

		l = open(t, dir, o)
		got := pending(l)
		if len(got) != count {
			t.Fatalf("%d claims pending, want %d", len(got), count)
		}
		if c := got[want.RequestID]; c.Principal != want.Principal || c.Hash != want.Hash || want.Expires.Sub(c.Expires) > 30*time.Second {
			t.Errorf("pending claim = %+v, want %+v", c, want)
		}
	})
}

func TestPendingStopsWhenAsked(t *testing.T) {
	dir := t.TempDir()
	writeSegment(t, dir, 1, encoded(claim(1, time.Minute), claim(2, time.Minute)))
	seen := 0
	for range open(t, dir, Options{}).Pending {
		seen++
		break
	}
	if seen != 1 {
		t.Errorf("saw %d", seen)
	}
}

func TestRestartsPileNothingUp(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		l := open(t, dir, Options{})
		mustClaim(t, l, claim(i, -time.Second))
		shut(t, l)
	}
	if names := segments(t, dir); len(names) != 0 {
		t.Errorf("left are %q", names)
	}
	l := open(t, dir, Options{})
	mustClaim(t, l, claim(1, time.Minute))
	for range 5 {
		shut(t, l)
		l = open(t, dir, Options{})
		wantPending(t, l, "request-1")
	}
	if names := segments(t, dir); len(names) != 2 {
		t.Errorf("there are %q, want that of the claim and the new one", names)
	}
}

func TestAClaimThatIsOverIsNotMade(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Claim(ctx, claim(1, time.Minute)); err == nil {
		t.Error("claimed for a call that is over")
	}
	shut(t, l)
	wantPending(t, open(t, dir, Options{}))
}

func TestClaimsFailAfterClose(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	shut(t, l)
	wantCode(t, l.Claim(t.Context(), claim(1, time.Minute)), protocol.ShuttingDown)
}

func TestTextsOfAnyLengthAreKept(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for _, n := range []int{0, 1, 255, 256, maxText} {
		c := claim(0, time.Minute)
		c.Principal, c.RequestID = strings.Repeat("p", n), strings.Repeat("r", n)
		mustClaim(t, l, c)
	}
	c := claim(0, time.Minute)
	c.RequestID = strings.Repeat("r", maxText+1)
	wantCode(t, l.Claim(t.Context(), c), protocol.PayloadTooLarge)
	shut(t, l)
	got := pending(open(t, dir, Options{}))
	if len(got) != 5 {
		t.Errorf("%d claims are pending, want 5", len(got))
	}
	for id, c := range got {
		if len(id) != len(c.Principal) {
			t.Errorf("%d bytes of request id, %d of principal", len(id), len(c.Principal))
		}
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "data", "claims")
	l := open(t, dir, Options{})
	mustClaim(t, l, claim(1, time.Minute))
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, segmentName(1)): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
	}
}

func TestOtherFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	others := []string{"1.log", "0000000001.log~", "lost+found", "note.txt"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, open(t, dir, Options{}))
	slices.Sort(others)
	if got := segments(t, dir); !slices.Equal(got, others) {
		t.Errorf("left are %q, want %q", got, others)
	}
}

// TestSegmentsGoWhenTheirClaimsExpire claims for different times with small
// segments and watches the folder.
func TestSegmentsGoWhenTheirClaimsExpire(t *testing.T) {
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		size := int64(claimSize(claim(1, 0)))
		l := open(t, dir, Options{SegmentBytes: 2 * size, GroupBlocks: true}) // two claims a segment
		for i, life := range []time.Duration{1, 2, 8, 9, 3, 4, 7} {
			mustClaim(t, l, claim(i, life*time.Minute))
		}
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{
			{0, []string{segmentName(1), segmentName(3), segmentName(5), segmentName(7)}},
			{131 * time.Second, []string{segmentName(3), segmentName(5), segmentName(7)}},
			{2 * time.Minute, []string{segmentName(3), segmentName(5), segmentName(7)}}, // the first goes first
			{4 * time.Minute, []string{segmentName(3), segmentName(5), segmentName(7)}}, // the last is not finished
			{2 * time.Minute, []string{segmentName(7)}},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := segments(t, dir); !slices.Equal(got, step.want) {
				t.Errorf("there are %q, want %q", got, step.want)
			}
		}
		mustClaim(t, l, claim(8, time.Minute))
		if got := l.used.Load(); got != 2*size {
			t.Errorf("takes %d bytes, want %d", got, 2*size)
		}
		time.Sleep(l.options.Life)
		mustClaim(t, l, claim(9, time.Minute)) // old segments are not gone on with
		synctest.Wait()
		if got, want := segments(t, dir), []string{segmentName(9)}; !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
		shut(t, l)
	})
}

func TestARecoveredSegmentGoesWhenItsClaimsExpire(t *testing.T) {
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		writeSegment(t, dir, 7, encoded(claim(1, time.Minute), claim(3, 3*time.Minute)))
		l := open(t, dir, Options{})
		wantPending(t, l, "request-1", "request-3")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantPending(t, l, "request-3")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantPending(t, l)
		if got, want := segments(t, dir), []string{segmentName(8)}; !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
		shut(t, l)
	})
}

// TestClaimsSeemToHaveExpiredWhenTheClockIsAhead has a machine start with a
// clock that is set right later: until then nobody knows.
func TestClaimsSeemToHaveExpiredWhenTheClockIsAhead(t *testing.T) {
	dir := t.TempDir()
	w := writerFrom(1)
	w.at = time.Now().Add(-time.Hour)
	w.claim(claim(1, time.Minute-time.Hour))
	w.group()
	writeSegment(t, dir, 1, w.data)
	l := open(t, dir, Options{})
	wantPending(t, l, "request-1")
	if left := time.Until(pending(l)["request-1"].Expires); left > l.options.Life || left < l.options.Life-time.Minute {
		t.Errorf("pending for %v, want a claim's life", left)
	}
}

// TestNothingIsKeptLongerThanLife is what happens when the wall clock was set
// back: claims seem to last for years.
func TestNothingIsKeptLongerThanLife(t *testing.T) {
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		l := open(t, dir, Options{})
		mustClaim(t, l, claim(1, 10000*time.Hour))
		shut(t, l)
		l = open(t, dir, Options{})
		c, ok := pending(l)["request-1"]
		if left := time.Until(c.Expires); !ok || left > l.options.Life {
			t.Errorf("pending for %v", left)
		}
		time.Sleep(l.options.Life)
		synctest.Wait()
		wantPending(t, l)
		if got, want := segments(t, dir), []string{segmentName(2)}; !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
		shut(t, l)
	})
}

// TestDamageNobodyNeedsDoesNotKeepTheBridgeFromStarting has a segment that
// cannot be read, whose claims have expired long ago. It stays, for who verifies
// the trail.
func TestDamageNobodyNeedsDoesNotKeepTheBridgeFromStarting(t *testing.T) {
	dir := t.TempDir()
	writeSegment(t, dir, 1, []byte("rubbish"+seal))
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, segmentName(1)), long, long); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{})
	if got, want := segments(t, dir), []string{segmentName(1), segmentName(2)}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestClaimsThatDoNotFitAreRefusedUntilOthersExpire(t *testing.T) {
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		l := open(t, dir, Options{MaxClaims: 2000})
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			err = l.Claim(t.Context(), claim(n, time.Minute))
		}
		wantCode(t, err, protocol.StoreUnavailable)
		if err == nil || !strings.Contains(err.Error(), "2000 bytes") {
			t.Errorf("the error %v does not say why", err)
		}
		if l.used.Load() > 2000+int64(claimSize(claim(1, 0))) || n < 10 {
			t.Errorf("%d claims take %d bytes of 2000", n, l.used.Load())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		mustClaim(t, l, claim(n, time.Minute))
		shut(t, l)
		wantPending(t, open(t, dir, Options{}), fmt.Sprintf("request-%d", n))
	})
}

func TestMetricsTellOfClaims(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	l := open(t, t.TempDir(), Options{Registerer: r})
	mustClaim(t, l, claim(1, time.Minute), claim(2, time.Minute))
	want := fmt.Sprintf(`
# HELP aibridge_claims_bytes What claims and entries take on disk, in segments with claims that may be of use.
# TYPE aibridge_claims_bytes gauge
aibridge_claims_bytes %d
# HELP aibridge_claims_total Claims of commands written to the log of evidence.
# TYPE aibridge_claims_total counter
aibridge_claims_total 2
`, l.used.Load())
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "aibridge_claims_bytes", "aibridge_claims_total"); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.TempDir(), Options{Registerer: r}); err == nil {
		t.Error("registered twice")
	}
	shut(t, l)
	open(t, t.TempDir(), Options{Registerer: r}) // registers again
}

func TestClaimingAgainIsNoError(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	mustClaim(t, l, claim(1, time.Minute), claim(1, time.Minute))
	shut(t, l)
	wantPending(t, open(t, dir, Options{}), "request-1")
}

// TestTheNameOfASegmentIsOnDiskWithItsEntries: a power cut could otherwise take
// the file with all that was synced to it.
func TestTheNameOfASegmentIsOnDiskWithItsEntries(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	l.Chain(new(testChain))
	l.Add(textEntry{"who", "what"})
	l.Keep()
	eventually.Holds(t, "the entries and the name of their file are on the disk", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := len(l.segments)
		return n > 0 && !l.segments[n-1].dirty.Load() && !l.unnamed.Load()
	})
}
