package audit

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// refusedCall is a command that policy refuses.
func refusedCall(who *protocol.Principal, command string, code protocol.Code) commands.Audited {
	return commands.Audited{
		At: time.Now(), Principal: who, SenderID: who.ID, RequestID: "r", Command: command, Action: command, Effect: commands.Write,
		Resource: commands.Resource{Type: "skill", ID: "lamp"}, Params: []byte(`{"skill_id":"lamp"}`), Loggable: []string{"skill_id"},
		Err: protocol.Errorf(code, "no"),
	}
}

func TestRepeatedRefusalsBecomeOneEntryWithTheirNumber(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{}
		trail := openTrail(t, log)
		start := time.Now()
		for range 2000 {
			trail.Audit(refusedCall(alice, "skill.register", "2003"))
			trail.Record(t.Context(), Entry{Event: LoginFailed, Code: "2001", Security: true, Address: netip.MustParseAddr("192.0.2.1")})
			time.Sleep(10 * time.Millisecond)
		}
		trail.Audit(refusedCall(bob, "skill.register", "2003"))
		trail.Audit(refusedCall(alice, "skill.register", "1001"))
		time.Sleep(2 * time.Minute)
		trail.Audit(refusedCall(alice, "skill.register", "2003")) // another time
		shut(t, trail)
		found := map[string][]Entry{}
		for _, e := range entries(t, log) {
			name := e.Event + " " + e.Principal + " " + e.Code
			found[name] = append(found[name], e)
		}
		for name, want := range map[string]int{
			"skill.register alice 2003": 3, "skill.register alice 1001": 1, "skill.register bob 2003": 1, "login.failed  2001": 2,
		} {
			if len(found[name]) != want {
				t.Errorf("%d entries of %s, want %d", len(found[name]), name, want)
			}
		}
		sum := found["skill.register alice 2003"][1]
		first, _ := time.Parse(timeFormat, sum.Details["first"])
		last, _ := time.Parse(timeFormat, sum.Details["last"])
		if sum.Details["repeated"] != "1999" || !sum.Security || sum.Resource != "skill/lamp" || sum.Reason != "no" || len(sum.Params) != 0 ||
			first.Sub(start) != 10*time.Millisecond || last.Sub(start) != 19990*time.Millisecond {
			t.Errorf("%+v", sum)
		}
	})
}

func TestWhatMayHaveActedIsNeverARepeat(t *testing.T) {
	log := &memoryLog{}
	trail := openTrail(t, log)
	for range 3 {
		call := refusedCall(alice, "skill.invoke", "4006")
		call.Effect, call.Executed = commands.Act, true
		trail.Audit(call)
	}
	shut(t, trail)
	n := 0
	for _, e := range entries(t, log) {
		if e.Event == "skill.invoke" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	r := newRepeats()
	written := 0
	for i := range 200_000 {
		who := fmt.Sprint("p", i%2000)
		e := Entry{Time: time.Now(), Event: fmt.Sprint("e", i/2000), Code: "2003", Principal: who, Kind: protocol.KindAgent}
		if !r.absorb(&e) {
			written++
		}
	}
	if len(r.known) > maxRefused+1 || written > maxRefused+1 {
		t.Errorf("%d sorts are known, %d entries are written", len(r.known), written)
	}
	total := uint64(written)
	for _, again := range r.known {
		total += again.count
	}
	if total != 200_000 {
		t.Errorf("%d refusals are accounted for", total)
	}
	r = newRepeats()
	for i := range 1000 {
		r.absorb(&Entry{Time: time.Now(), Event: fmt.Sprint("e", i), Code: "1001", Principal: "greedy"})
	}
	if len(r.known) != maxOfParty+1 {
		t.Errorf("one party has %d sorts", len(r.known))
	}
	if left := r.settled(time.Now().Add(time.Hour)); len(left) != 1 || left[0].Details["repeated"] != "935" || len(r.known)+len(r.of) != 0 {
		t.Errorf("%d entries and %d sorts are left: %+v", len(left), len(r.known), left)
	}
}

// TestNoiseDoesNotPushOutEvidence fills a small trail with calls many times
// over: what concerns security stays.
func TestNoiseDoesNotPushOutEvidence(t *testing.T) {
	log := &memoryLog{}
	trail := openTrail(t, log, func(o *Options) { o.KeepSize = 64 << 10 })
	ctx := context.Background()
	trail.Record(ctx, Entry{Event: KeyCreated, Code: OK, Security: true, Resource: "key/mallory"})
	call := refusedCall(alice, "skill.register", "")
	call.Err = nil
	for range 40 {
		for range 200 {
			trail.Audit(call)
		}
		if err := trail.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := trail.trim(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r := ask(t, trail, admin, QueryParams{Event: KeyCreated})
	if len(r.Entries) != 1 || r.Entries[0].Resource != "key/mallory" || r.Entries[0].Details[carried] == "" {
		t.Errorf("found %+v", r.Entries)
	}
	report, err := trail.Verify(ctx)
	if err != nil || !report.OK {
		t.Errorf("%v: %+v", err, report.Problems)
	}
	if b, _ := log.Bounds(ctx); b.Bytes > 256<<10 {
		t.Errorf("the trail has %d bytes", b.Bytes)
	}
	shut(t, trail)
}

func TestWhatWasChangedIsNotCarriedOverAsTrue(t *testing.T) {
	log := &memoryLog{}
	trail := openTrail(t, log)
	trail.Record(t.Context(), Entry{Event: KeyCreated, Code: OK, Security: true, Resource: "key/mallory"})
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := decodeBlock(log.groups[len(log.groups)-1])
	if len(b.groups) == 0 || !b.groups[0].genuine(trail.o.Key) {
		t.Fatalf("%+v", b)
	}
	b.groups[0].hash[20] ^= 1
	if b.groups[0].genuine(trail.o.Key) {
		t.Error("a changed entry is taken for genuine")
	}
	shut(t, trail)
	imported, _ := importedOf(t, testKey(t, 1), 3)
	old := decodeBlock(imported.groups[0]).groups[0]
	if !old.genuine(testKey(t, 1)) {
		t.Error("an imported group is not taken for genuine")
	}
	old.entries[1].json[20] ^= 1
	if old.genuine(testKey(t, 1)) {
		t.Error("a changed entry that was imported is taken for genuine")
	}
}
