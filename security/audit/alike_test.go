package audit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// TestCallsWithAMemoLeaveTheSameEntries records the same calls twice, with memos and
// without, into blocks so small that most of them begin within.
func TestCallsWithAMemoLeaveTheSameEntries(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 16))
			calls := make([]drawnCall, 60)
			for i := range calls {
				calls[i] = drawCall(random)
			}
			with, without := recordAll(t, calls, true, remote), recordAll(t, calls, false, remote)
			if !reflect.DeepEqual(with, without) {
				t.Fatalf("remote %t, seed %d: with memos %+v\nwithout %+v", remote, seed, with, without)
			}
		}
	}
}

// A drawnCall is a call, and which of the memos is its.
type drawnCall struct {
	commands.Audited
	memo int
	keep bool // entries are written after it
}

func drawCall(random *rand.Rand) drawnCall {
	memo := random.IntN(2)
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	id := func() string { return pick("", "a", "3f0c0a4e-6a0e-4d4a-9d39-8d2f3f5c9a11") }
	return drawnCall{memo: memo, keep: random.IntN(3) == 0, Audited: commands.Audited{
		At: time.UnixMilli(1_700_000_000_000 + random.Int64N(1000)), Principal: []*protocol.Principal{alice, bob}[random.IntN(2)],
		SenderID: pick("alice", "carol"), RequestID: id(), TraceID: id(), Door: pick("mqtt", "http"), Address: netip.MustParseAddr(pick("192.0.2.1", "192.0.2.2")),
		Command: "skill.invoke", Action: "skill:invoke", Effect: commands.Act, Resource: commands.Resource{Type: "skill", ID: fmt.Sprint("lamp", memo)},
		Params:   fmt.Appendf(nil, `{"skill_id":"lamp%d","params":{"n":%d}}`, memo, random.IntN(10)),
		Loggable: []string{"skill_id"}, Executed: true, Held: random.IntN(2) == 0, Late: random.IntN(10) == 0,
	}}
}

// recordAll is the entries of calls, with their blocks found by who made them.
func recordAll(t *testing.T, calls []drawnCall, memos, remote bool) []Entry {
	var log RemoteLog
	if remote {
		log = &memoryLog{}
	}
	trail := openTrail(t, log, func(o *Options) {
		o.Local = openLocal(t, t.TempDir(), evidence.Options{GroupBlocks: remote, SegmentBytes: 1600})
	})
	defer shut(t, trail)
	var known [2]commands.Memo
	for _, c := range calls {
		c.Digest = trail.Digest(c.Params)
		if memos {
			c.Memo = &known[c.memo]
		}
		trail.Audit(c.Audited)
		if c.keep {
			trail.Keep()
		}
	}
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report, err := trail.Verify(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Fatalf("%+v %v", report, err)
	}
	var all []Entry
	for _, who := range []string{alice.ID, bob.ID} {
		found := ask(t, trail, admin, QueryParams{Principal: who, Event: "skill.invoke"})
		all = append(all, found.Entries...)
	}
	if len(all) != len(calls) {
		t.Fatalf("%d entries of %d calls are found by who made them", len(all), len(calls))
	}
	return all
}
