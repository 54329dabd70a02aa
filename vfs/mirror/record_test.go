package mirror

import (
	"bytes"
	"os"
	"testing"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

func TestWhatIsNotedIsReadAgain(t *testing.T) {
	s := newState()
	want := entry{base: base{known: true, version: 7, size: 9, sum: Sum{1}, at: -5},
		print: fingerprint{taken: true, stamp: tree.Stamp{Size: 9, ModTime: 1, Change: 2, Inode: 1 << 63}, sum: Sum{2}, read: 3}}
	loser := Loser{Path: "a", Rule: KeepBoth, SHA256: Sum{3}, Size: 4, Version: 5, Kept: "a (conflict)", At: 6, Deleted: true,
		Winner: Winner{SHA256: Sum{5}, Version: 7, Path: "a/b", Deleted: true}}
	for _, record := range [][]byte{
		appendEntry(nil, "d/f", &want), appendEntry(nil, "gone", &want), appendText([]byte{recordForget}, "gone"),
		appendMeta(nil, meta{clock: 1, syncs: 2, lastSync: 3, instance: "i", sequence: 4}), appendLoser(nil, loser),
		appendOrder(nil, recordOrder, order{5, "x"}), appendOrder(nil, recordOrder, order{6, "y"}), appendOrder(nil, recordSent, order{5, "x"}),
	} {
		if err := s.replay(record); err != nil {
			t.Fatalf("%q: %v", record, err)
		}
	}
	put := intent{version: 7, size: 3, sum: Sum{8}, at: 9}
	for _, record := range [][]byte{
		appendIntent(nil, recordIntent, "d/f", &put), appendIntent(nil, recordIntent, "d/f", &intent{inward: true, deleted: true, version: 8}),
		appendIntent(nil, recordDropped, "d/f", &intent{inward: true, deleted: true, version: 8}),
		appendIntent(nil, recordIntent, "g", &put), appendEntry(nil, "g", &entry{base: base{known: true, version: 8}}),
	} {
		if err := s.replay(record); err != nil {
			t.Fatalf("%q: %v", record, err)
		}
	}
	delete(s.entries, "g")
	if len(s.open) != 1 || len(s.open["d/f"]) != 1 || s.open["d/f"][0] != put {
		t.Errorf("%+v", s.open)
	}
	if got := s.entries["d/f"]; len(s.entries) != 1 || *got != want {
		t.Errorf("%+v", got)
	}
	if len(s.losers) != 1 || s.losers[0] != loser || len(s.orders) != 1 || s.orders["y"].sequence != 6 || s.meta.sequence != 6 || s.meta.instance != "i" {
		t.Errorf("%+v", s)
	}
}

// Whatever a record says, it is understood or refused; what was understood is
// the same when it is written and read again.
func FuzzReplay(f *testing.F) {
	e := entry{base: base{known: true, version: 7, size: 9, sum: Sum{1}}, print: fingerprint{taken: true}}
	f.Add(appendEntry(nil, "d/f", &e))
	f.Add(appendMeta(nil, meta{clock: 1, instance: "i"}))
	f.Add(appendLoser(nil, Loser{Path: "a", Rule: RemoteWins}))
	f.Add(appendOrder(nil, recordOrder, order{5, "x"}))
	f.Add(appendText([]byte{recordForget}, "x"))
	f.Add(appendIntent(nil, recordIntent, "x", &intent{version: 1, sum: Sum{2}}))
	f.Add([]byte{recordEntry, 0xff})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		s := newState()
		if s.replay(record) != nil {
			return
		}
		for path, known := range s.entries {
			again := newState()
			if err := again.replay(appendEntry(nil, path, known)); err != nil || *again.entries[path] != *known {
				t.Fatalf("%+v, then %+v, %v", known, again.entries[path], err)
			}
		}
	})
}

// A journal whose records make no sense was written by another version: the
// folder is not touched.
func TestAJournalOfAnotherVersionIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.write("f", "content")
	w.sync()
	if err := w.engine.state.append(true, []byte{'?', 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(w.dir + "/" + journalName)
	if err != nil {
		t.Fatal(err)
	}
	if engine, err := Open(Options{Dir: w.dir, Remote: w.vfs, Breaker: w.breaker}); err == nil {
		_ = engine.Close()
		t.Fatal("it was opened")
	}
	if after, err := os.ReadFile(w.dir + "/" + journalName); err != nil || !bytes.Equal(before, after) {
		t.Fatal("it was changed")
	}
}
