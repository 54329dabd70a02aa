package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
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
