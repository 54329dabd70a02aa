package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
)

// beside makes keepers of bridges that share limits, on clocks that go together.
func beside(t *testing.T, n int, o Options) (all []*world) {
	t.Helper()
	o.Shared = true
	for range n {
		all = append(all, newWorld(t, o))
	}
	return all
}

// second lets a second pass, in steps, with so many commands tried at each bridge,
// and returns the number admitted at each. Then the bridges tell each other.
func second(all []*world, who *protocol.Principal, tried ...int) (admitted []int) {
	const steps = 20
	admitted = make([]int, len(all))
	for range steps {
		for i, w := range all {
			ok, _ := w.admitted(who, tried[i]/steps, 0)
			admitted[i] += ok
			w.now = w.now.Add(time.Second / steps)
		}
	}
	tell(all)
	return admitted
}

func tell(all []*world) {
	uses := make([][]Use, len(all))
	for i, w := range all {
		uses[i] = w.Uses(len(all))
	}
	for i, w := range all {
		others := make(map[string][]Use)
		for j := range all {
			if j != i {
				others[string(rune('a'+j))] = uses[j]
			}
		}
		w.Share(others)
	}
}

func sum(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}

func TestBridgesShareARate(t *testing.T) {
	lamp := agent("lamp", "")
	for name, c := range map[string]struct {
		limits Options
		tried  []int
		want   []int // in the end, about
	}{
		"all want the most":             {Options{Principal: Limits{Requests: 300}}, []int{600, 600, 600}, []int{100, 100, 100}},
		"one wants little":              {Options{Principal: Limits{Requests: 300}}, []int{600, 600, 60}, []int{120, 120, 60}},
		"one wants anything":            {Options{Principal: Limits{Requests: 300}}, []int{600, 0, 0}, []int{300, 0, 0}},
		"together they stay below":      {Options{Principal: Limits{Requests: 300}}, []int{100, 100, 60}, []int{100, 100, 60}},
		"it is the rate of their space": {Options{Space: Limits{Requests: 300}}, []int{600, 600, 60}, []int{120, 120, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			all := beside(t, 3, c.limits)
			first := second(all, lamp, c.tried...)
			if sum(first) > 3*600 {
				t.Errorf("in the first second they let %v through", first)
			}
			var got []int
			for range 4 {
				got = second(all, lamp, c.tried...)
			}
			for i, want := range c.want {
				if got[i] < want*9/10 || got[i] > want*11/10+1 {
					t.Errorf("they let %v through, want about %v", got, c.want)
				}
			}
			if err := all[0].Admit(lamp, 0); err != nil && err.Details["most"] != 300 {
				t.Errorf("who is refused is told %v", err.Details)
			}
			second(all, lamp, 0, 0, 0)
			second(all, lamp, 0, 0, 0)
			if got := second(all, lamp, 0, 600, 0); got[1] < 290 {
				t.Errorf("when the others have stopped one lets %v through", got)
			}
		})
	}
}

func TestBridgesShareConnections(t *testing.T) {
	all := beside(t, 2, Options{Principal: Limits{Connections: 10}})
	lamp := agent("lamp", "")
	for range 6 {
		if err := all[0].Connect(lamp); err != nil {
			t.Fatal(err)
		}
	}
	tell(all)
	for i := range 6 {
		err := all[1].Connect(lamp)
		if want := i >= 4; (err != nil) != want {
			t.Errorf("connection %d: %v", 7+i, err)
		}
	}
	for range 6 {
		all[0].Disconnect(lamp)
	}
	tell(all)
	if err := all[1].MayConnect(lamp); err != nil {
		t.Errorf("when those elsewhere are gone: %v", err)
	}
}

// Bridges that know each other's demand stay within the limit together, and none
// gets less than an even part of it, or its demand.
func TestSharesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1000).Draw(t, "limit")
		wants := rapid.SliceOfN(rapid.Int64Range(0, 2000), 1, 8).Draw(t, "wants")
		given := int64(0)
		for i, own := range wants {
			var others []int64
			others = append(append(others, wants[:i]...), wants[i+1:]...)
			share := fairShare(limit, own, others)
			if got := min(share, own); got < min(own, limit/int64(len(wants))) {
				t.Fatalf("of %d one that wants %d gets %d beside %v", limit, own, got, others)
			}
			given += min(share, own)
		}
		if given > limit+int64(len(wants)) { // each has at least one
			t.Fatalf("of %d they give %d to %v", limit, given, wants)
		}
	})
}

func TestAskingBesideOthersCostsNoMemory(t *testing.T) {
	w := beside(t, 1, Options{Principal: Limits{Requests: 1 << 30, Messages: 1 << 30, Bytes: 1 << 30}, Space: Limits{Requests: 1 << 30}})[0]
	lamp := agent("lamp", "house")
	if n := testing.AllocsPerRun(100, func() { _ = w.Admit(lamp, 10); _ = w.Message(lamp, 10) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
