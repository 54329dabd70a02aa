package listing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type thing struct {
	id   string
	name string
	size int64
}

var order = Order[thing]{
	ID: func(t thing) string { return t.id },
	Keys: map[string]func(thing) Key{
		"name": func(t thing) Key { return Text(t.name) },
		"size": func(t thing) Key { return Number(t.size) },
	},
}

func things(n int) []thing {
	all := make([]thing, n)
	for i := range all {
		all[i] = thing{id: fmt.Sprintf("t%04d", i), name: fmt.Sprintf("n/%d", i%7), size: int64(i%5) - 2}
	}
	rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func TestPagesTogetherAreTheWholeListInItsOrder(t *testing.T) {
	t.Parallel()
	for _, sort := range []string{"", "id", "-id", "name", "-name", "size", "-size"} {
		for _, limit := range []int{1, 3, 100, 1000} {
			all := things(211)
			var got []thing
			page := Page{Limit: limit}
			for {
				s, err := order.Select(slices.Values(all), sort, page)
				if err != nil {
					t.Fatalf("%q: %v", sort, err)
				}
				if s.Total != len(all) {
					t.Fatalf("%q: the total is %d of %d", sort, s.Total, len(all))
				}
				got = append(got, s.Items...)
				if page.Cursor = s.Next; s.Next == "" {
					break
				}
				if len(s.Items) != limit {
					t.Fatalf("%q: a page that is not the last has %d items of %d", sort, len(s.Items), limit)
				}
			}
			by, err := order.by(map[bool]string{true: "id", false: sort}[sort == ""])
			if err != nil {
				t.Fatal(err)
			}
			want := slices.SortedFunc(slices.Values(all), func(a, b thing) int { return by.compare(by.position(a), by.position(b)) })
			if !slices.Equal(got, want) {
				t.Errorf("sorted by %q, %d a page, the list is not what it is as a whole", sort, limit)
			}
		}
	}
}

func TestAPageIsStableWhenItemsComeAndGo(t *testing.T) {
	t.Parallel()
	all := []thing{{id: "a", size: 1}, {id: "b", size: 2}, {id: "c", size: 3}, {id: "d", size: 4}}
	first, err := order.Select(slices.Values(all), "size", Page{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	all = append(slices.Delete(all, 1, 2), thing{id: "e", size: 0}) // the last of the page is gone, another came before it
	second, err := order.Select(slices.Values(all), "size", Page{Limit: 2, Cursor: first.Next})
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Items) != 2 || second.Items[0].id != "c" || second.Items[1].id != "d" || second.Next != "" {
		t.Errorf("the second page is %+v", second)
	}
}

func TestACursorOfAnotherOrderIsRefused(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"t0001", "%%%", "MQ", "MS85OTk5L3g"} {
		if _, err := order.Select(slices.Values(things(3)), "size", Page{Cursor: cursor}); err == nil {
			t.Errorf("the cursor %q is taken", cursor)
		}
	}
	if _, err := order.Select(slices.Values(things(3)), "colour", Page{}); err == nil {
		t.Error("a column that is none is taken")
	}
}

func TestFindLooksForTextInAnyCase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		word, text string
		want       bool
	}{
		{"", "anything", true}, {"LAMP", "the lamp-1", true}, {"lamp", "LAMP", true}, {"lamps", "lamp", false}, {"ö", "KÖLN", true},
	} {
		if got := Find(tt.word).In("", tt.text); got != tt.want {
			t.Errorf("%q in %q: %v", tt.word, tt.text, got)
		}
	}
}

func BenchmarkAPageOf100000(b *testing.B) {
	all := things(100_000)
	for b.Loop() {
		if _, err := order.Select(slices.Values(all), "-size", Page{}); err != nil {
			b.Fatal(err)
		}
	}
}
