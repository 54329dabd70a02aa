package commands

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
)

// TestFlightsAreCountedByParty lets calls of a few parties come and go, and compares
// the counts with a list of them.
func TestFlightsAreCountedByParty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 16
		f := newInFlight(most)
		var flying []*Call
		of := map[protocol.Party]int{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(flying) > 0 && rapid.Bool().Draw(t, "one leaves") {
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				c := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				of[c.Principal.Party()]--
				f.leave(c)
				f.leave(c) // which is ignored
			} else {
				c := &Call{Principal: &protocol.Principal{ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")}, Priority: protocol.High}
				want := taken
				switch {
				case len(flying) >= most:
					want = full
				case of[c.Principal.Party()] >= most/2:
					want = greedy
				}
				if got := f.enter(c); got != want {
					t.Fatalf("%s with %d of %d in flight: %d, want %d", c.Principal.ID, of[c.Principal.Party()], len(flying), got, want)
				}
				if want == taken {
					flying = append(flying, c)
					of[c.Principal.Party()]++
				}
			}
			checkFlights(t, f, len(flying), of)
		}
	})
}

func checkFlights(t *rapid.T, f *inFlight, n int, of map[protocol.Party]int) {
	if f.len() != n {
		t.Fatalf("%d in flight, want %d", f.len(), n)
	}
	for who, known := range f.of {
		if known.n != of[who] || known.who != who || known.n == 0 && known != f.latest {
			t.Fatalf("%v has %d in flight, want %d", who, known.n, of[who])
		}
		delete(of, who)
	}
	for who, left := range of {
		if left != 0 {
			t.Fatalf("%v has none in flight, want %d", who, left)
		}
	}
	for who, known := range f.of {
		of[who] = known.n
	}
}
