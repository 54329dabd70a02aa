package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func request(id string, effect Effect, at time.Time, keep time.Duration) *Call {
	return &Call{
		Principal: &protocol.Principal{ID: "p"}, RequestID: id, arrived: at, steady: at, keep: at.Add(keep),
		command: &Command{Spec: Spec{Effect: effect}},
	}
}

func TestTheLedgerForgetsTheSoonestWhenThereAreTooMany(t *testing.T) {
	t.Parallel()
	l := newLedger(3, 1<<20)
	for i, keep := range []time.Duration{50, 10, 40, 20, 30} {
		_, e, _ := l.begin(request(fmt.Sprint(i), Act, epoch, keep*time.Second), 0)
		l.finish(e, outcome{}, epoch)
	}
	for i, want := range []bool{true, false, true, false, true} {
		c := request(fmt.Sprint(i), Act, epoch, time.Second)
		if known := l.found.find(l.key(l.caller(c), c.RequestID)) != noSlot; known != want {
			t.Errorf("%d is known: %t, want %t", i, known, want)
			continue
		}
		if !want {
			continue
		}
		if v, _, _ := l.begin(c, 0); v != replay {
			t.Errorf("%d: got %d, want its answer", i, v)
		}
	}
}

// TestTheLedgerForgetsTheOldestOfThoseThatExpireTogether: the one that has just
// finished is the one whose repeat is most likely still to come.
func TestTheLedgerForgetsTheOldestOfThoseThatExpireTogether(t *testing.T) {
	t.Parallel()
	const most = 4
	l := newLedger(most, 1<<20)
	for i := range 3 * most {
		_, e, _ := l.begin(request(fmt.Sprint(i), Act, epoch, time.Minute), 0)
		l.finish(e, outcome{}, epoch)
		if v, _, _ := l.begin(request(fmt.Sprint(i), Act, epoch, time.Minute), 0); v != replay {
			t.Fatalf("%d is forgotten as soon as it is finished: verdict %d", i, v)
		}
	}
	for i := range 3 * most {
		if key := l.key(l.party(request("", Act, epoch, 0).Principal.Party()), fmt.Sprint(i)); (l.found.find(key) != noSlot) != (i >= 2*most) {
			t.Errorf("%d is remembered: %t", i, l.found.find(key) != noSlot)
		}
	}
}

// TestNobodyHasTheRequestsOfOthersForgotten has a party make requests that are
// remembered for long, and more than there is room for.
func TestNobodyHasTheRequestsOfOthersForgotten(t *testing.T) {
	t.Parallel()
	const most = 256
	l := newLedger(most, 1<<20)
	of := func(who, id string, keep time.Duration) verdict {
		c := request(id, Act, epoch, keep)
		c.Principal = &protocol.Principal{ID: who}
		v, e, _ := l.begin(c, 0)
		if v == execute {
			l.finish(e, outcome{}, epoch)
		}
		return v
	}
	made := 0
	flood := func(n int) {
		for range n {
			made++
			of("greedy", fmt.Sprint(made), 10*time.Minute)
		}
	}
	flood(2 * most)
	const modest = most / 8
	for i := range modest {
		of(fmt.Sprint("modest", i%4), fmt.Sprint(i), time.Second)
		flood(1)
	}
	flood(4 * most)
	forgotten := 0
	for i := range modest {
		if of(fmt.Sprint("modest", i%4), fmt.Sprint(i), time.Second) != replay {
			forgotten++
		}
	}
	if forgotten > 0 { // three of four records are of the greedy one: 16 looks do not miss them
		t.Errorf("%d of %d are forgotten", forgotten, modest)
	}
	if n, _ := l.usage(); n > most {
		t.Errorf("%d are remembered, there is room for %d", n, most)
	}
}

