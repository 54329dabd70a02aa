package store

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestPlacesAreAsInAMap gives a table many keys and takes them away again.
func TestPlacesAreAsInAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var table placeTable
		want := make(map[string]valuePlace)
		number := rapid.IntRange(0, 40)
		for n := range rapid.IntRange(1, 400).Draw(t, "changes") {
			key := fmt.Sprint("r/topic/", number.Draw(t, "key"))
			if rapid.Bool().Draw(t, "removed") {
				if size := table.remove([]byte(key)); size != want[key].size {
					t.Fatalf("%q had %d bytes, want %d", key, size, want[key].size)
				}
				delete(want, key)
			} else {
				p := table.of([]byte(key))
				if *p != want[key] && *p != (valuePlace{key: key}) {
					t.Fatalf("%q was at %+v, want %+v", key, *p, want[key])
				}
				*p = valuePlace{key: key, record: uint64(n), at: uint32(n), size: uint32(n + 1)}
				want[key] = *p
			}
			if table.len() != len(want) {
				t.Fatalf("%d keys, want %d", table.len(), len(want))
			}
		}
		for n := range 41 {
			key := fmt.Sprint("r/topic/", n)
			is, ok := want[key]
			if p := table.find([]byte(key)); (p != nil) != ok || ok && *p != is {
				t.Fatalf("%q is at %+v, want %+v", key, p, is)
			}
		}
	})
}

// TestEveryPlaceOfManyIsFound goes beyond a chunk of entries, with and without those of
// removed keys.
func TestEveryPlaceOfManyIsFound(t *testing.T) {
	t.Parallel()
	const many = 5*placeChunk + 1
	key := func(i int) []byte { return fmt.Append(nil, "s/", i) }
	var table placeTable
	for i := range many {
		table.of(key(i)).record = uint64(i)
	}
	for i := 0; i < many; i += 2 {
		table.remove(key(i))
	}
	for i := many; i < many+many/2; i++ {
		table.of(key(i)).record = uint64(i)
	}
	if table.used != many {
		t.Errorf("%d entries for %d keys", table.used, many)
	}
	for i := range many + many/2 {
		p := table.find(key(i))
		if there := i >= many || i%2 == 1; there != (p != nil) || there && p.record != uint64(i) {
			t.Fatalf("%s is at %+v", key(i), p)
		}
	}
}
