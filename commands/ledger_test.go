package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func request(id string, effect Effect, at time.Time, keep time.Duration) *Call {
	return &Call{
		Principal: &protocol.Principal{ID: "p"}, RequestID: id, arrived: at, keep: at.Add(keep),
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
	for i, want := range []verdict{replay, execute, replay, execute, replay} {
		v, e, _ := l.begin(request(fmt.Sprint(i), Act, epoch, time.Second), 0)
		if v != want {
			t.Errorf("%d: got %d, want %d", i, v, want)
		}
		if e != nil {
			l.forget(e)
		}
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
	l.remember(Claim{Principal: "p", RequestID: "far", Expires: epoch.Add(3 * horizon * time.Second)}, epoch)
	l.remember(Claim{Principal: "p", RequestID: "near", Expires: epoch.Add(time.Second)}, epoch)
	l.remember(Claim{Principal: "p", RequestID: "past", Expires: epoch.Add(-time.Second)}, epoch)
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
				if v, e, _ := l.begin(request(id, effect, now, keep), 0); v == execute {
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
	bytes, answers := 0, 0
	for e := l.answers.oldest; e != nil; e = e.newer {
		bytes += e.size
		answers++
		if e.state != finished {
			t.Fatalf("%v has an answer in state %d", e.key, e.state)
		}
	}
	if bytes != l.answers.bytes || bytes > l.maxBytes {
		t.Fatalf("answers have %d bytes, the books say %d of %d", bytes, l.answers.bytes, l.maxBytes)
	}
	dated := map[*entry]bool{}
	for _, e := range l.expiry.days {
		for ; e != nil; e = e.later {
			if dated[e] || e.state == running {
				t.Fatalf("%v is in the calendar twice or while it runs", e.key)
			}
			dated[e] = true
			if l.entries[e.key] != e {
				t.Fatalf("%v is in the calendar, though forgotten", e.key)
			}
		}
	}
	closed := 0
	for _, e := range l.entries {
		if e.state != running {
			closed++
			if !dated[e] {
				t.Fatalf("%v will never expire", e.key)
			}
		}
	}
	if len(l.entries) > l.maxEntries+len(open) {
		t.Fatalf("%d entries, %d of them open, bound %d", len(l.entries), len(open), l.maxEntries)
	}
}
