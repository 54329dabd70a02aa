package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestRiskDecidesWhatHappens(t *testing.T) {
	d := newDesk(t)
	for risk, want := range map[string]Ruling{
		"": Run, "low": Run, "medium": Ask, "high": Ask, "HIGH": Ask, "ask": Ask, "deny": Deny, "nobody knows": Ask, "none": Run,
	} {
		got, _ := d.judge(t.Context(), &tools.Tool{Declaration: tools.Declaration{Risk: risk}}, heat(bot))
		if got != want {
			t.Errorf("%q: %s, want %s", risk, got, want)
		}
		group := heat(bot)
		group.Risks = []string{"", risk}
		if got, _ = d.judge(t.Context(), &tools.Tool{}, group); got != want {
			t.Errorf("%q of a member: %s, want %s", risk, got, want)
		}
	}
}

// rules are a Policy.
type rules struct{ run, unattended bool }

func (r rules) MayRun(context.Context, *tools.Execution) bool     { return r.run }
func (r rules) Unattended(context.Context, *tools.Execution) bool { return r.unattended }

func TestPolicyMayOnlyBeStricter(t *testing.T) {
	for _, test := range []struct {
		rules rules
		risk  string
		want  Ruling
	}{
		{rules{true, true}, "", Run}, {rules{true, false}, "", Ask}, {rules{false, true}, "", Deny}, {rules{false, false}, "high", Deny},
		{rules{true, true}, "high", Ask}, {rules{true, true}, "deny", Deny}, {rules{true, false}, "deny", Deny},
	} {
		d := newDesk(t, func(o *Options) { o.Policy = test.rules })
		if got, why := d.judge(t.Context(), &tools.Tool{Declaration: tools.Declaration{Risk: test.risk}}, heat(bot)); got != test.want || got != Run && why == "" {
			t.Errorf("%+v: %s because %q", test, got, why)
		}
	}
}

// about has rules of their own for some tools.
type about map[string]rules

func (a about) of(x *tools.Execution) rules {
	if r, ok := a[x.Name]; ok {
		return r
	}
	return rules{true, true}
}

func (a about) MayRun(_ context.Context, x *tools.Execution) bool     { return a.of(x).run }
func (a about) Unattended(_ context.Context, x *tools.Execution) bool { return a.of(x).unattended }

func TestPolicyOfAToolHoldsForGroupsThatItIsReachedBy(t *testing.T) {
	d := newDesk(t, func(o *Options) {
		o.Policy = about{"door.open": {true, false}, "safe.open": {false, true}}
	})
	for _, test := range []struct {
		reaches []string
		want    Ruling
		why     string
	}{
		{nil, Run, ""},
		{[]string{"lamp.open"}, Run, ""},
		{[]string{"lamp.open", "door.open"}, Ask, "policy wants somebody to agree, for door.open"},
		{[]string{"door.open", "safe.open", "lamp.open"}, Deny, "policy forbids it, for safe.open"},
	} {
		x := heat(bot)
		x.Name, x.Reaches = "group.dispatch", test.reaches
		if got, why := d.judge(t.Context(), &tools.Tool{}, x); got != test.want || why != test.why || x.Name != "group.dispatch" {
			t.Errorf("%q: %s because %q", test.reaches, got, why)
		}
	}
}

func TestACallWaitsUntilSomebodyAgrees(t *testing.T) {
	d := newDesk(t)
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	if a.State != Pending || a.Tool != "oven.heat" || string(a.Args) != `{"celsius":220}` || a.Requester != "bot" || a.Nonce == "" || a.Hash == "" || a.TraceID != "t-1" || a.Why == "" {
		t.Errorf("asked %+v", a)
	}
	select {
	case err := <-passed:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	r, _, _ := d.table.Get(a.ID)
	if r.State != Used || r.DecidedBy != "alice" {
		t.Errorf("it is %+v", r.Approval)
	}
	if err := d.decide(bob, a, "approve", ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("decided twice: %v", err)
	}
	close(d.audit)
	if got := slices.Collect(chanSeq(d.audit)); !slices.Equal(got, []string{"approval.requested", "approval.approved", "approval.used"}) {
		t.Errorf("audited %v", got)
	}
}

func chanSeq[T any](ch chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range ch {
			if !yield(v) {
				return
			}
		}
	}
}

