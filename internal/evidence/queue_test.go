package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// told collects what those who enqueued were told.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (t *told) done(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs = append(t.errs, err)
}

func (t *told) list() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]error(nil), t.errs...)
}

func TestWhatIsEnqueuedIsWrittenTogetherWhenItIsFlushed(t *testing.T) {
	t.Parallel()
	disk, dir := newBadDisk(), t.TempDir()
	l := open(t, dir, Options{create: disk.create})
	var heard told
	var ids []string
	for i := range 100 {
		c := claim(i, time.Minute)
		ids = append(ids, c.RequestID)
		l.Enqueue(c, heard.done)
	}
	if n := len(heard.list()); n != 0 || disk.written.Load() != 0 {
		t.Fatalf("%d were told before the flush, after %d writes", n, disk.written.Load())
	}
	l.Flush()
	if disk.written.Load() != 1 {
		t.Errorf("%d writes", disk.written.Load())
	}
	for _, err := range heard.list() {
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(heard.list()); n != 100 {
		t.Errorf("%d of 100 were told", n)
	}
	l.Flush() // of nothing
	if disk.written.Load() != 1 {
		t.Error("nothing was written")
	}
	wantPending(t, open(t, copyOf(t, dir), Options{}), ids...) // what a process that is killed leaves
}

func TestThoseWhoEnqueueAreToldWhatFailed(t *testing.T) {
	t.Parallel()
	disk := newBadDisk()
	l := open(t, t.TempDir(), Options{create: disk.create})
	disk.writes.Store(true)
	var heard told
	l.Enqueue(claim(1, time.Minute), heard.done)
	l.Flush()
	if errs := heard.list(); len(errs) != 1 {
		t.Fatalf("told %v", errs)
	}
	wantCode(t, heard.list()[0], protocol.StoreUnavailable)
	disk.writes.Store(false)
	l.Enqueue(claim(2, time.Minute), heard.done)
	l.Flush()
	if errs := heard.list(); len(errs) != 2 || errs[1] != nil {
		t.Errorf("told %v", errs)
	}
}

func TestFlushNeitherWaitsForAnotherWriterNorForADisk(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		disk := newBadDisk()
		l := open(t, t.TempDir(), Options{create: disk.create, SyncAlways: sync})
		undo := disk.block()
		first := make(chan error, 1)
		go func() { first <- l.Claim(t.Context(), claim(1, time.Minute)) }()
		<-disk.begun // somebody writes, and it takes long
		var heard told
		l.Enqueue(claim(2, time.Minute), heard.done)
		l.Flush()
		if len(heard.list()) != 0 {
			t.Error("told before anything was written")
		}
		undo()
		if err := <-first; err != nil {
			t.Error(err)
		}
		eventually.Holds(t, "who enqueued meanwhile is told", func() bool { return len(heard.list()) == 1 })
	}
}

func TestFlushLeavesTheDiskToAnother(t *testing.T) {
	t.Parallel()
	disk := newBadDisk()
	l := open(t, t.TempDir(), Options{create: disk.create, SyncAlways: true})
	undo := disk.block()
	var heard told
	l.Enqueue(claim(1, time.Minute), heard.done)
	l.Flush() // would hang here
	undo()
	eventually.Holds(t, "who enqueued is told", func() bool { return len(heard.list()) == 1 })
}

func TestWhoWaitsWritesForThoseWhoEnqueued(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	var heard told
	l.Enqueue(claim(1, time.Minute), heard.done)
	mustClaim(t, l, claim(2, time.Minute))
	if errs := heard.list(); len(errs) != 1 || errs[0] != nil {
		t.Errorf("told %v", errs)
	}
}

func TestCloseWritesWhatWasEnqueuedAndThenTakesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var heard told
	l.Enqueue(claim(1, time.Minute), heard.done)
	shut(t, l)
	l.Enqueue(claim(2, time.Minute), heard.done)
	errs := heard.list()
	if len(errs) != 2 || errs[0] != nil {
		t.Fatalf("told %v", errs)
	}
	wantCode(t, errs[1], protocol.ShuttingDown)
	wantPending(t, open(t, dir, Options{}), "request-1")
}

func TestManyWaitEnqueueAndFlushAtOnce(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	const each = 200
	var heard atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range each {
				c := claim(g*each+i, time.Minute)
				if g%2 == 0 {
					mustClaim(t, l, c)
					heard.Add(1)
					continue
				}
				l.Enqueue(c, func(err error) {
					if err == nil {
						heard.Add(1)
					}
				})
				if i%3 == 0 || i == each-1 {
					l.Flush()
				}
			}
		})
	}
	all.Wait()
	eventually.Holds(t, "all are told", func() bool { return heard.Load() == 8*each })
}

// copyOf copies a folder of segments as it is.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := copyFiles(to, dir); err != nil {
		t.Fatal(fmt.Errorf("copy: %w", err))
	}
	return to
}

func copyFiles(to, from string) error { return os.CopyFS(to, os.DirFS(from)) }

// TestWhoKeepsTellsNobody has somebody who holds a lock keep entries, while
// claims gather whose owners need that lock.
func TestWhoKeepsTellsNobody(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	l.Chain(new(testChain))
	var lock sync.Mutex
	told := make(chan error, 1)
	lock.Lock()
	l.Enqueue(claim(1, time.Minute), func(err error) {
		lock.Lock()
		defer lock.Unlock()
		told <- err
	})
	l.Add(textEntry{"who", "what"})
	l.Keep()
	lock.Unlock()
	if err := <-told; err != nil {
		t.Error(err)
	}
}
