package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// A stuckLog takes nothing while it is stuck.
type stuckLog struct {
	memoryLog
	stuck atomic.Bool
}

func (l *stuckLog) Append(ctx context.Context, data []byte) error {
	if l.stuck.Load() {
		return errors.New("stuck")
	}
	return l.memoryLog.Append(ctx, data)
}

// crash ends a trail as if the process had been killed.
func crash(t *testing.T, trail *Trail) {
	t.Helper()
	trail.cancel()
	<-trail.done
	if err := trail.spool.close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWaitedWhenTheProcessDiedIsStoredByTheNext(t *testing.T) {
	dir := t.TempDir()
	spooled := func(o *Options) { o.Spool, o.HeadFile = filepath.Join(dir, "spool"), filepath.Join(dir, "head") }
	log := new(stuckLog)
	trail := openTrail(t, log, spooled)
	record := func(name string) { trail.Record(t.Context(), Entry{Event: name, Code: OK}) }
	record("x.stored")
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.stuck.Store(true)
	record("x.first")
	for range 50 { // over several batches: the first is under way, the others wait
		record("x.more")
	}
	crash(t, trail)
	log.stuck.Store(false)
	for range 2 { // the second start finds nothing more
		trail = openTrail(t, log, spooled)
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := events(t, &log.memoryLog)
		count := func(name string) (n int) {
			for _, e := range got {
				if e == name {
					n++
				}
			}
			return n
		}
		if count("x.stored") != 1 || count("x.first") != 1 || count("x.more") != 50 {
			t.Errorf("recorded %q", got)
		}
		shut(t, trail)
	}
	if r := verify(t, &log.memoryLog, testKey(t, 1)); !r.OK {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsStoredIsNotTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spool")
	log := new(memoryLog)
	trail := openTrail(t, log, func(o *Options) { o.Spool = path })
	for i := range 20 {
		trail.Record(t.Context(), Entry{Event: fmt.Sprint("x.", i), Code: OK})
	}
	shut(t, trail)
	want := events(t, log)
	// As if the process had died after it stored them, and before it emptied
	// the spool.
	var left []byte
	for _, g := range log.groups {
		decoded, err := decodeGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range decoded.entries {
			left = append(append(left, e.json...), '\n')
		}
	}
	left = append(left, `{"event":"x.torn","ti`...)
	if err := os.WriteFile(path+".1", left, 0o600); err != nil {
		t.Fatal(err)
	}
	trail = openTrail(t, log, func(o *Options) { o.Spool = path })
	shut(t, trail)
	if got := events(t, log); !slices.Equal(got, append(want, "audit.started", "audit.stopped")) {
		t.Errorf("recorded %q", got)
	}
}

// TestADamagedSpoolIsSaid flips every byte of a spool that a killed process has
// left: every entry is taken up as it was, or the trail says that some are lost.
func TestADamagedSpoolIsSaid(t *testing.T) {
	var whole []byte
	for i := range 3 {
		entry := line{Entry: Entry{Time: time.UnixMilli(int64(i)), Event: fmt.Sprint("x.", i), Code: OK, RequestID: "r"}}
		text := entry.append(nil)
		whole = append(append(append(appendSum(nil, text), text...), '\n'), whole...)
	}
	path := filepath.Join(t.TempDir(), "spool")
	for at := range len(whole) - 1 { // behind the last newline a write was cut short
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		if err := os.WriteFile(path+".0", damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(memoryLog)
		trail := openTrail(t, log, func(o *Options) { o.Spool = path })
		shut(t, trail)
		got, taken := events(t, log), 0
		for i := range 3 {
			if slices.Contains(got, fmt.Sprint("x.", i)) {
				taken++
			}
		}
		if said := slices.Contains(got, "audit.lost"); !said || taken == 3 {
			t.Fatalf("byte %d: recorded %q", at, got)
		}
	}
}

func TestASpoolIsEmptiedOnceItsEntriesAreStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	trail := openTrail(t, new(memoryLog), func(o *Options) { o.Spool = path })
	for range 10 {
		trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, trail)
	for _, name := range []string{path + ".0", path + ".1"} {
		if info, err := os.Stat(name); err != nil || info.Size() > 4096 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A held call's entry need not be in the spool before Keep was called, and has
// to be afterwards; so has any that is not held, at once.
func TestWhatIsHeldIsInTheSpoolOnceItIsKept(t *testing.T) {
	dir := t.TempDir()
	log := new(stuckLog)
	trail := openTrail(t, log, func(o *Options) { o.Spool = filepath.Join(dir, "spool") })
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.stuck.Store(true)
	spooled := func(id string) bool {
		var all []byte
		for i := range 2 {
			data, err := os.ReadFile(fmt.Sprintf("%s.%d", filepath.Join(dir, "spool"), i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return bytes.Contains(all, []byte(id))
	}
	audit := func(id string, held bool) {
		trail.Audit(commands.Audited{Command: "x.y", Effect: commands.Act, RequestID: id, Executed: true, Held: held})
	}
	audit("held-1", true)
	audit("held-2", true)
	trail.Keep()
	if !spooled("held-1") || !spooled("held-2") {
		t.Error("what was kept is not in the spool")
	}
	trail.RecordHeld(t.Context(), Entry{Event: "held-login", Code: OK})
	if spooled("held-login") {
		t.Error("what is held was written by itself")
	}
	trail.Keep()
	if !spooled("held-login") {
		t.Error("a login that was kept is not in the spool")
	}
	audit("held-3", true)
	audit("at-once", false)
	if !spooled("at-once") || !spooled("held-3") {
		t.Error("an entry that is not held, or one before it, is not in the spool")
	}
	crash(t, trail)
}

func TestEntriesAreOnTheDiskBeforeTheirAnswersLeave(t *testing.T) {
	dir := t.TempDir()
	trail := openTrail(t, new(memoryLog), func(o *Options) { o.Spool, o.SyncAlways = filepath.Join(dir, "spool"), true })
	began, release := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	trail.syncing.Lock()
	trail.sync = func(f *os.File) error {
		if syncs.Add(1) == 1 {
			close(began)
			<-release
		}
		return f.Sync()
	}
	trail.syncing.Unlock()
	var left atomic.Int32
	var calls sync.WaitGroup
	record := func() {
		calls.Go(func() {
			trail.Record(context.Background(), Entry{Event: "x.y", Code: OK})
			left.Add(1)
		})
	}
	record()
	<-began // the disk is at work
	for range 50 {
		record()
	}
	trail.mu.Lock()
	before := trail.taken
	trail.mu.Unlock()
	trail.enqueue([]byte(`{"event":"x.held"}`), taken{at: time.Now(), held: true}) // does not wait
	calls.Go(func() {
		trail.Keep()
		left.Add(1)
	})
	if before == 0 || left.Load() != 0 {
		t.Errorf("%d of %d answers have left before their entries were on the disk", left.Load(), before)
	}
	close(release)
	calls.Wait()
	trail.syncing.Lock()
	synced := trail.synced
	trail.syncing.Unlock()
	trail.mu.Lock()
	taken := trail.taken
	trail.mu.Unlock()
	if synced != taken || trail.held.Load() {
		t.Errorf("%d entries were taken, %d are on the disk, held: %t", taken, synced, trail.held.Load())
	}
	shut(t, trail)
}

func TestEntriesAreNotSyncedUnlessThatIsAskedFor(t *testing.T) {
	trail := openTrail(t, new(memoryLog), func(o *Options) { o.Spool = filepath.Join(t.TempDir(), "spool") })
	trail.sync = func(*os.File) error {
		t.Error("synced")
		return nil
	}
	trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
	trail.enqueue([]byte(`{"event":"x.held"}`), taken{at: time.Now(), held: true})
	trail.Keep()
	if trail.held.Load() {
		t.Error("something is held back still")
	}
	shut(t, trail)
}