func TestARefusalIsToldWithItsReason(t *testing.T) {
	d := newDesk(t)
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	if err := d.decide(alice, a, "deny", "nobody is home"); err != nil {
		t.Fatal(err)
	}
	err := <-passed
	if protocol.CodeOf(err) != protocol.PermissionDenied || !strings.Contains(err.Error(), "alice denied the call: nobody is home") || reason(err) != "denied" {
		t.Errorf("got %v", err)
	}
	if got := d.state(a.ID); got != Denied {
		t.Errorf("it is %s", got)
	}
}

func TestNobodyIsAskedTwiceAboutWhatWasDenied(t *testing.T) {
	now := time.Now()
	d := newDesk(t, func(o *Options) { o.Now = func() time.Time { return now } })
	passed := d.gate(t.Context(), oven, heat(bot))
	if err := d.decide(alice, d.asked(t), "deny", "too hot"); err != nil {
		t.Fatal(err)
	}
	<-passed
	if err := d.Gate(t.Context(), oven, heat(bot)); reason(err) != "denied" || !strings.Contains(err.Error(), "too hot") {
		t.Errorf("the same again: %v", err)
	}
	another, cooler := heat(bot), heat(bot)
	another.TraceID = "t-2"
	cooler.ArgumentsJSON = json.RawMessage(`{"celsius":120}`)
	for name, x := range map[string]*tools.Execution{"in another trace": another, "other arguments": cooler, "for somebody else": heat(alice)} {
		passed := d.gate(t.Context(), oven, x)
		if err := d.decide(bob, d.asked(t), "approve", ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-passed; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	now = now.Add(remembered)
	passed = d.gate(t.Context(), oven, heat(bot))
	if err := d.decide(alice, d.asked(t), "approve", ""); err != nil {
		t.Error(err)
	}
	if err := <-passed; err != nil {
		t.Errorf("much later: %v", err)
	}
}

func TestSilenceDeniesWithinWhatIsLeftOfTheCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for _, test := range []struct{ left, waits time.Duration }{{0, 120 * time.Second}, {10 * time.Second, 8 * time.Second}, {100 * time.Second, 95 * time.Second}} {
			ctx, cancel := t.Context(), func() {}
			if test.left > 0 {
				ctx, cancel = context.WithTimeout(ctx, test.left)
			}
			start := time.Now()
			err := d.Gate(ctx, oven, heat(bot))
			if waited := time.Since(start); waited != test.waits || reason(err) != "expired" || !strings.Contains(err.Error(), fmt.Sprint(test.waits)) {
				t.Errorf("with %s left it waited %s: %v", test.left, waited, err)
			}
			a := d.asked(t)
			if d.state(a.ID) != Expired {
				t.Errorf("it is %s", d.state(a.ID))
			}
			if err := d.decide(alice, a, "approve", ""); protocol.CodeOf(err) != protocol.InvalidState {
				t.Errorf("decided too late: %v", err)
			}
			cancel()
		}
	})
}

func TestACallThatEndsTakesItsQuestionBack(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancel(t.Context())
	passed := d.gate(ctx, oven, heat(bot))
	a := d.asked(t)
	cancel()
	if err := <-passed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if d.state(a.ID) != Withdrawn {
		t.Errorf("it is %s", d.state(a.ID))
	}
}

// A confirming table says that a write was made after something else has happened, unless
// its caller has not waited for that.
type confirming struct {
	*recordstest.Memory[Record]
	first func()
}

func (c confirming) Create(ctx context.Context, id string, r *Record) (uint64, error) {
	revision, err := c.Memory.Create(ctx, id, r)
	if c.first(); ctx.Err() != nil {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "the store did not confirm the write, which may have happened")
	}
	return revision, err
}

