package topic

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBranchesAreAsInAMap gives a name many siblings, and takes them away again.
func TestBranchesAreAsInAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var names Names[string]
		want := make(map[string]bool)
		number := rapid.IntRange(0, 60)
		for range rapid.IntRange(1, 400).Draw(t, "changes") {
			name := fmt.Sprint("lamp/", number.Draw(t, "lamp"), []string{"", "/state"}[number.Draw(t, "deep")%2])
			if rapid.Bool().Draw(t, "deleted") {
				names.Delete(name)
				delete(want, name)
				continue
			}
			names.Set(name, name)
			want[name] = true
		}
		names.root.count(t)
		for n := range 61 {
			for _, name := range []string{fmt.Sprint("lamp/", n), fmt.Sprint("lamp/", n, "/state")} {
				if got, ok := names.Get(name); ok != want[name] || ok && got != name {
					t.Fatalf("%q has %q, %v", name, got, ok)
				}
			}
		}
		var all, covered []string
		names.All(func(name string) bool { all = append(all, name); return true })
		names.Covered("#", func(name string) bool { covered = append(covered, name); return true })
		slices.Sort(all)
		slices.Sort(covered)
		if !slices.Equal(all, covered) || len(all) != len(want) {
			t.Fatalf("all are %q, covered %q, want %d", all, covered, len(want))
		}
	})
}

// TestAllNamesAreYieldedUntilEnough includes those that wildcards do not cover.
func TestAllNamesAreYieldedUntilEnough(t *testing.T) {
	t.Parallel()
	var names Names[int]
	for i, name := range []string{"$SYS/a", "b", "b/c", "/"} {
		names.Set(name, i)
	}
	found := 0
	names.All(func(int) bool { found++; return true })
	if found != 4 {
		t.Errorf("%d names, want 4", found)
	}
	found = 0
	names.All(func(int) bool { found++; return found < 2 })
	if found != 2 {
		t.Errorf("%d names after two were enough", found)
	}
}