// TestNoSpaceHasTheRequestsOfOthersForgotten has four parties of one space, each
// with no more than its share, fill the memory of requests.
func TestNoSpaceHasTheRequestsOfOthersForgotten(t *testing.T) {
	t.Parallel()
	const most = 256
	l := newLedger(most, 1<<20)
	of := func(space, who, id string, keep time.Duration) verdict {
		c := request(id, Act, epoch, keep)
		c.Principal = &protocol.Principal{ID: who, Space: protocol.SpaceID(space)}
		v, e, _ := l.begin(c, 0)
		if v == execute {
			l.finish(e, outcome{}, epoch)
		}
		return v
	}
	made := 0
	flood := func(n int) {
		for range n {
			made++
			of("greedy", fmt.Sprint("greedy", made%5), fmt.Sprint(made), 10*time.Minute)
		}
	}
	flood(2 * most)
	const modest = most / 8
	for i := range modest {
		of("modest", fmt.Sprint("modest", i%4), fmt.Sprint(i), time.Second)
		flood(1)
	}
	flood(4 * most)
	forgotten := 0
	for i := range modest {
		if of("modest", fmt.Sprint("modest", i%4), fmt.Sprint(i), time.Second) != replay {
			forgotten++
		}
	}
	if forgotten > 0 { // seven of eight records are of the greedy space: 16 looks do not miss them
		t.Errorf("%d of %d are forgotten", forgotten, modest)
	}
	if n, _ := l.usage(); n > most {
		t.Errorf("%d are remembered, there is room for %d", n, most)
	}
}

func TestRunningEntriesAreNeverForgotten(t *testing.T) {
	t.Parallel()
	l := newLedger(1, 0)
	for i := range 3 {
		l.begin(request(fmt.Sprint(i), Write, epoch, time.Second), 0)
	}
	_, e, _ := l.begin(request("x", Write, epoch, time.Second), 0)
	l.finish(e, outcome{}, epoch)
	for i := range 3 {
		if v, _, _ := l.begin(request(fmt.Sprint(i), Write, epoch.Add(time.Hour), time.Second), 0); v != join {
			t.Errorf("%d: got %d", i, v)
		}
	}
}

func TestTheCalendarReachesBeyondItsHorizonAndOverGaps(t *testing.T) {
	t.Parallel()
	l := newLedger(1000, 1<<20)
	l.remember(Claim{Principal: "default/agent/p", RequestID: "far", Expires: epoch.Add(3 * horizon * time.Second)}, epoch)
	l.remember(Claim{Principal: "default/agent/p", RequestID: "near", Expires: epoch.Add(time.Second)}, epoch)
	l.remember(Claim{Principal: "default/agent/p", RequestID: "past", Expires: epoch.Add(-time.Second)}, epoch)
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {time.Second, 2}, {3 * time.Second, 1}, {2 * horizon * time.Second, 1}, {(3*horizon + 2) * time.Second, 0}} {
		l.sweep(epoch.Add(step.after))
		if n, _ := l.usage(); n != step.left {
			t.Errorf("after %v there are %d, want %d", step.after, n, step.left)
		}
	}
}

// TestTheLedgerKeepsItsBooks checks its bookkeeping after random operations.
func TestTheLedgerKeepsItsBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(rapid.IntRange(1, 8).Draw(t, "entries"), rapid.IntRange(0, 2000).Draw(t, "bytes"))
		now := epoch
		var open []*entry
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				id, effect := rapid.StringMatching(`[a-f]`).Draw(t, "id"), Effect(rapid.IntRange(0, 2).Draw(t, "effect"))
				keep := time.Duration(rapid.IntRange(0, 2*horizon).Draw(t, "keep")) * time.Second
				c := request(id, effect, now, keep)
				c.Principal = &protocol.Principal{ID: rapid.StringMatching(`[p-r]`).Draw(t, "who")}
				if v, e, _ := l.begin(c, 0); v == execute {
					open = append(open, e)
				}
			case 2:
				if len(open) > 0 {
					size := rapid.IntRange(0, 1000).Draw(t, "size")
					l.finish(open[0], outcome{result: []byte(strings.Repeat("x", size))}, now)
					open = open[1:]
				}
			case 3:
				if len(open) > 0 {
					l.forget(open[0])
					open = open[1:]
				}
			case 4:
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
				l.sweep(now)
			}
			checkBooks(t, l, open)
		}
	})
}