func TestACallThatEndsWhileItsQuestionIsStoredTakesItBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newDesk(t, func(o *Options) {
		o.Approvals = confirming{o.Approvals.(*recordstest.Memory[Record]), cancel}
	})
	if err := <-d.gate(ctx, oven, heat(bot)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for id, r := range d.table.All() {
		if r.State != Withdrawn {
			t.Errorf("%s is %s", id, r.State)
		}
	}
}

func TestWhoMayDecide(t *testing.T) {
	d := newDesk(t)
	passed := d.gate(t.Context(), oven, heat(alice))
	a := d.asked(t)
	forged := a
	forged.Nonce = nonceOf(newSalt(), a.Hash)
	observer := &protocol.Principal{ID: "o", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleObserver}}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		a    Approval
		code protocol.Code
	}{
		"the requester":            {alice, a, protocol.PermissionDenied},
		"an observer":              {observer, a, protocol.PermissionDenied},
		"somebody of another role": {bot, a, protocol.NotFound},
		"another space":            {eve, a, protocol.NotFound},
		"a wrong nonce":            {bob, forged, protocol.InvalidParameter},
		"no such thing":            {bob, Approval{ID: "x"}, protocol.NotFound},
	} {
		if err := d.decide(test.who, test.a, "approve", ""); protocol.CodeOf(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.decide(bob, a, "approve", ""); err != nil {
		t.Error(err)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
}

func TestPolicyMayLetTheRequesterApprove(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MayDecideOwn = func(who *protocol.Principal) bool { return who.ID == "alice" } })
	passed := d.gate(t.Context(), oven, heat(alice))
	if err := d.decide(alice, d.asked(t), "approve", ""); err != nil {
		t.Error(err)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
}

// TestOneApprovalIsForOneExecution has many decide about the same call, and
// the same call made many times.
func TestOneApprovalIsForOneExecution(t *testing.T) {
	d := newDesk(t)
	const calls = 8
	var passed []<-chan error
	for i := range calls {
		x := heat(bot)
		x.TraceID = fmt.Sprint("t-", i) // each asks by itself, whatever is said about the others
		passed = append(passed, d.gate(t.Context(), oven, x))
	}
	first := d.asked(t)
	won := make(chan error, 16)
	for i := range cap(won) {
		go func() {
			won <- d.decide([]*protocol.Principal{alice, bob}[i%2], first, []string{"approve", "approve", "deny"}[i%3], "")
		}()
	}
	decided := 0
	for range cap(won) {
		if err := <-won; err == nil {
			decided++
		} else if protocol.CodeOf(err) != protocol.InvalidState {
			t.Error(err)
		}
	}
	if decided != 1 {
		t.Errorf("decided %d times", decided)
	}
	nonces := map[string]bool{first.Nonce: true}
	for range calls - 1 {
		a := d.asked(t)
		if nonces[a.Nonce] {
			t.Error("a nonce serves twice")
		}
		nonces[a.Nonce] = true
		if err := d.decide(alice, Approval{ID: a.ID, Nonce: first.Nonce}, "approve", ""); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("the nonce of another call: %v", err)
		}
		if err := d.decide(alice, a, "deny", ""); err != nil {
			t.Error(err)
		}
	}
	let := 0
	for _, p := range passed {
		if <-p == nil {
			let++
		}
	}
	if want := map[State]int{Denied: 0, Used: 1}[d.state(first.ID)]; let != want {
		t.Errorf("%d calls were let through, and the approval is %s", let, d.state(first.ID))
	}
}

