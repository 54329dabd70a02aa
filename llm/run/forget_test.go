package run

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestAnOldRunIsForgottenUnlessItGoesOn(t *testing.T) {
	var later atomic.Int64
	w := newWorld(t, script(says("hello"), says("hello again")), func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	id := w.start(StartParams{Input: ptr("hello")})
	w.rest(id)
	at, _, _ := w.opts.Runs.Get(id)
	later.Store(int64(31 * 24 * time.Hour))
	there := func() bool {
		_, _, ok := w.opts.Runs.Get(id)
		_, err := os.Stat(w.folder(id))
		if gone := errors.Is(err, fs.ErrNotExist); gone == ok {
			t.Errorf("it is there: %v, but its folder: %v", ok, err)
		}
		return ok
	}

	l, err := w.reserve(at, 0) // as the process that has it go on
	if err != nil {
		t.Fatal(err)
	}
	w.forget(at)
	if !there() {
		t.Fatal("it is forgotten while it goes on")
	}
	w.release(l)
	young := *at
	young.Changed = w.Service.opts.Now()
	if _, err := w.opts.Runs.Put(t.Context(), id, &young); err != nil {
		t.Fatal(err)
	}
	w.forget(at)
	if !there() {
		t.Fatal("it is forgotten though it has gone on since")
	}
	if _, err := w.opts.Runs.Put(t.Context(), id, at); err != nil {
		t.Fatal(err)
	}
	w.forget(at)
	if there() {
		t.Fatal("it is not forgotten")
	}
	if _, err := w.Continue(t.Context(), callOf(alice), ContinueParams{Run: id, Input: ptr("more")}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("it goes on: %v", err)
	}
}

// TestTheFolderOfARunThatAnotherBridgeForgotIsRemoved has the record of a run
// deleted, as another bridge does.
func TestTheFolderOfARunThatAnotherBridgeForgotIsRemoved(t *testing.T) {
	var later atomic.Int64
	var stale atomic.Bool
	w := newWorld(t, script(says("hello"), says("hello again"), says("and again")), func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		o.Current = func() bool { return !stale.Load() }
	})
	start := func() string {
		id := w.start(StartParams{Input: ptr("hello")})
		w.rest(id)
		return id
	}
	forgotten, kept, running := start(), start(), start()
	there := func(id string) bool {
		_, err := os.Stat(w.folder(id))
		return err == nil
	}
	reserved, _, _ := w.opts.Runs.Get(running)
	l, err := w.reserve(reserved, 0) // as the process that has it go on just now
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{forgotten, running} {
		if err := w.opts.Runs.Delete(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.removeOrphans()
	if !there(forgotten) {
		t.Fatal("a folder is removed that somebody has just written to")
	}
	later.Store(int64(31 * 24 * time.Hour))
	stale.Store(true)
	w.removeOrphans()
	if !there(forgotten) {
		t.Fatal("a folder is removed though nobody knows what is stored")
	}
	stale.Store(false)
	w.removeOrphans()
	if there(forgotten) {
		t.Error("the folder is still there")
	}
	if !there(kept) || !there(running) {
		t.Errorf("removed, though it is stored: %v, though it runs: %v", !there(kept), !there(running))
	}
	w.release(l)
	w.restart(script())
	for end := time.Now().Add(eventually.Patience); there(running); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not removed when the bridge starts")
		}
	}
}
