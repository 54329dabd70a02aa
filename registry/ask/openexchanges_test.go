package ask

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestOpenExchangesAreFoundAsByAMap has ids of this process, some of them at one place of the
// ring, others that only look like them, and the ids of others.
func TestOpenExchangesAreFoundAsByAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		numbered := NewIDs()
		ids := rapid.Custom(func(t *rapid.T) string {
			n := rapid.SampledFrom([]uint64{0, 1, 2, 1 + exchangeRing, 1 + 2*exchangeRing, 9_999_999_999_999_999_999}).Draw(t, "number")
			form := rapid.SampledFrom([]string{"%[1]s%[2]d", "%[1]s0%[2]d", "%[1]s+%[2]d", "%[1]s%[2]dx", "%[2]d", "%[1]s", "x%[1]s%[2]d"}).Draw(t, "form")
			return fmt.Sprintf(form, numbered.prefix, n)
		})
		x := exchangeIndex{ids: numbered, byID: make(map[string]*exchange)}
		model := make(map[string]*exchange)
		var all []*exchange
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				e := &exchange{id: ids.Draw(t, "id")}
				x.put(e)
				model[e.id], all = e, append(all, e)
			},
			"remove": func(t *rapid.T) {
				if e := model[ids.Draw(t, "id")]; e != nil {
					x.remove(e)
					delete(model, e.id)
				}
			},
			"get": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				if got := x.get([]byte(id)); got != model[id] {
					t.Fatalf("%q is %p, want %p", id, got, model[id])
				}
			},
			"": func(t *rapid.T) {
				if x.len() != len(model) {
					t.Fatalf("%d are open, want %d", x.len(), len(model))
				}
				for _, e := range all {
					if got, want := x.has(e), model[e.id] == e; got != want {
						t.Fatalf("%q is open: %t, want %t", e.id, got, want)
					}
				}
			},
		})
	})
}