func TestWhatIsRunIsWhatWasApproved(t *testing.T) {
	d := newDesk(t)
	for want, change := range map[any]func(x *tools.Execution){
		error(nil): func(x *tools.Execution) { x.Roster = []string{"attic", "hall"} },
		"roster":   func(x *tools.Execution) { x.Roster = append(x.Roster, "oven") },
		"argument": func(x *tools.Execution) { x.ArgumentsJSON = json.RawMessage(`{"celsius":300}`) },
	} {
		x := heat(bot)
		x.Roster = []string{"hall", "attic"}
		passed := d.gate(t.Context(), oven, x)
		a := d.asked(t)
		if !slices.Equal(a.Roster, []string{"hall", "attic"}) {
			t.Errorf("shown %v", a.Roster)
		}
		change(x)
		if err := d.decide(alice, a, "approve", ""); err != nil {
			t.Fatal(err)
		}
		if err := <-passed; (err == nil) != (want == error(nil)) || err != nil && reason(err) != "changed" {
			t.Errorf("%v: got %v", want, err)
		}
	}
}

func TestACredentialThatEndsMeanwhileLetsNothingThrough(t *testing.T) {
	var revoked atomic.Bool
	d := newDesk(t, func(o *Options) {
		o.Check = func(*protocol.Principal) error {
			if revoked.Load() {
				return protocol.Errorf(protocol.CredentialInvalid, "revoked")
			}
			return nil
		}
	})
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	revoked.Store(true)
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; reason(err) != "credential" || d.state(a.ID) != Withdrawn {
		t.Errorf("revoked: %v, the approval is %s", err, d.state(a.ID))
	}
}

func TestPolicyMayChangeItsMindMeanwhile(t *testing.T) {
	p := &rules{true, true}
	d := newDesk(t, func(o *Options) { o.Policy = p })
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	p.run = false
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; reason(err) != "denied" || d.state(a.ID) != Withdrawn {
		t.Errorf("got %v, %s", err, d.state(a.ID))
	}
}

func TestFaultsDeny(t *testing.T) {
	d := newDesk(t)
	d.table.Break(errors.New("disk full"))
	if err := d.Gate(t.Context(), oven, heat(bot)); reason(err) != "fault" {
		t.Errorf("not stored: %v", err)
	}
	d.table.Break(nil)
	long := heat(bot)
	long.ArgumentsJSON = json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
	if err := d.Gate(t.Context(), oven, long); reason(err) != "too_long" {
		t.Errorf("too long: %v", err)
	}
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
}

func TestAnApprovalThatCannotBeNotedAsUsedIsNotUsed(t *testing.T) {
	d := newDesk(t, func(o *Options) {
		o.Approvals.OnChange(func(_ string, _, r *Record) {
			if r != nil && r.State == Approved {
				o.Approvals.(*recordstest.Memory[Record]).Break(errors.New("disk full"))
			}
		})
	})
	passed := d.gate(t.Context(), oven, heat(bot))
	if err := d.decide(alice, d.asked(t), "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; reason(err) != "fault" {
		t.Errorf("got %v", err)
	}
}

func TestAnEarlierProcessLeavesNothingToApprove(t *testing.T) {
	d := newDesk(t)
	r, err := d.draft(t.Context(), oven, heat(bot), "x")
	if err != nil {
		t.Fatal(err)
	}
	r.Expires = ms(time.Now().Add(time.Hour))
	if _, err := d.table.Create(t.Context(), r.ID, r); err != nil {
		t.Fatal(err)
	}
	if err := d.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.decide(alice, Approval{ID: r.ID, Nonce: nonceOf(r.Salt, r.Hash)}, "approve", ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("got %v", err)
	}
}

func TestABridgeThatStopsLetsNobodyWait(t *testing.T) {
	d := newDesk(t)
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; protocol.CodeOf(err) != protocol.ShuttingDown || d.state(a.ID) != Withdrawn {
		t.Errorf("got %v, %s", err, d.state(a.ID))
	}
}

func TestWaitingCallsAreBounded(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxOwn, o.MaxOpen = 2, 3 })
	ctx, cancel := context.WithCancel(t.Context())
	waiting := []<-chan error{d.gate(ctx, oven, heat(bot))}
	d.asked(t)
	waiting = append(waiting, d.gate(ctx, oven, heat(bot)))
	d.asked(t)
	if err := d.Gate(ctx, oven, heat(bot)); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("one too many of its own: %v", err)
	}
	waiting = append(waiting, d.gate(ctx, oven, heat(alice)))
	d.asked(t)
	if err := d.Gate(ctx, oven, heat(bob)); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for _, w := range waiting {
		<-w
	}
}

