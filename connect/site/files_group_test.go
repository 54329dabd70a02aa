package site

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// versionsOf makes the versions of a file of letters, one for each content; - is a deletion.
// A number after a letter is the time that its writer said.
func versionsOf(text string) (all []vfs.File) {
	for i, word := range strings.Fields(text) {
		f := vfs.File{Path: "f", Version: uint64(i + 1), Modified: time.UnixMilli(int64(1000 + i)), Deleted: word == "-"}
		if !f.Deleted {
			f.SHA256[0] = word[0]
			_, _ = fmt.Sscanf(word[1:], "%d", &f.Mtime)
		}
		all = append(all, f)
	}
	return all
}

// copyOf is a version as the centre has it.
func copyOf(f vfs.File) *vfs.File {
	f.Mtime, f.Version, f.Modified = changedAt(&f), f.Version+100, time.UnixMilli(9)
	return &f
}

func textOf(all []vfs.File) string {
	var words []string
	for _, f := range all {
		if f.Deleted {
			words = append(words, "-")
		} else {
			words = append(words, string(f.SHA256[:1]))
		}
	}
	return strings.Join(words, " ")
}

func TestTheCentreGetsTheVersionsThatItLacks(t *testing.T) {
	t.Parallel()
	at := func(text string, i int) *vfs.File { return copyOf(versionsOf(text)[i]) }
	other := copyOf(vfs.File{SHA256: vfs.Sum{'Z'}, Mtime: 5})
	for _, c := range []struct {
		here  string
		there *vfs.File
		want  string
	}{
		{"", nil, ""},
		{"A B C", nil, "A B C"},
		{"A B C", at("A B C", 0), "B C"},
		{"A B C", at("A B C", 1), "C"},
		{"A B C", at("A B C", 2), ""},
		{"A B A C", at("A B A C", 0), "B A C"}, // the first A, by its time
		{"A B A C", at("A B A C", 2), "C"},
		{"A7 B A7 C", at("A7 B A7 C", 0), "C"}, // times that are the same: the newest that it may be
		{"A B A", at("A B A", 0), "B A"},       // the content is the same, and the history is not
		{"A", copyOf(vfs.File{SHA256: vfs.Sum{'A'}, Mtime: 5}), ""},
		{"A -", at("A -", 0), "-"},
		{"A - B", at("A - B", 0), "- B"},
		{"A - B", at("A - B", 1), "B"},
		{"A - B", nil, "A - B"},
		{"- B", nil, "B"},
		{"A -", nil, ""}, // gone before it was there
		{"A -", &vfs.File{Deleted: true}, ""},
		{"A B -", at("A B -", 0), "B -"},
		{"A B", other, "A B"}, // it has something else
		{"- B", other, "- B"},
		{"-", other, "-"},
		{"A B", &vfs.File{Deleted: true}, "A B"},
	} {
		if got := textOf(behind(versionsOf(c.here), c.there)); got != c.want {
			t.Errorf("of %q the centre, which has %+v, gets %q, want %q", c.here, c.there, got, c.want)
		}
	}
}

// TestTheCentreEndsWithTheNewestVersion whatever it had, and has nothing to do then.
func TestTheCentreEndsWithTheNewestVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "A5", "C", "-"}), 1, 8).Draw(t, "here")
		here := versionsOf(strings.Join(words, " "))
		var there *vfs.File
		switch n := rapid.IntRange(-2, len(here)-1).Draw(t, "there"); {
		case n >= 0:
			there = copyOf(here[n])
		case n == -2:
			there = copyOf(vfs.File{SHA256: vfs.Sum{'Z'}})
		}
		last := uint64(0)
		for _, v := range behind(here, there) {
			if v.Version <= last {
				t.Fatalf("version %d comes after %d", v.Version, last)
			}
			last = v.Version
			there = copyOf(v)
		}
		newest := here[len(here)-1]
		if gone := there == nil || there.Deleted; gone != newest.Deleted || !gone && there.SHA256 != newest.SHA256 {
			t.Fatalf("the centre has %+v, and not %+v", there, newest)
		}
		if left := behind(here, there); len(left) > 0 && !newest.Deleted && changedAt(&newest) == there.Mtime {
			t.Fatalf("%q is still to follow", textOf(left))
		}
	})
}

func TestChangesWaitForTheComparison(t *testing.T) {
	t.Parallel()
	g := newFollowed("pictures")
	if g.changed("m"); len(g.dirty) != 0 {
		t.Error("what a comparison comes to is noted twice")
	}
	g.cursor = "k"
	g.changed("a")
	g.changed("m")
	if !g.dirty["a"] || g.dirty["m"] {
		t.Errorf("%v is to follow beside the comparison", g.dirty)
	}
	g.compared = true
	if g.changed("m"); !g.dirty["m"] {
		t.Errorf("%v is to follow", g.dirty)
	}
	for i := range mostDirty {
		g.changed(fmt.Sprint(i))
	}
	if g.compared || len(g.dirty) > mostDirty || g.cursor != "" {
		t.Errorf("many changes are not compared together: %d", len(g.dirty))
	}
}

func TestARefusalIsSaid(t *testing.T) {
	t.Parallel()
	g := newFollowed("pictures")
	if err := g.trouble(); err != nil {
		t.Error(err)
	}
	g.refuses("b", errors.New("no room"))
	if err := g.trouble(); err == nil || err.Error() != "b: no room" {
		t.Errorf("%v", err)
	}
	for i := range mostRefused + 50 {
		g.refuses(fmt.Sprintf("c%03d", i), errors.New("no room"))
	}
	if err := g.trouble(); len(g.refused) != mostRefused || err == nil || err.Error() != "b and 150 more: no room" {
		t.Errorf("%d are noted: %v", len(g.refused), err)
	}
	g.anew()
	if err := g.trouble(); err != nil || g.refusals() != 0 {
		t.Errorf("%v", err)
	}
}

func TestGroupsOfAnotherSpaceAreComparedAnew(t *testing.T) {
	t.Parallel()
	f := newFollower(New(Options{Join: Join{Files: []string{"*"}}}))
	for _, c := range []struct {
		space    protocol.SpaceID
		compared bool
	}{{"red", false}, {"red", true}, {"blue", false}, {"blue", true}} {
		if f.keep(c.space, []string{"pictures"}); f.groups["pictures"].compared != c.compared {
			t.Errorf("the group of %s is compared: %t", c.space, !c.compared)
		}
		f.groups["pictures"].compared = true
	}
}

func TestChangesOfFilesAreBounded(t *testing.T) {
	t.Parallel()
	s := New(Options{Join: Join{Files: []string{"*"}}})
	s.FileChanged("default", "g", "before anybody asks")
	s.changes.begin()
	for i := range mostChanges + 5 {
		s.FileChanged("default", "g", fmt.Sprint(i))
	}
	files, all := s.changes.drain()
	if len(files) != mostChanges || !all || files[changedFile{"default", "g", "before anybody asks"}] {
		t.Errorf("%d changes, all %t", len(files), all)
	}
	if files, all := s.changes.drain(); len(files) != 0 || all {
		t.Errorf("%d changes once more", len(files))
	}
	s.space = "default"
	for i := range mostChanges + 5 {
		s.FileChanged("other", "g", fmt.Sprint(i))
	}
	if files, all := s.changes.drain(); len(files) != 0 || all {
		t.Errorf("another tenant has %d files followed, all %t", len(files), all)
	}
	s.changes.end()
	s.FileChanged("default", "g", "after")
	if len(s.changes.files) != 0 {
		t.Error("changes are noted for nobody")
	}
}
