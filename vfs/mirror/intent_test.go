package mirror

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// losesAnswers has the VFS do what it is asked, and nobody learn of it.
func losesAnswers(calls ...string) func(string, bool) error {
	return func(call string, after bool) error {
		for _, name := range calls {
			if after && call == name {
				return errDown
			}
		}
		return nil
	}
}

// setHere writes a file of the folder, or removes it if its content is "".
func (w *world) setHere(path, content string) {
	w.t.Helper()
	if content == "" {
		w.removeHere(path)
	} else {
		w.write(path, content)
	}
}

// syncLosing has a sync lose answers to some operations.
func (w *world) syncLosing(operations ...string) {
	w.t.Helper()
	w.vfs.fault = losesAnswers(operations...)
	if w.engine.Sync(w.t.Context()) == nil {
		w.t.Fatal("no answer was lost")
	}
	w.vfs.fault = nil
}

// comeBack syncs with a VFS that answers again, after a crash or without one.
func (w *world) comeBack(crash bool) {
	w.t.Helper()
	if crash {
		w.restart()
	}
	if err := w.breaker.Probe(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.sync()
}

// An edit after an upload whose answer was lost is no conflict with that upload.
func TestAnUnconfirmedChangeIsOnesOwn(t *testing.T) {
	large := strings.Repeat("large", smallFile)
	for _, rule := range []Rule{RemoteWins, LocalWins, LatestWins, KeepBoth} {
		for name, c := range map[string]struct{ base, first, then string }{ // "" is no file
			"an edit of an edit":           {"base", "first", "then"},
			"an edit of a new file":        {"", "first", "then"},
			"a deletion of an edit":        {"base", "first", ""},
			"a deletion of a new file":     {"", "first", ""},
			"an edit after a deletion":     {"base", "", "then"},
			"back to what was there":       {"base", "first", "base"},
			"the same again":               {"base", "", "base"},
			"an edit of a large edit":      {"base", large + "1", large + "2"},
			"a large edit of a large edit": {large, large + "1", large + "2"},
			"a deletion of a large file":   {"", large, ""},
		} {
			for _, crash := range []bool{false, true} {
				t.Run(string(rule)+" "+name, func(t *testing.T) {
					w := newWorld(t, func(o *Options) { o.Rule = rule })
					set := func(content string) { w.setHere("dir/f", content) }
					w.write("other", "other")
					if c.base != "" {
						set(c.base)
					}
					w.sync()
					set(c.first)
					w.syncLosing("put", "batch", "delete", "delta")
					set(c.then)
					w.comeBack(crash)
					want := files("other", "other")
					if c.then != "" {
						want["dir/f"] = c.then
					}
					w.same(want)
					if losers := w.engine.Losers(); len(losers) != 0 {
						t.Errorf("conflicts: %+v", losers)
					}
					if open := w.engine.state.unconfirmed(); len(open) != 0 {
						t.Errorf("still unconfirmed: %q", open)
					}
				})
			}
		}
	}
}

// Another's change of an upload whose answer was lost is no conflict, as long as the
// upload was not changed here.
func TestAnUnconfirmedChangeMayBeReplacedThere(t *testing.T) {
	for _, rule := range []Rule{RemoteWins, LocalWins, LatestWins, KeepBoth} {
		for name, c := range map[string]struct { // "" is no file
			base, first, there, then, want string
			conflict                       bool
		}{
			"a new file":             {"", "first", "there", "first", "there", false},
			"an edit":                {"base", "first", "there", "first", "there", false},
			"a deletion of an edit":  {"base", "first", "", "first", "", false},
			"an edit of a deletion":  {"base", "", "there", "", "there", false},
			"an edit at both ends":   {"base", "first", "there", "then", "", true},
			"a new file and an edit": {"", "first", "there", "then", "", true},
		} {
			for _, crash := range []bool{false, true} {
				t.Run(string(rule)+" "+name, func(t *testing.T) {
					w := newWorld(t, func(o *Options) { o.Rule = rule })
					set := func(content string) { w.setHere("f", content) }
					if c.base != "" {
						set(c.base)
					}
					w.sync()
					set(c.first)
					w.syncLosing("put", "batch", "delete")
					if c.there == "" {
						w.vfs.remove("f")
					} else {
						w.vfs.set("f", c.there)
					}
					if c.then != c.first {
						set(c.then)
					}
					w.comeBack(crash)
					if losers := w.engine.Losers(); len(losers) > 0 != c.conflict {
						t.Errorf("conflicts: %+v", losers)
					}
					if c.conflict {
						return // which the rule decides
					}
					want := files()
					if c.want != "" {
						want["f"] = c.want
					}
					w.same(want)
				})
			}
		}
	}
}

// What was refused did not happen: when somebody else stores the same content
// later, that is a change.
func TestARefusedChangeIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.write("f", "off")
	w.sync()
	w.vfs.fault = func(call string, after bool) error {
		if !after && (call == "put" || call == "batch") {
			return protocol.Errorf(protocol.VFSPermission, "not yours")
		}
		return nil
	}
	w.write("f", "on")
	_ = w.engine.Sync(t.Context())
	w.write("f", "off")
	w.vfs.fault = nil
	w.vfs.set("f", "on")
	w.engine.work.hasten(time.Now())
	w.sync()
	w.same(files("f", "on"))
}

