package mirror

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/vfs"
)

// The index of spellings finds what a walk finds.
func TestTheIndexOfSpellingsIsAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x spellingIndex
		all := make(map[string]bool)
		name := rapid.StringMatching(`[aA](/[aAb]){0,2}`)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			path := name.Draw(t, "path")
			switch add := rapid.Bool().Draw(t, "add"); {
			case add && !all[path]:
				x.add(path)
				all[path] = true
			case !add && all[path]:
				x.remove(path)
				delete(all, path)
			}
			at := name.Draw(t, "at")
			want := false
			for path := range all {
				var names vfs.Collisions
				names.Add(path)
				want = want || names.Check(at) != nil
			}
			if got := x.check(at) != nil; got != want {
				t.Fatalf("%s beside %v: in the way %t, want %t", at, all, got, want)
			}
		}
		for path := range all {
			x.remove(path)
		}
		if len(x.files)+len(x.folders) > 0 {
			t.Fatalf("left: %+v", x)
		}
	})
}

// The index says the same as a walk over all paths.
func TestTheIndexOfPathsIsAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x pathIndex
		all := make(map[string]bool)
		name := rapid.StringMatching(`[ab](/[ab]){0,3}`)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			path := name.Draw(t, "path")
			if rapid.Bool().Draw(t, "add") {
				x.add(path)
				all[path] = true
			} else {
				x.remove(path)
				delete(all, path)
			}
			at := name.Draw(t, "at")
			var want []string
			for path := range all {
				if path == at || strings.HasPrefix(path, at+"/") {
					want = append(want, path)
				}
			}
			got := x.below(at)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) || x.has(at) != (len(want) > 0) {
				t.Fatalf("below %s: %q, want %q; has it: %t", at, got, want, x.has(at))
			}
		}
		for path := range all {
			x.remove(path)
		}
		if len(x.folders) > 1 || len(x.folders["."]) > 0 {
			t.Fatalf("left: %v", x.folders)
		}
	})
}
