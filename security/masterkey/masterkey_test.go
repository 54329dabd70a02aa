package masterkey

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/keyfile"
)

// A house is what bridges share.
type house struct {
	versions *recordstest.Memory[Version]
	holders  *recordstest.Memory[Holder]
	clock    time.Time
}

func newHouse() *house {
	return &house{recordstest.New[Version](), recordstest.New[Holder](), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

// folder is a data folder with a pepper, and with a key unless that is 0.
func folder(t testing.TB, pepper, key byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]byte{PepperFile: pepper, "x.key": key} {
		if content == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{content}, Size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (h *house) open(t testing.TB, dir, bridge string) *File {
	t.Helper()
	f, err := Open(Options{Dir: dir, Name: "x.key", Bridge: bridge, Versions: h.versions, Holders: h.holders, Now: func() time.Time { return h.clock }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rotate makes the next version, which the bridges put into their files.
func (h *house) rotate(t testing.TB, one *File, all ...*File) (version string) {
	t.Helper()
	version, err := one.Stage(t.Context())
	if err == nil {
		err = one.Activate(t.Context(), version)
	}
	for _, f := range all {
		err = errors.Join(err, f.Adopt(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	h.clock = h.clock.Add(Settle)
	return version
}

func states(f *File) string {
	var all []string
	for _, v := range f.Versions() {
		text := v.Number() + " " + string(v.State)
		if len(v.Bridges) > 0 {
			text += " at " + strings.Join(v.Bridges, ",")
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// active is the version that a bridge seals with, and what a bridge that starts in the
// folder would.
func active(t testing.TB, h *house, f *File, dir string) string {
	t.Helper()
	id, key, err := f.Active()
	again, _, reopened := h.open(t, dir, "").Active()
	if err != nil || reopened != nil || id != again || keyfile.Fingerprint("x.key", key) != id {
		t.Errorf("active is %s, %v; after a start %s, %v", id, err, again, reopened)
	}
	return id
}

func TestAFileRotatesAtAllBridges(t *testing.T) {
	h := newHouse()
	dirs := []string{folder(t, 1, 7), folder(t, 1, 7), folder(t, 1, 7)}
	a, b := h.open(t, dirs[0], "a"), h.open(t, dirs[1], "b")
	first, _, err := a.Active()
	if err != nil || a.Rotated() || a.First() != first || !slices.Equal(a.Accepted(), []string{first}) || states(a) != "1 active" {
		t.Fatalf("at first: %s, %v", states(a), err)
	}
	if version, err := a.Stage(t.Context()); err != nil || version != "2" {
		t.Fatalf("staged %s, %v", version, err)
	}
	if version, err := b.Stage(t.Context()); err != nil || version != "2" || b.Newest() != "2" || active(t, h, b, dirs[1]) != first {
		t.Errorf("staged again %s, %v", version, err)
	}
	h.rotate(t, b, a, b)
	if got := states(a); got != "2 active at a,b; 1 open" || active(t, h, a, dirs[0]) == first || active(t, h, a, dirs[0]) != active(t, h, b, dirs[1]) {
		t.Errorf("rotated: %s", got)
	}
	if len(a.Keys()) != 2 || a.Key(first) == nil || a.First() != first || len(b.Accepted()) != 2 {
		t.Error("the first version cannot be had any more")
	}

	h.rotate(t, a, a) // b is away
	c := h.open(t, dirs[2], "c")
	if err := c.Adopt(t.Context()); err != nil || states(c) != "3 active at a,c; 2 open at b; 1 open" {
		t.Errorf("with the first file: %s, %v", states(c), err)
	}
	if b = h.open(t, dirs[1], "b"); b.Adopt(t.Context()) != nil || states(b) != "3 active at a,b,c; 2 open; 1 open" {
		t.Errorf("back with the second file: %s", states(b))
	}
	if active(t, h, a, dirs[0]) != active(t, h, b, dirs[1]) || active(t, h, b, dirs[1]) != active(t, h, c, dirs[2]) {
		t.Error("the bridges have different versions")
	}
}

func TestAVersionIsRetiredOnce(t *testing.T) {
	h := newHouse()
	dir, late := folder(t, 1, 7), folder(t, 1, 7)
	a := h.open(t, dir, "a")
	refused := func(version, why string) {
		t.Helper()
		if err := a.Retire(t.Context(), version, nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("version %s: %v, want %q", version, err, why)
		}
	}
	refused("2", "there is no version")
	refused("1", "rotate it first")
	if _, err := a.Stage(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("2", "is staged")
	h.rotate(t, a, a)
	h.rotate(t, a, a)
	h.clock = h.clock.Add(-1)
	refused("1", "less than 1m0s")
	h.clock = h.clock.Add(1)
	refused("2", "retire it first")
	for range 2 {
		if err := a.Retire(t.Context(), "1", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := states(a); got != "3 active at a; 2 open; 1 retired" || len(a.Keys()) != 2 || len(a.Accepted()) != 2 {
		t.Errorf("retired: %s", got)
	}
	b := h.open(t, late, "b")
	if _, _, err := b.Active(); !errors.Is(err, ErrOther) || b.Adopt(t.Context()) == nil {
		t.Errorf("a bridge that has the retired one: %v", err)
	}
	if _, err := b.Stage(t.Context()); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("it stages: %v", err)
	}
	if got := states(b); got != "3 unreadable at a; 2 unreadable; 1 retired" {
		t.Errorf("it sees %s", got)
	}
	if err := a.Retire(t.Context(), "2", []string{"b"}); err != nil || active(t, h, a, dir) == "" {
		t.Error(err)
	}
}

// What leads from one version to the next is of no use to who has the old file
// alone, or another one.
func TestTheWayOnwardTakesTheFileAndThePepper(t *testing.T) {
	for name, test := range map[string]struct {
		pepper, key byte
		finds       bool
	}{
		"both":           {1, 7, true},
		"another pepper": {2, 7, false},
		"no pepper":      {0, 7, false},
		"another file":   {1, 8, false},
	} {
		h := newHouse()
		a := h.open(t, folder(t, 1, 7), "a")
		h.rotate(t, a, a)
		_, _, err := h.open(t, folder(t, test.pepper, test.key), "b").Active()
		if (err == nil) != test.finds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileThatIsLostIsMadeAnew(t *testing.T) {
	h := newHouse()
	dir := folder(t, 1, 0)
	a := h.open(t, dir, "")
	if a.There() || states(a) != "" || a.Newest() != "" {
		t.Errorf("there is %s", states(a))
	}
	if _, _, err := a.Active(); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if err := a.Make(t.Context()); err != nil || !a.There() || a.Begun() || states(a) != "1 active" {
		t.Fatalf("made: %s, %v", states(a), err)
	}
	h.rotate(t, a, a)
	if err := os.Remove(filepath.Join(dir, "x.key")); err != nil {
		t.Fatal(err)
	}
	a = h.open(t, dir, "")
	h.versions.BreakNext(1)
	if err := a.Make(t.Context()); err == nil || h.open(t, dir, "").There() {
		t.Errorf("made without its record: %v", err)
	}
	if err := a.Make(t.Context()); err != nil || !a.Begun() || states(a) != "3 active; 2 unreadable; 1 unreadable" || len(a.Accepted()) != 1 {
		t.Errorf("made anew: %s, %v", states(a), err)
	}
	h.rotate(t, a, a)
	if got := states(h.open(t, dir, "")); got != "4 active; 3 open; 2 unreadable; 1 unreadable" {
		t.Errorf("rotated: %s", got)
	}
}

func TestAFileThatIsCutIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Name: "x.key"}); err == nil || !strings.Contains(err.Error(), "x.key has 5 bytes") {
		t.Errorf("opened: %v", err)
	}
}

// Whatever is written when the process dies, the bridge finds its way from its file,
// and so do those that were there and one that was away.
func TestARotationThatDiesIsGoneOnWith(t *testing.T) {
	for after := range 2 {
		for dies := 1; ; dies++ {
			life := &recordstest.Process{Dies: dies, After: after == 1}
			h := newHouse()
			dirs := []string{folder(t, 1, 7), folder(t, 1, 7), folder(t, 1, 7)}
			first := h.open(t, dirs[2], "c").held
			work := func(p *recordstest.Process) error {
				f, err := Open(Options{
					Dir: dirs[0], Name: "x.key", Bridge: "a", Now: func() time.Time { return h.clock },
					Versions: recordstest.Mortal[Version]{Memory: h.versions, Name: "version", Process: p},
					Holders:  recordstest.Mortal[Holder]{Memory: h.holders, Name: "holder", Process: p},
					Write: func(path string, data []byte) error {
						done, alive := p.Step("write the file")
						if done {
							if err := keyfile.Write(path, data); err != nil {
								return err
							}
						}
						if !alive {
							return recordstest.ErrKilled
						}
						return nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if f.Key(first) == nil && !slices.ContainsFunc(f.Versions(), func(v View) bool { return v.ID == first && v.State == StateRetired }) {
					return fmt.Errorf("the first version cannot be reached: %s", states(f))
				}
				if _, _, err := f.Active(); err != nil {
					return err
				}
				version, err := f.Stage(t.Context())
				if err == nil {
					err = f.Activate(t.Context(), version)
				}
				if err == nil {
					err = f.Adopt(t.Context())
				}
				if err != nil {
					return err
				}
				if err := h.open(t, dirs[1], "b").Adopt(t.Context()); err != nil {
					return err
				}
				h.clock = h.clock.Add(Settle)
				return f.Retire(t.Context(), "1", nil)
			}
			err := work(life)
			dead, at := life.Dead()
			if !dead {
				if err != nil {
					t.Fatal(err)
				}
				if dies < 6 {
					t.Fatalf("%d steps", dies)
				}
				break
			}
			b := h.open(t, dirs[1], "b")
			if err := b.Adopt(t.Context()); err != nil {
				t.Errorf("killed at %s (%d): b: %v", at, dies, err)
			}
			c := h.open(t, dirs[2], "c")
			if _, _, err := c.Active(); err != nil && !slices.ContainsFunc(b.Versions(), func(v View) bool { return v.ID == first && v.State == StateRetired }) {
				t.Errorf("killed at %s (%d): c: %v", at, dies, err)
			}
			if err := work(&recordstest.Process{}); err != nil {
				t.Errorf("killed at %s (%d): then: %v", at, dies, err)
			}
			if a, b := active(t, h, h.open(t, dirs[0], "a"), dirs[0]), active(t, h, h.open(t, dirs[1], "b"), dirs[1]); a != b || a == first {
				t.Errorf("killed at %s (%d): in the end a has %s and b has %s", at, dies, a, b)
			}
		}
	}
}
