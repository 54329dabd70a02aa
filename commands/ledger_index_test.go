package commands

import (
	"iter"
	"testing"

	"pgregory.net/rapid"
)

// all yields the slots that are in the index.
func (x *ledgerIndex) all() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for i := range x.tables {
			for _, p := range x.tables[i].buckets {
				if p.slot != noSlot && !yield(p.slot) {
					return
				}
			}
		}
	}
}

// TestTheIndexFindsWhatAMapWould lets keys be much alike, so that many share a
// place and a table.
func TestTheIndexFindsWhatAMapWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var records recordTable
		x := ledgerIndex{records: &records}
		model := make(map[entryKey]slot)
		keys := rapid.Custom(func(t *rapid.T) entryKey {
			return entryKey{
				a: rapid.SampledFrom([]uint64{0, 1, indexTables, 7 * indexTables}).Draw(t, "a"),
				b: rapid.SampledFrom([]uint64{0, 1, 2, 15, 16, 17, 31, 32, 1 << 32, 1<<32 + 15}).Draw(t, "b"),
			}
		})
		check := func() {
			if x.count != len(model) {
				t.Fatalf("%d keys, want %d", x.count, len(model))
			}
			for k, s := range model {
				if got := x.find(k); got != s {
					t.Fatalf("%v: %d, want %d", k, got, s)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				s, known := x.enter(k)
				if had := model[k]; known != (had != noSlot) || known && s != had || records.at(s).key != k {
					t.Fatalf("%v: slot %d, known %t, want %d", k, s, known, had)
				}
				model[k] = s
			},
			"remove": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				x.remove(k)
				delete(model, k)
			},
			"find": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				if got := x.find(k); got != model[k] {
					t.Fatalf("%v: %d, want %d", k, got, model[k])
				}
			},
			"": func(*rapid.T) { check() },
		})
	})
}