func TestOldApprovalsAreForgotten(t *testing.T) {
	now := time.Now()
	d := newDesk(t, func(o *Options) { o.Now, o.MaxKept = func() time.Time { return now }, 2 })
	put := func(state State, age time.Duration) string {
		r, err := d.draft(t.Context(), oven, heat(bot), "x")
		if err != nil {
			t.Fatal(err)
		}
		r.State, r.AskedAt = state, ms(now.Add(-age))
		r.Expires = r.AskedAt + 1000
		if _, err := d.table.Create(t.Context(), r.ID, r); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	old, lost, tooMany := put(Used, 8*24*time.Hour), put(Pending, time.Hour), put(Denied, time.Hour)
	waits, recent, newest := put(Pending, time.Second), put(Used, time.Hour), put(Denied, time.Minute)
	d.sweep(t.Context())
	due, _ := d.calendar.due(now)
	for _, id := range due {
		d.look(t.Context(), id)
	}
	for id, want := range map[string]State{old: "", tooMany: "", lost: Expired, waits: Pending, recent: Used, newest: Denied} {
		r, _, ok := d.table.Get(id)
		if ok != (want != "") || ok && r.State != want {
			t.Errorf("%s: %v %v, want %q", id, ok, r, want)
		}
	}
}

func TestApprovalsAreListedForThoseConcerned(t *testing.T) {
	d := newDesk(t)
	var waiting []<-chan error
	ctx, cancel := context.WithCancel(t.Context())
	for _, who := range []*protocol.Principal{bot, bot, alice} {
		waiting = append(waiting, d.gate(ctx, oven, heat(who)))
		d.asked(t)
	}
	for who, want := range map[*protocol.Principal]int{alice: 3, bob: 3, bot: 2, eve: 0} {
		page, err := d.List(ctx, &commands.Call{Principal: who}, ListParams{State: Pending, Page: listing.Page{Limit: 2}})
		if err != nil || page.Total != want || len(page.Approvals) != min(want, 2) || (page.NextCursor != "") != (want > 2) {
			t.Errorf("%s sees %+v, %v", who.ID, page, err)
		}
		if page.NextCursor != "" {
			rest, _ := d.List(ctx, &commands.Call{Principal: who}, ListParams{Page: listing.Page{Cursor: page.NextCursor}})
			if len(rest.Approvals) != 1 || rest.Approvals[0].Requester != "bot" {
				t.Errorf("the second page is %+v", rest)
			}
		}
	}
	for name, tt := range map[string]struct {
		params ListParams
		want   int
	}{
		"that alice may decide": {ListParams{Mine: true}, 2},
		"of the tool":           {ListParams{Tool: "oven.heat"}, 3},
		"of another tool":       {ListParams{Tool: "oven"}, 0},
		"with a text":           {ListParams{Find: "OVEN"}, 3},
		"that are over":         {ListParams{Over: true}, 0},
	} {
		page, err := d.List(ctx, &commands.Call{Principal: alice}, tt.params)
		if err != nil || page.Total != tt.want {
			t.Errorf("%d %s, want %d: %v", page.Total, name, tt.want, err)
		}
	}
	cancel()
	for _, w := range waiting {
		<-w
	}
	page, _ := d.List(t.Context(), &commands.Call{Principal: alice}, ListParams{})
	if page.Approvals[0].Nonce != "" || page.Approvals[0].State != Withdrawn {
		t.Errorf("a nonce of what is over: %+v", page.Approvals[0])
	}
	if got, err := d.Service.Get(t.Context(), &commands.Call{Principal: alice}, GetParams{ID: page.Approvals[0].ID}); err != nil || got.ID != page.Approvals[0].ID {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := d.Service.Get(t.Context(), &commands.Call{Principal: eve}, GetParams{ID: page.Approvals[0].ID}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another space: %v", err)
	}
}
