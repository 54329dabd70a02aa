package evidence

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A badDisk makes files that fail as they are told to.
type badDisk struct {
	writes, syncs, truncates, creates atomic.Bool                   // whether they fail
	room, written                     atomic.Int64                  // bytes that still fit when writes fail; writes so far
	gate                              atomic.Pointer[chan struct{}] // writes wait until it is closed
	begun                             chan struct{}                 // told when a write waits
}

func newBadDisk() *badDisk { return &badDisk{begun: make(chan struct{}, 16)} }

func (d *badDisk) create(root *os.Root, name string) (file, error) {
	if d.creates.Load() {
		return nil, syscall.EMFILE
	}
	f, err := createFile(root, name)
	return badFile{f, d}, err
}

// block makes writes wait from now on, until it is undone.
func (d *badDisk) block() (undo func()) {
	gate := make(chan struct{})
	d.gate.Store(&gate)
	return func() {
		d.gate.Store(nil)
		close(gate)
	}
}

type badFile struct {
	file
	disk *badDisk
}

func (f badFile) WriteAt(p []byte, at int64) (int, error) {
	f.disk.written.Add(1)
	if gate := f.disk.gate.Load(); gate != nil {
		f.disk.begun <- struct{}{}
		<-*gate
	}
	if f.disk.writes.Load() {
		n, _ := f.file.WriteAt(p[:min(len(p), int(f.disk.room.Load()))], at)
		return n, syscall.ENOSPC
	}
	return f.file.WriteAt(p, at)
}

func (f badFile) Sync() error {
	if f.disk.syncs.Load() {
		return syscall.EIO
	}
	return f.file.Sync()
}

func (f badFile) Truncate(size int64) error {
	if f.disk.truncates.Load() {
		return syscall.EIO
	}
	return f.file.Truncate(size)
}

// TestAClaimThatIsNotWrittenIsRefused has the disk fail in every way, and work
// again.
func TestAClaimThatIsNotWrittenIsRefused(t *testing.T) {
	size := int64(claimSize(claim(1, 0)))
	for name, test := range map[string]struct {
		fail func(d *badDisk)
		why  error
	}{
		"no space":                   {func(d *badDisk) { d.writes.Store(true) }, syscall.ENOSPC},
		"no space for all of it":     {func(d *badDisk) { d.writes.Store(true); d.room.Store(50) }, syscall.ENOSPC},
		"a write that was too late":  {func(d *badDisk) { d.writes.Store(true); d.room.Store(size) }, syscall.ENOSPC},
		"what was written stays":     {func(d *badDisk) { d.writes.Store(true); d.room.Store(50); d.truncates.Store(true) }, syscall.ENOSPC},
		"cannot be synced":           {func(d *badDisk) { d.syncs.Store(true) }, syscall.EIO},
		"cannot be synced, and more": {func(d *badDisk) { d.syncs.Store(true); d.truncates.Store(true) }, syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			dir, disk := t.TempDir(), newBadDisk()
			l := open(t, dir, Options{SyncAlways: true, create: disk.create})
			mustClaim(t, l, claim(1, time.Minute))
			test.fail(disk)
			for i := range 3 {
				err := l.Claim(t.Context(), claim(2+i, time.Minute))
				wantCode(t, err, protocol.StoreUnavailable)
				if i == 0 && !errors.Is(err, test.why) {
					t.Errorf("got %v, want the cause %v", err, test.why)
				}
			}
			for _, fails := range []*atomic.Bool{&disk.writes, &disk.syncs, &disk.truncates} {
				fails.Store(false)
			}
			mustClaim(t, l, claim(5, time.Minute))
			shut(t, l)
			wantPending(t, open(t, dir, Options{}), "request-1", "request-5")
		})
	}
}

// TestAFailureWithoutMendingLeavesWhatWasAcknowledged ends a log that could
// not be mended, as one that is killed then.
func TestAFailureWithoutMendingLeavesWhatWasAcknowledged(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	mustClaim(t, l, claim(1, time.Minute))
	disk.writes.Store(true)
	disk.room.Store(50)
	disk.truncates.Store(true)
	wantCode(t, l.Claim(t.Context(), claim(2, time.Minute)), protocol.StoreUnavailable)
	shut(t, l)
	wantPending(t, open(t, dir, Options{}), "request-1")
}

func TestWhenNoSegmentCanBeMadeClaimsWaitForBetterTimes(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	size := int64(claimSize(claim(1, 0)))
	l := open(t, dir, Options{SegmentBytes: size, create: disk.create}) // a claim a segment
	mustClaim(t, l, claim(1, time.Minute))
	disk.creates.Store(true)
	for i := range 3 {
		err := l.Claim(t.Context(), claim(2+i, time.Minute))
		wantCode(t, err, protocol.StoreUnavailable)
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("got %v", err)
		}
	}
	disk.creates.Store(false)
	mustClaim(t, l, claim(5, time.Minute))
	shut(t, l)
	wantPending(t, open(t, dir, Options{}), "request-1", "request-5")
}

func TestOpenFailsWhenNoSegmentCanBeMade(t *testing.T) {
	disk := newBadDisk()
	disk.creates.Store(true)
	if _, err := Open(t.TempDir(), Options{create: disk.create}); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v", err)
	}
}

