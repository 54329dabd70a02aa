package registry

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderedIsLikeASortedMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]int{}
		o := newOrdered(func(p pair) string { return p.key })
		key := rapid.Map(rapid.IntRange(0, 2000), func(n int) string { return fmt.Sprintf("%04d", n) })
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 1500).Draw(t, "operations") {
			k := key.Draw(t, "key")
			if n == 0 {
				o.remove(k)
				delete(model, k)
			} else {
				o.put(pair{k, i})
				model[k] = i
			}
		}
		from := key.Draw(t, "from")
		var want []pair
		for _, k := range slices.Sorted(maps.Keys(model)) {
			if k > from {
				want = append(want, pair{k, model[k]})
			}
		}
		if got := slices.Collect(o.after(from)); !slices.Equal(got, want) {
			t.Fatalf("after %s:\n got %v\nwant %v", from, got, want)
		}
		if o.len() != len(model) {
			t.Fatalf("has %d values, want %d", o.len(), len(model))
		}
		for _, chunk := range o.chunks {
			if len(chunk) == 0 || len(chunk) > chunkSize {
				t.Fatalf("a chunk of %d values", len(chunk))
			}
		}
	})
}

func TestOrderedFilledInOrderLeavesFullChunks(t *testing.T) {
	t.Parallel()
	o := newOrdered(func(p pair) string { return p.key })
	for i := range 10 * chunkSize {
		o.put(pair{fmt.Sprintf("%06d", i), i})
	}
	if len(o.chunks) > 11 {
		t.Errorf("%d values in %d chunks", o.len(), len(o.chunks))
	}
}

type pair struct {
	key   string
	value int
}
