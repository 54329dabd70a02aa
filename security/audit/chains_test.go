package audit

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// others are trails beside the own, for tests.
type others struct {
	chains []Chain
	heads  map[string]Head
	silent []string
}

func (o *others) Settle(context.Context) (map[string]Head, []string) { return o.heads, o.silent }
func (o *others) Chains(context.Context) ([]Chain, error)            { return slices.Clone(o.chains), nil }

// A writer writes a chain into a log in memory, a group of one entry after the other.
type writer struct {
	key   *Key
	local *evidence.Log
	trail *Trail
	log   *memoryLog
}

func newWriter(t testing.TB, key *Key) *writer {
	t.Helper()
	local := openLocal(t, t.TempDir(), evidence.Options{GroupBlocks: true})
	trail := &Trail{o: Options{Key: key, Local: local}, work: make(chan struct{}, 1)}
	trail.metrics = newMetrics(trail, nil)
	local.Chain(trail)
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	})
	return &writer{key, local, trail, &memoryLog{}}
}

// write appends a group, and returns its head.
func (w *writer) write(t testing.TB, entries ...Entry) Head {
	t.Helper()
	for _, e := range entries {
		w.local.Add(&record{Entry: e, added: &w.trail.added})
	}
	w.local.Keep()
	block, err := w.local.Get(context.Background(), uint64(len(w.log.groups)+1))
	if err != nil || block == nil {
		t.Fatalf("%d bytes, %v", len(block), err)
	}
	w.log.groups = append(w.log.groups, block)
	return w.trail.head
}

// at is an entry of an event, so many milliseconds after the first.
func at(ms int, event string) Entry {
	return Entry{Time: time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC(), Event: event, Code: OK, Space: "one"}
}

// closes is the entry that closes the chain of a bridge.
func closes(bridge string, key *Key, head Head) Entry {
	e := at(0, Closed)
	e.Details = map[string]string{closedBridge: bridge, closedChain: key.Chain(), closedHead: head.String()}
	return e
}

// written is a chain of many groups, with entries at many times.
func written(t *testing.T, seed uint64) [][]byte {
	t.Helper()
	random, w, clock := rand.New(rand.NewPCG(seed, 0)), newWriter(t, testKey(t, 2)), 0
	for range 40 {
		var group []Entry
		for range 1 + random.IntN(4) {
			clock += random.IntN(3)
			group = append(group, at(clock, []string{"a.x", "b.x"}[random.IntN(2)]))
		}
		w.write(t, group...)
	}
	return w.log.groups
}

// TestPagesOverChainsAreExact compares pages of any size with all entries sorted, while
// chains grow and come up.
func TestPagesOverChainsAreExact(t *testing.T) {
	trail := openTrail(t, &memoryLog{}, func(o *Options) { o.BridgeID = "own"; o.Level = Off })
	defer shut(t, trail)
	bridges := []string{"p", "q", "r"}
	groups := map[string][][]byte{"p": written(t, 1), "q": written(t, 2), "r": written(t, 3)}
	rapid.Check(t, func(rt *rapid.T) {
		beside := &others{}
		logs := make(map[string]*memoryLog)
		grow := func(bridge string) {
			l := logs[bridge]
			if l == nil {
				l = new(memoryLog)
				logs[bridge] = l
				beside.chains = append(beside.chains, Chain{Bridge: bridge, Log: l})
			}
			if n := len(l.groups); n < len(groups[bridge]) {
				l.groups = groups[bridge][:n+1]
			}
		}
		for range rapid.IntRange(1, 20).Draw(rt, "groups") {
			grow(rapid.SampledFrom(bridges[:2]).Draw(rt, "bridge"))
		}
		p := QueryParams{Event: rapid.SampledFrom([]string{"", "a.x", "c.x"}).Draw(rt, "filter"), Limit: rapid.IntRange(1, 5).Draw(rt, "limit")}
		s := NewService(trail, beside)
		pages := func(p QueryParams, between func()) (seen []string, follow string) {
			for {
				page, err := s.Query(t.Context(), &commands.Call{Principal: admin}, p)
				if err != nil {
					rt.Fatal(err)
				}
				if follow == "" || page.Follow != "" {
					follow = page.Follow
				}
				for _, e := range page.Entries {
					seen = append(seen, fmt.Sprintf("%s:%d", e.Bridge, e.Seq))
				}
				if p.Cursor = page.Next; p.Cursor == "" {
					return seen, follow
				}
				between()
			}
		}
		want := sorted(t, beside.chains, p.Event)
		seen, follow := pages(p, func() { grow(rapid.SampledFrom(bridges).Draw(rt, "meanwhile")) })
		slices.Reverse(seen)
		if !slices.Equal(seen, want) {
			rt.Fatalf("page by page there is %v instead of %v", seen, want)
		}

		for range 2 { // what came while pages were read, and after that
			p.Cursor = follow
			later, next := pages(p, func() {})
			seen, follow = append(seen, later...), next
			want = sorted(t, beside.chains, p.Event)
			if !slices.Equal(slices.Sorted(slices.Values(seen)), slices.Sorted(slices.Values(want))) {
				rt.Fatalf("followed, there is %v instead of %v", seen, want)
			}
			grow(rapid.SampledFrom(bridges).Draw(rt, "later"))
		}
	})
}