// gathered has one claim written and many wait for it in one batch.
func gathered(t *testing.T, l *Log, disk *badDisk, many int) (results chan error, undo func()) {
	t.Helper()
	undo = disk.block()
	results = make(chan error, many+1)
	for i := range many + 1 {
		go func() { results <- l.Claim(context.Background(), claim(i, time.Minute)) }()
		if i == 0 {
			<-disk.begun
		}
	}
	eventually.Holds(t, "all wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.gathering.claims == many
	})
	return results, undo
}

func TestThoseWhoComeMeanwhileAreWrittenTogether(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	const many = 50
	results, undo := gathered(t, l, disk, many)
	undo()
	for range many + 1 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if got := disk.written.Load(); got != 2 {
		t.Errorf("%d writes, want one for the first and one for all others", got)
	}
	shut(t, l)
	if got := len(pending(open(t, dir, Options{}))); got != many+1 {
		t.Errorf("%d are pending, want %d", got, many+1)
	}
}

func TestAFailureIsToldToAllOfTheBatch(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	const many = 50
	results, undo := gathered(t, l, disk, many)
	disk.writes.Store(true)
	undo()
	for range many + 1 {
		wantCode(t, <-results, protocol.StoreUnavailable)
	}
	disk.writes.Store(false)
	mustClaim(t, l, claim(99, time.Minute))
	shut(t, l)
	wantPending(t, open(t, dir, Options{}), "request-99")
}

func TestWhoGivesUpWaitingHoldsUpNobody(t *testing.T) {
	for name, stay := range map[string]bool{"all give up": false, "one stays": true} {
		t.Run(name, func(t *testing.T) {
			dir, disk := t.TempDir(), newBadDisk()
			l := open(t, dir, Options{create: disk.create})
			undo := disk.block()
			first := make(chan error, 1)
			go func() { first <- l.Claim(context.Background(), claim(0, time.Minute)) }()
			<-disk.begun
			ctx, cancel := context.WithCancel(t.Context())
			var quitters, stayer sync.WaitGroup
			for i := range 10 {
				quitters.Go(func() {
					if err := l.Claim(ctx, claim(i, time.Minute)); !errors.Is(err, context.Canceled) {
						t.Errorf("who gives up gets %v", err)
					}
				})
			}
			if stay {
				stayer.Go(func() { mustClaim(t, l, claim(10, time.Minute)) })
			}
			eventually.Holds(t, "all wait", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.gathering.claims >= 10 && (l.gathering.claims == 11) == stay
			})
			cancel()
			quitters.Wait()
			undo()
			stayer.Wait()
			if err := <-first; err != nil {
				t.Error(err)
			}
			mustClaim(t, l, claim(11, time.Minute))
			shut(t, l)
			got := pending(open(t, dir, Options{}))
			if _, ok := got["request-10"]; ok != stay {
				t.Errorf("the one that stayed is pending: %v", ok)
			}
			if _, ok := got["request-11"]; !ok {
				t.Error("the one that came later is not pending")
			}
		})
	}
}

// TestABatchThatIsFullLetsOthersWaitForTheNext gathers more than fits.
func TestABatchThatIsFullLetsOthersWaitForTheNext(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	undo := disk.block()
	const many = 40 // of 64 KiB and more, two of three times what a batch takes
	var wg sync.WaitGroup
	for i := range many {
		c := claim(i, time.Minute)
		c.Principal = string(make([]byte, maxText))
		wg.Go(func() { mustClaim(t, l, c) })
		if i == 0 {
			<-disk.begun
		}
	}
	eventually.Holds(t, "all wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.gathering.waiting != nil && l.gathering.waiting.count == many-1
	})
	if n := len(l.gathering.pieces); n > maxPieces {
		t.Errorf("%d groups gathered", n)
	}
	undo()
	wg.Wait()
	shut(t, l)
	if got := len(pending(open(t, dir, Options{}))); got != many {
		t.Errorf("%d are pending, want %d", got, many)
	}
}

func TestCloseWaitsForClaimsUnderWay(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	results, undo := gathered(t, l, disk, 5)
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	eventually.Holds(t, "it is closing", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.closed
	})
	wantCode(t, l.Claim(t.Context(), claim(9, time.Minute)), protocol.ShuttingDown)
	undo()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range 6 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if got := len(pending(open(t, dir, Options{}))); got != 6 {
		t.Errorf("%d are pending, want 6", got)
	}
}

// TestCheckTellsWhetherClaimsAreWritten has nobody claim anything once the disk
// works again.
func TestCheckTellsWhetherClaimsAreWritten(t *testing.T) {
	disk := newBadDisk()
	l := open(t, t.TempDir(), Options{create: disk.create, SyncAlways: true})
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	disk.writes.Store(true)
	wantCode(t, l.Claim(context.Background(), claim(1, time.Minute)), protocol.StoreUnavailable)
	wantCode(t, l.Check(), protocol.StoreUnavailable)
	disk.writes.Store(false)
	for deadline := time.Now().Add(eventually.Patience); l.Check() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("claims can be written, and nobody says so")
		}
	}
}