// A file that was put in place, but not noted, is what came from the VFS.
func TestAnUnnotedDownloadIsRecognised(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := newWorld(t, func(o *Options) { o.Rule = LocalWins })
		w.vfs.set("f", "first")
		w.sync()
		before := w.engine.state.get("f")
		if deleted {
			w.vfs.remove("f")
		} else {
			w.vfs.set("f", "second")
		}
		w.sync()
		i := intent{inward: true, deleted: deleted, version: w.engine.state.get("f").version, size: 6, sum: w.engine.state.get("f").sum}
		// What the journal has if the note after the change is not written.
		w.engine.state.mu.Lock()
		w.engine.state.entries["f"] = &before
		w.engine.state.open["f"] = []intent{i}
		w.engine.state.mu.Unlock()
		w.vfs.set("f", "third")
		w.sync()
		w.same(files("f", "third"))
		if losers := w.engine.Losers(); len(losers) != 0 {
			t.Errorf("conflicts: %+v", losers)
		}
	}
}

// An intent that never came true is given up once the VFS was seen unchanged
// long after.
func TestAnOldIntentIsGivenUp(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	w.write("f", "off")
	w.sync()
	w.write("f", "on")
	w.vfs.fault = func(call string, after bool) error { // the request is lost
		if call == "put" || call == "batch" {
			return errDown
		}
		return nil
	}
	_ = w.engine.Sync(context.Background())
	w.write("f", "off")
	w.vfs.fault = nil
	_ = w.breaker.Probe(t.Context())
	w.sync()
	if len(w.engine.state.unconfirmed()) != 1 {
		t.Fatal("the request may still arrive")
	}
	now = now.Add(2 * intentLife)
	w.sync()
	w.vfs.set("f", "on")
	w.sync()
	w.same(files("f", "on"))
}

// So is one in whose place somebody else's version stands that cannot be
// agreed on.
func TestAnOldIntentIsGivenUpWhateverTheVFSHas(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	if _, err := w.engine.intend("f", intent{version: 1, size: 2, sum: Sum{1}}); err != nil {
		t.Fatal(err)
	}
	there := remote{there: true, File: File{Path: "f", Version: 7, Size: 3, SHA256: Sum{2}}}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 1}, {2 * intentLife, 0}} {
		now = now.Add(step.after)
		if _, err := w.engine.learn(t.Context(), "f", entry{}, localStat{}, there, true); err != nil {
			t.Fatal(err)
		}
		if got := len(w.engine.state.unconfirmed()); got != step.left {
			t.Errorf("%d intents after %s, want %d", got, step.after, step.left)
		}
	}
}