func checkBooks(t *rapid.T, l *ledger, open []*entry) {
	live, finished := map[uint32]int{}, l.found.count-l.running.len()
	for s := range l.found.all() {
		r := l.records.at(s)
		if l.found.find(r.key) != s {
			t.Fatalf("slot %d is not found by its key", s)
		}
		if r.state == running {
			if e := l.running.at[r.day]; e == nil || e.slot != s || e.key != r.key {
				t.Fatalf("slot %d runs, and its entry is %+v", s, e)
			}
			continue
		}
		if (r.state == answered) != (r.answer != noAnswer) {
			t.Fatalf("slot %d is in state %d with the answer %v", s, r.state, r.answer)
		}
		if r.answer != noAnswer && !l.answers.has(r.answer) && r.effect == Read {
			t.Fatalf("slot %d is of a read whose answer is lost", s)
		}
		if l.answers.has(r.answer) {
			live[r.answer.page]++
			if owner, _, _, _ := l.answers.pages[r.answer.page-l.answers.first].cut(int(r.answer.offset)); owner != s {
				t.Fatalf("slot %d has the answer of slot %d", s, owner)
			}
		}
	}
	bytes := 0
	for i, p := range l.answers.pages {
		bytes += cap(p.data)
		if n := live[l.answers.first+uint32(i)]; n != p.live || n == 0 && i == 0 && len(l.answers.pages) > 1 {
			t.Fatalf("page %d has %d answers, the books say %d", i, n, p.live)
		}
	}
	if bytes != l.answers.bytes || bytes > l.maxBytes {
		t.Fatalf("answers have %d bytes, the books say %d of %d", bytes, l.answers.bytes, l.maxBytes)
	}
	for _, by := range []*holdings{&l.holders.parties, &l.holders.spaces} {
		held, over := 0, 0
		for _, h := range by.all {
			held += h.count
			if h.count > by.most {
				over++
			}
		}
		if held != finished || over != by.over || len(by.numbers)+len(by.free) != len(by.all) {
			t.Fatalf("%d records, and %d are held; %+v", finished, held, by)
		}
	}
	dated := map[slot]bool{}
	for _, d := range l.expiry.days {
		last := noSlot
		for s := d.newest; s != noSlot; s = l.records.at(s).older {
			if l.records.at(s).newer != last {
				t.Fatalf("slot %d does not know who is newer", s)
			}
			last = s
			if dated[s] || l.found.find(l.records.at(s).key) != s {
				t.Fatalf("slot %d is in the expiry twice, or forgotten", s)
			}
			dated[s] = true
		}
		if last != d.oldest {
			t.Fatalf("the oldest of a day is slot %d, the books say %d", last, d.oldest)
		}
	}
	if len(dated) != finished {
		t.Fatalf("%d records, and %d will expire", finished, len(dated))
	}
	free := 0
	for s := l.records.free; s != noSlot; s = l.records.at(s).older {
		free++
	}
	if free+l.found.count != int(l.records.used) {
		t.Fatalf("%d slots are free and %d in use, of %d", free, l.found.count, l.records.used)
	}
	if l.running.len() != len(open) || l.found.count > l.maxEntries+len(open) {
		t.Fatalf("%d requests, %d of them running, %d of them open, bound %d", l.found.count, l.running.len(), len(open), l.maxEntries)
	}
}

