package topic

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFiltersAreChecked(t *testing.T) {
	t.Parallel()
	for _, f := range []string{"a", "/", "//", "+", "#", "a/#", "+/+/#", "a b/ü", "$SYS/#", "$share/g/a", "$share/g/#", "$share/g//", "$sharex/#", "/a"} {
		if !ValidFilter(f) {
			t.Errorf("%q is refused", f)
		}
	}
	// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT-4.7.3-3] [MQTT-4.8.2-1] [MQTT-4.8.2-2]
	for _, f := range []string{"", "a#", "a/#/b", "#/", "a+", "+a/b", "a/b+", "$share/", "$share/g", "$share/g/", "$share//a", "$share/g+/a", "$share/#/a", "$share/g/a#", strings.Repeat("x", 65536)} {
		if ValidFilter(f) {
			t.Errorf("%q passes", f)
		}
	}
}

// [MQTT-4.7.0-1] [MQTT-4.7.3-2]
func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"a": true, "/": true, "": false, "a/+": false, "#": false, "a\x00": false, strings.Repeat("x", 65536): false} {
		if ValidName(name) != want {
			t.Errorf("ValidName(%.20q) is %v", name, !want)
		}
	}
}

func TestLevelsAreCounted(t *testing.T) {
	t.Parallel()
	for path, levels := range map[string]int{"a": 1, "/": 2, "a/b/c": 3, "a/b/": 3, "#": 1, "abc/def": 2, "//////": 7} {
		for most := 1; most < 10; most++ {
			if got, want := DeeperThan(most, path), levels > most; got != want {
				t.Errorf("%q is deeper than %d: %v", path, most, got)
			}
		}
	}
}

// Examples of MQTT 5 §4.7. [MQTT-4.7.1-3] [MQTT-4.7.2-1] [MQTT-4.7.3-4]
// [MQTT-3.3.2-3]
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, name string
		want         bool
	}{
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/tennis/player1/#", "sport/tennis/player2", false},
		{"#", "anything/at/all", true},
		{"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false},
		{"sport/+", "sport", false}, {"sport/+", "sport/", true}, {"sport/#", "sport", true},
		{"+/+", "/finance", true}, {"/+", "/finance", true}, {"+", "/finance", false},
		{"#", "$SYS/x", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"$SYS/#", "$SYS", true}, {"a/+", "a/$x", true},
		{"a/b/#", "a", false}, {"a", "A", false}, {"a", "a/", false}, {"+/#", "a", true},
	} {
		if Match(c.filter, c.name) != c.want {
			t.Errorf("Match(%q, %q) is %v", c.filter, c.name, !c.want)
		}
	}
}

func TestFiltersOverlapWhereANameFitsBoth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/+", "+/b", true}, {"a/b", "a/c", false}, {"#", "a/b", true}, {"a/#", "a", true}, {"a/+", "a", false}, {"a/+/#", "a", false}, {"a/b/#", "a/+", true}, {"a/b/c", "a/b", false},
	} {
		if Overlap(c.a, c.b) != c.want || Overlap(c.b, c.a) != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, !c.want)
		}
	}
	level := rapid.SampledFrom([]string{"a", "b", "+", ""})
	rapid.Check(t, func(t *rapid.T) {
		filter := func(label string) string {
			levels := rapid.SliceOfN(level, 1, 4).Draw(t, label)
			if rapid.Bool().Draw(t, label+" ends in #") {
				levels = append(levels, "#")
			}
			return strings.Join(levels, "/")
		}
		a, b := filter("a"), filter("b")
		fits := false
		for name := range namesUpTo(5, "a", "b", "") {
			fits = fits || Match(a, name) && Match(b, name)
		}
		if fits != Overlap(a, b) {
			t.Fatalf("%q and %q: a name fits both: %v", a, b, fits)
		}
	})
}

// namesUpTo yields all names of so many of the levels.
func namesUpTo(most int, levels ...string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		names := []string{""}
		for deep := range most {
			var deeper []string
			for _, above := range names {
				for _, level := range levels {
					name := level
					if deep > 0 {
						name = above + "/" + level
					}
					if deeper = append(deeper, name); !yield(name) {
						return
					}
				}
			}
			names = deeper
		}
	}
}