// sorted are the entries of chains, the oldest first.
func sorted(t *testing.T, chains []Chain, event string) (all []string) {
	t.Helper()
	var found []Entry
	for _, c := range chains {
		log, ok := c.Log.(*memoryLog)
		if !ok {
			t.Fatal("another log")
		}
		for _, e := range entries(t, log) {
			if e.Bridge = c.Bridge; event == "" || e.Event == event {
				found = append(found, e)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Entry) int {
		if n := a.Time.Compare(b.Time); n != 0 {
			return n
		}
		return strings.Compare(a.Bridge, b.Bridge)
	})
	for _, e := range found {
		all = append(all, fmt.Sprintf("%s:%d", e.Bridge, e.Seq))
	}
	return all
}

func TestAQueryOverChainsIsBoundedAndSaysWhoIsSilent(t *testing.T) {
	trail := openTrail(t, &memoryLog{}, func(o *Options) { o.BridgeID = "own" })
	defer shut(t, trail)
	w := newWriter(t, testKey(t, 2))
	for i := range 5 {
		w.write(t, at(i, "a.x"))
	}
	beside := &others{silent: []string{"q"}, chains: []Chain{{Bridge: "p", Log: w.log, Key: w.key}, {Bridge: "gone"}}}
	s := NewService(trail, beside)
	if r, err := s.Query(t.Context(), &commands.Call{Principal: admin}, QueryParams{Limit: 100}); err != nil || !slices.Equal(r.Silent, beside.silent) || len(r.Entries) != 6 {
		t.Errorf("%v: %+v", err, r)
	}
	if r, err := s.Query(t.Context(), &commands.Call{Principal: bob}, QueryParams{Limit: 100}); err != nil || len(r.Entries) != 0 {
		t.Errorf("another space sees %v: %+v", err, r)
	}
	three := uint64(3)
	r, err := s.Query(t.Context(), &commands.Call{Principal: alice}, QueryParams{Limit: 1, Bridge: "p", After: &three})
	if err != nil || len(r.Entries) != 1 || r.Entries[0].Seq != 4 || r.Last != 5 || r.Next == "" {
		t.Errorf("after the third: %v: %+v", err, r)
	}
	for name, p := range map[string]QueryParams{
		"after": {After: &three}, "bridge_id": {Bridge: "gone"},
		"cursor": {Cursor: cursor{places: map[mark]place{markOf("gone"): {1, 1}}}.String()},
	} {
		p.Limit = 1
		if _, err := s.Query(t.Context(), &commands.Call{Principal: admin}, p); protocol.CodeOf(err) != protocol.InvalidParameter || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range maxChains {
		beside.chains = append(beside.chains, Chain{Bridge: fmt.Sprint("n", i), Log: &memoryLog{}})
	}
	if _, err := s.Query(t.Context(), &commands.Call{Principal: admin}, QueryParams{Limit: 1}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("over too many chains: %v", err)
	}
}

// TestWhatASlowQueryHasNotReadComesLater has a query look at enough before it has found
// anything.
func TestWhatASlowQueryHasNotReadComesLater(t *testing.T) {
	trail := openTrail(t, &memoryLog{}, func(o *Options) { o.Level = Off })
	defer shut(t, trail)
	w := newWriter(t, testKey(t, 2))
	wanted := w.write(t, at(0, "rare.x"))
	filler := w.write(t, at(1, "b.x"))
	for range maxBlocks + 10 {
		w.log.groups = append(w.log.groups, w.log.groups[filler.Seq-1])
	}
	s := NewService(trail, &others{chains: []Chain{{Bridge: "p", Log: w.log}}})
	p := QueryParams{Limit: 5, Event: "rare.x"}
	first, err := s.Query(t.Context(), &commands.Call{Principal: admin}, p)
	if err != nil || len(first.Entries) != 0 || first.Next == "" {
		t.Fatalf("%v: %+v", err, first)
	}
	p.Cursor = first.Next
	second, err := s.Query(t.Context(), &commands.Call{Principal: admin}, p)
	if err != nil || len(second.Entries) != 1 || second.Entries[0].Seq != wanted.Seq || second.Next != "" {
		t.Errorf("%v: %+v", err, second)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("Yg")
	f.Add("Z")
	f.Add(cursor{forward: true, places: map[mark]place{markOf("a"): {7, 3}, markOf("b"): {1 << 40, wholeBlock}}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text)
		if err != nil {
			return
		}
		if got := c.String(); got != text {
			t.Errorf("%q is read as %q", text, got)
		}
		again, err := parseCursor(c.String())
		if err != nil || again.forward != c.forward || !maps.Equal(again.places, c.places) {
			t.Errorf("%+v is read as %+v, %v", c, again, err)
		}
	})
}

// TestACursorOverManyChainsFits takes the largest numbers there are.
func TestACursorOverManyChainsFits(t *testing.T) {
	c := cursor{places: make(map[mark]place)}
	for i := range maxChains {
		c.places[markOf(fmt.Sprint(i))] = place{1<<64 - 1, maxBlockEntries - 1}
	}
	if got, err := parseCursor(c.String()); err != nil || !maps.Equal(got.places, c.places) {
		t.Errorf("%d characters: %v", len(c.String()), err)
	}
}

// TestChainsVouchForEachOther verifies a chain that other bridges have closed.
func TestChainsVouchForEachOther(t *testing.T) {
	key, ownKey := testKey(t, 2), testKey(t, 1)
	for name, c := range map[string]struct {
		write func(w *writer) (closing Entry)
		cut   int // groups at the end that are removed
		live  bool
		state ChainState
		wrong string
	}{
		"that ended": {state: ChainClosed, write: func(w *writer) Entry {
			w.write(t, at(1, started))
			return closes("p", key, w.write(t, at(2, "a.x"), at(2, "a.y")))
		}},
		"of which the end was cut off": {cut: 1, state: ChainOpen, wrong: "truncated 3-3;", write: func(w *writer) Entry {
			w.write(t, at(1, started), at(1, "a.w"))
			return closes("p", key, w.write(t, at(2, "a.x")))
		}},
		"that went on": {live: true, state: ChainLive, write: func(w *writer) Entry {
			e := closes("p", key, w.write(t, at(1, started)))
			w.write(t, at(2, started))
			return e
		}},
		"that a paused bridge wrote more of": {state: ChainOpen, write: func(w *writer) Entry {
			e := closes("p", key, w.write(t, at(1, started)))
			w.write(t, at(2, "a.x"))
			return e
		}},
		"that was stopped later": {state: ChainStopped, write: func(w *writer) Entry {
			e := closes("p", key, w.write(t, at(1, started)))
			w.write(t, at(2, stopped))
			return e
		}},
		"that was written anew by somebody with its key": {state: ChainOpen, wrong: "changed 1-1;", write: func(w *writer) Entry {
			other := newWriter(t, key)
			e := closes("p", key, other.write(t, at(1, "a.before")))
			w.write(t, at(1, "a.after"))
			return e
		}},
		"that nobody closed": {state: ChainOpen, write: func(w *writer) Entry {
			w.write(t, at(1, started))
			return at(3, "a.x")
		}},
		"of another key": {state: ChainOpen, write: func(w *writer) Entry {
			return closes("p", testKey(t, 9), w.write(t, at(1, started)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, own := newWriter(t, key), newWriter(t, ownKey)
			own.write(t, at(0, started))
			own.write(t, c.write(w))
			w.log.groups = w.log.groups[:len(w.log.groups)-c.cut]
			options := Options{BridgeID: "own", Key: ownKey, Log: own.log}
			all, err := VerifyChains(t.Context(), []Chain{{Bridge: "own", Key: ownKey, Log: own.log, Live: true}, {Bridge: "p", Key: key, Log: w.log, Live: c.live}}, &options, nil)
			if err != nil || len(all.Chains) != 2 {
				t.Fatalf("%v: %+v", err, all)
			}
			of := all.Chains[1]
			if of.State != c.state || found(of.Report) != c.wrong || of.OK != (c.wrong == "") || all.OK != of.OK || (of.ClosedBy == "own") != (c.state == ChainClosed) {
				t.Errorf("%s, %q: %+v", of.State, found(of.Report), of)
			}
			if !all.OK && all.Problems[0].Bridge != "p" {
				t.Errorf("the problem is not said to be of p: %+v", all.Problems)
			}
		})
	}
}

func TestAChainIsClosedOnceWhereItEnds(t *testing.T) {
	log := &memoryLog{}
	trail := openTrail(t, log, func(o *Options) { o.BridgeID = "own" })
	defer shut(t, trail)
	key := testKey(t, 2)
	w := newWriter(t, key)
	c := Chain{Bridge: "p", Log: w.log, Key: key}
	closing := func(at Head) Head {
		t.Helper()
		head, closed, err := trail.CloseChain(t.Context(), c, at)
		if err != nil || closed != (head != Head{}) {
			t.Fatal(closed, err)
		}
		return head
	}
	if got := closing(Head{}); got != (Head{}) {
		t.Errorf("an empty chain is closed at %v", got)
	}
	w.write(t, at(1, started))
	end := w.write(t, at(2, "a.x"))
	if got := closing(Head{}); got != end {
		t.Errorf("closed at %v instead of %v", got, end)
	}
	if got := closing(end); got != (Head{}) {
		t.Errorf("closed again at %v", got)
	}
	w.write(t, at(3, stopped))
	if got := closing(end); got != (Head{}) {
		t.Errorf("closed although it was stopped, at %v", got)
	}
	forged := newWriter(t, testKey(t, 3))
	forged.write(t, at(4, "a.x"))
	w.log.groups = append(w.log.groups, forged.log.groups[0])
	if got := closing(end); got != (Head{}) {
		t.Errorf("what was forged is closed at %v", got)
	}
	var closings []Closing
	for _, e := range entries(t, log) {
		if c, ok := e.closing("own"); ok {
			closings = append(closings, c)
		}
	}
	if len(closings) != 1 || closings[0].Bridge != "p" || closings[0].Head != end || closings[0].Chain != key.Chain() {
		t.Errorf("the trail says %+v", closings)
	}
}

// TestHeadsFromElsewhereAreHeld gives heads that people have noted.
func TestHeadsFromElsewhereAreHeld(t *testing.T) {
	key := testKey(t, 1)
	trail := openTrail(t, nil, func(o *Options) { o.Key = key; o.BridgeID = "own" })
	defer shut(t, trail)
	alone, beside := NewService(trail, nil), NewService(trail, &others{silent: []string{"q"}})
	head := Head{Seq: 9}.String()
	for name, c := range map[string]struct {
		s    *Service
		p    VerifyParams
		want string
		bad  string
	}{
		"of another bridge, alone":     {s: alone, p: VerifyParams{Heads: map[string]string{"x": head}}, bad: "heads.x"},
		"that is none":                 {s: beside, p: VerifyParams{Heads: map[string]string{"x": "9"}}, bad: "heads.x"},
		"of a bridge without a trail":  {s: beside, p: VerifyParams{Heads: map[string]string{"x": head}}, want: "missing 1-9;"},
		"of the bridge itself, alone":  {s: alone, p: VerifyParams{Head: head}, want: "truncated 2-9;"},
		"of the bridge among others":   {s: beside, p: VerifyParams{Heads: map[string]string{"own": head}}, want: "truncated 2-9;"},
		"of nobody, among others":      {s: beside},
		"of nobody, of a bridge alone": {s: alone},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := c.s.VerifyAll(t.Context(), nil, c.p)
			if c.bad != "" {
				if protocol.CodeOf(err) != protocol.InvalidParameter || !strings.Contains(err.Error(), c.bad) {
					t.Error(err)
				}
				return
			}
			if err != nil || found(all.Report) != c.want || all.OK != (c.want == "") || (all.Silent != nil) != (c.s == beside) {
				t.Errorf("%v: %+v", err, all)
			}
		})
	}
	if _, err := ParseHeads("own", []string{"b=" + head, head, "b2=x"}); err == nil {
		t.Error("a head that is none is taken")
	}
	if noted, err := ParseHeads("own", []string{"b=" + head, head}); err != nil || len(noted) != 2 || noted["own"][0].Seq != 9 {
		t.Error(noted, err)
	}
}