// TestEveryRequestMakesRoomForItself has the expelled ones be approached, over several days
// of the calendar and with repeats that prolong some of them.
func TestEveryRequestMakesRoomForItself(t *testing.T) {
	t.Parallel()
	const most, more = 4 * approached, 8 * approached
	l := newLedger(most, 1<<20)
	at := func(i int) *Call {
		return request(fmt.Sprint(i), Act, epoch, time.Minute+time.Duration(i)*100*time.Millisecond)
	}
	for i := range most + more {
		c := at(i)
		l.approach(c)
		if v, e, _ := l.begin(c, 1); v == execute {
			l.finish(e, outcome{}, epoch)
		}
		l.begin(at(i), 1)
		if n, _ := l.usage(); n != min(i+1, most) {
			t.Fatalf("%d requests are known after %d, of at most %d", n, i+1, most)
		}
	}
	for i := range most + more {
		c := at(i)
		known := l.found.find(l.key(l.caller(c), c.RequestID)) != noSlot
		if gone := i < more; known == gone {
			t.Fatalf("request %d is known: %v", i, known)
		}
	}
}

// TestTheAnswersOfActsAreLostAndThoseOfReadsForgotten fills the memory for answers.
func TestTheAnswersOfActsAreLostAndThoseOfReadsForgotten(t *testing.T) {
	t.Parallel()
	l := newLedger(1<<10, 1<<16)
	effects := []Effect{Read, Act}
	for i := range 1000 {
		_, e, _ := l.begin(request(fmt.Sprint(i), effects[i%2], epoch, time.Minute), 1)
		l.finish(e, outcome{result: fmt.Appendf(nil, "%0200d", i)}, epoch)
	}
	seen := map[verdict]int{}
	for i := range 1000 {
		v, e, out := l.begin(request(fmt.Sprint(i), effects[i%2], epoch, time.Minute), 1)
		seen[v]++
		switch v {
		case execute:
			l.forget(e)
			if effects[i%2] != Read {
				t.Errorf("request %d would be executed again", i)
			}
		case replay:
			if want := fmt.Sprintf("%0200d", i); string(out.result) != want {
				t.Errorf("request %d was answered %s", i, out.result)
			}
		case unknown:
			if effects[i%2] != Act {
				t.Errorf("read %d is remembered without its answer", i)
			}
		}
	}
	if seen[execute] < 300 || seen[unknown] < 300 || seen[replay] < 100 {
		t.Errorf("of 1000 requests %v", seen)
	}
}

func TestAnswersOfEveryKindAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	l := newLedger(100, 1<<20)
	for i, want := range []outcome{
		{result: []byte(`{"a":1}`)},
		{},
		{result: []byte(`{"part":true}`), err: protocol.InvalidParam("a.b", "is \"odd\""), warnings: []string{"one", "two"}},
		{err: protocol.Errorf(protocol.AgentOffline, "gone").With("n", int64(7)).With("list", []any{"x", int64(1)})},
		{result: []byte(strings.Repeat("x", 1<<18)), warnings: []string{"large"}},
	} {
		c := request(fmt.Sprint(i), Write, epoch, time.Minute)
		_, e, _ := l.begin(c, 1)
		l.finish(e, want, epoch)
		v, _, got := l.begin(request(fmt.Sprint(i), Write, epoch, time.Minute), 1)
		if v != replay || string(got.result) != string(want.result) || !slices.Equal(got.warnings, want.warnings) ||
			(got.err == nil) != (want.err == nil) || want.err != nil && string(got.err.Append(nil)) != string(want.err.Append(nil)) {
			t.Errorf("%d: read %v %+v", i, v, got)
		}
	}
}

// BenchmarkLedger measures a request while half a million others are
// remembered. It is approached while the one before it is taken up and finished.
func BenchmarkLedger(b *testing.B) {
	l := newLedger(1<<19, 64<<20)
	ids := make([]string, 1<<20)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
	}
	out := outcome{result: make([]byte, 400)}
	call, next := request("", Act, epoch, time.Minute), request("", Act, epoch, time.Minute)
	n := 0
	once := func() {
		next.RequestID = ids[n%len(ids)]
		l.approach(next)
		n++
		_, e, _ := l.begin(call, uint64(n))
		l.finish(e, out, epoch)
		call, next = next, call
	}
	for range 1 << 19 {
		once()
	}
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}