// The trees agree with Match, whatever is put in and taken out.
func TestTreesAgreeWithMatch(t *testing.T) {
	t.Parallel()
	level := rapid.SampledFrom([]string{"", "a", "b", "$x", "cc"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(level, 1, 6).Draw(t, "levels"), "/")
	}).Filter(func(s string) bool { return s != "" })
	filter := rapid.Custom(func(t *rapid.T) string {
		levels := rapid.SliceOfN(rapid.OneOf(level, rapid.Just("+")), 0, 6).Draw(t, "levels")
		if len(levels) == 0 || rapid.Bool().Draw(t, "hash") {
			levels = append(levels, "#")
		}
		return strings.Join(levels, "/")
	}).Filter(func(s string) bool { return s != "" })

	rapid.Check(t, func(t *rapid.T) {
		var filters Filters[string]
		var names Names[string]
		hasFilter, hasName := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			f, n := filter.Draw(t, "filter"), name.Draw(t, "name")
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				filters.Delete(f)
				names.Delete(n)
				delete(hasFilter, f)
				delete(hasName, n)
				continue
			}
			filters.Set(f, f)
			names.Set(n, n)
			hasFilter[f], hasName[n] = true, true
		}
		if n := filters.root.count(t); n > 2*len(hasFilter)+1 {
			t.Fatalf("%d nodes for %d filters", n, len(hasFilter))
		}
		names.root.count(t)
		for f := range hasFilter {
			if got, ok := filters.Get(f); !ok || got != f {
				t.Fatalf("%q has %q, %v", f, got, ok)
			}
		}
		probe, cover := name.Draw(t, "probe"), filter.Draw(t, "cover")
		var got, want []string
		filters.Match(probe, func(f string) { got = append(got, f) })
		for f := range hasFilter {
			if Match(f, probe) {
				want = append(want, f)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("filters for %q: %q, want %q", probe, got, want)
		}
		got, want = nil, nil
		names.Covered(cover, func(n string) bool { got = append(got, n); return true })
		for n := range hasName {
			if Match(cover, n) {
				want = append(want, n)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("names under %q: %q, want %q", cover, got, want)
		}
		for f := range hasFilter {
			filters.Delete(f)
		}
		if filters.root.only != nil || filters.root.many != nil {
			t.Fatal("nodes are left behind")
		}
	})
}

// count counts n and the nodes below it, of which none stands for nothing.
func (n *node[V]) count(t *rapid.T) int {
	total := 1
	for child := range n.children() {
		if !child.here && child.many == nil {
			t.Fatalf("nothing branches off %q, and it has no value", child.path)
		}
		total += child.count(t)
	}
	if n.many != nil && n.many.count < 2 {
		t.Fatalf("branches for %d children", n.many.count)
	}
	return total
}

// What a filter costs goes with its bytes, not with its levels.
func TestLevelsCostNoNodes(t *testing.T) {
	t.Parallel()
	var filters Filters[int]
	deep := strings.Repeat("a/", 20_000)
	for i := range 100 {
		filters.Set(deep[i*2:]+"x", i)
		filters.Set(deep[:len(deep)-i*2]+"y", i)
	}
	rapid.Check(t, func(t *rapid.T) {
		if n := filters.root.count(t); n > 401 {
			t.Fatalf("%d nodes for 200 filters", n)
		}
	})
	found := 0
	filters.Match(deep+"y", func(int) { found++ })
	if found != 1 {
		t.Errorf("found %d", found)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/+/#", "a/b/c")
	f.Fuzz(func(t *testing.T, filter, name string) {
		if !ValidFilter(filter) || !ValidName(name) || IsShared(filter) {
			return
		}
		var tree Filters[bool]
		tree.Set(filter, true)
		found := false
		tree.Match(name, func(bool) { found = true })
		if found != Match(filter, name) {
			t.Fatalf("tree says %v", found)
		}
	})
}
