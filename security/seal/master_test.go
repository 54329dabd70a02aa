package seal

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/security/masterkey"
)

// A house is what bridges share.
type house struct {
	keys    *recordstest.Memory[DataKey]
	masters *recordstest.Memory[masterkey.Version]
	holders *recordstest.Memory[masterkey.Holder]
	first   []byte // version of the master key
}

func newHouse() *house {
	return &house{keys: recordstest.New[DataKey](), masters: recordstest.New[masterkey.Version](), holders: recordstest.New[masterkey.Holder]()}
}

// folder is the data folder of a bridge with the first version of the master key.
func (h *house) folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{KeyFile: h.first, masterkey.PepperFile: []byte("pepper")} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// start starts a bridge, which may be killed by its process.
func (h *house) start(t testing.TB, dir, bridge string, p *recordstest.Process) *Store {
	t.Helper()
	s, err := Open(dir, bridge, Tables{
		Keys:    recordstest.Mortal[DataKey]{Memory: h.keys, Name: "data key", Process: p},
		Masters: recordstest.Mortal[masterkey.Version]{Memory: h.masters, Name: "version", Process: p},
		Holders: recordstest.Mortal[masterkey.Holder]{Memory: h.holders, Name: "holder", Process: p},
	}, slog.New(slog.DiscardHandler))
	if err == nil {
		err = s.Start(t.Context(), true, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		t.Fatal(err)
	}
	if h.first == nil {
		if h.first, err = os.ReadFile(filepath.Join(dir, KeyFile)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Whenever the process dies, all bridges open what was sealed, the one that was away
// with the first master key too, and no data key stays under that.
func TestDataKeysMoveToTheNextMasterKey(t *testing.T) {
	for after := range 2 {
		for dies := 1; ; dies++ {
			h := newHouse()
			dir := h.folder(t)
			other := h.start(t, dir, "a", &recordstest.Process{})
			sealed := [][]byte{seal(t, other.Ring, "one", "p")}
			for range 2 {
				if _, err := other.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
				sealed = append(sealed, seal(t, other.Ring, "more", "p"))
			}
			opens := func(s *Store, what string) {
				t.Helper()
				for i, box := range sealed {
					if _, err := s.Open(box, "p"); err != nil {
						t.Errorf("%s (%d): value %d: %v", what, dies, i, err)
					}
				}
			}
			work := func(s *Store) (n int, err error) {
				version, err := s.File.Stage(t.Context())
				if err == nil {
					err = s.File.Activate(t.Context(), version)
				}
				if err == nil {
					n, err = s.Follow(t.Context())
				}
				return n, err
			}
			life := &recordstest.Process{Dies: dies, After: after == 1}
			n, err := work(h.start(t, dir, "a", life))
			dead, at := life.Dead()
			if !dead && (err != nil || n != 3) {
				t.Fatalf("sealed %d anew, %v", n, err)
			}
			next, away := h.start(t, dir, "a", &recordstest.Process{}), h.start(t, h.folder(t), "c", &recordstest.Process{})
			for _, s := range []*Store{other, next, away} {
				opens(s, "killed at "+at)
			}
			if _, err := work(next); err != nil {
				t.Errorf("killed at %s (%d): then: %v", at, dies, err)
			}
			active, _, err := away.File.Active()
			if wrapped := next.Wrapped(); err != nil || len(wrapped) != 1 || wrapped[active] != 3 {
				t.Errorf("killed at %s (%d): sealed by %v, not by %s (%v)", at, dies, wrapped, active, err)
			}
			sealed = append(sealed, seal(t, next.Ring, "last", "p"))
			for _, s := range []*Store{next, away, h.start(t, dir, "a", &recordstest.Process{})} {
				opens(s, "in the end, killed at "+at)
			}
			if !dead {
				break
			}
		}
	}
}

func TestWithoutRotationNothingIsWritten(t *testing.T) {
	h := newHouse()
	s := h.start(t, h.folder(t), "", &recordstest.Process{})
	before := h.keys.Writes()
	if n, err := s.Follow(t.Context()); n != 0 || err != nil || h.keys.Writes() != before || h.masters.Writes()+h.holders.Writes() != 0 {
		t.Errorf("sealed %d anew, %v, with %d writes", n, err, h.keys.Writes()-before)
	}
	for _, k := range h.keys.All() {
		if wrapped := s.Wrapped(); wrapped[s.File.First()] != 1 {
			t.Errorf("%+v, %v", k, wrapped)
		}
	}
}

// A bridge of an earlier release knows no versions, and writes data keys without one.
func TestDataKeysOfAnEarlierReleaseAreTheFirstVersions(t *testing.T) {
	h := newHouse()
	dir := h.folder(t)
	h.start(t, dir, "a", &recordstest.Process{})
	earlier, err := New(h.keys, h.first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, earlier, "old", "p")
	s := h.start(t, dir, "a", &recordstest.Process{})
	version, err := s.File.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if wrapped := s.Wrapped(); wrapped[s.File.First()] != 2 {
		t.Errorf("before: %v", wrapped)
	}
	if err := s.File.Activate(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Follow(t.Context()); n != 2 || err != nil {
		t.Errorf("sealed %d anew, %v", n, err)
	}
	if _, err := s.Open(sealed, "p"); err != nil {
		t.Error(err)
	}
}
