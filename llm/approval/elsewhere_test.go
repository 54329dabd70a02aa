package approval

import (
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// plant is a bridge that is a site of the desk's.
var plant = &protocol.Principal{Kind: protocol.KindAgent, ID: "plant-bridge", Space: protocol.DefaultSpace, Roles: []string{"site"}}

const questionID = "01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10.5d41402abc4b"

// requests has the site ask about its oven.
func (d *desk) requests(t *testing.T, risk string) Approval {
	t.Helper()
	a, err := d.Request(t.Context(), &commands.Call{Principal: plant}, RequestParams{
		ID: questionID, Site: "plant", Tool: "oven.heat", Args: []byte(`{"celsius":220}`), Risk: risk, Why: "it is hot", AskedBy: "operator/bob",
		Expires: d.opts.Now().Add(time.Hour).UnixMilli(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestASitesCallIsDecidedAboutAsAnyOther asks twice, by a rule about the risk, and ends it.
func TestASitesCallIsDecidedAboutAsAnyOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ruled(Rule{Tools: []string{"plant.*"}, Risks: []string{"high"}, Needs: 2}))
	a := d.requests(t, "high")
	if again := d.requests(t, "high"); a.Tool != "plant.oven.heat" || a.Needs != 2 || again.ID != a.ID || again.Nonce != a.Nonce {
		t.Errorf("asked %+v, and again %+v", a, again)
	}
	if left := d.Abandoned(func(string, string) bool { return false }); len(left) > 0 {
		t.Errorf("taken for abandoned: %v", left)
	}
	for _, who := range []*protocol.Principal{alice, bob} {
		if err := d.decide(who, a, "approve", "fine"); err != nil {
			t.Fatal(err)
		}
	}
	if now := d.requests(t, "high"); now.State != Approved || now.DecidedBy == "" {
		t.Errorf("after two votes %+v", now)
	}
	end := func(who *protocol.Principal) (Approval, error) {
		return d.CloseRequested(t.Context(), &commands.Call{Principal: who}, CloseParams{ID: a.ID, Taken: true})
	}
	if _, err := end(bot); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another ends it: %v", err)
	}
	for range 2 {
		if ended, err := end(plant); err != nil || ended.State != Used {
			t.Errorf("ended %+v, %v", ended, err)
		}
	}
}

// TestAnApprovalThatASiteDoesNotTakeOverEnds, and one whose voter may decide no more counts
// for nothing.
func TestAnApprovalThatASiteDoesNotTakeOverEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	grants := &granttest.Authority{}
	d := newDesk(t, func(o *Options) { o.Now, o.Use, o.Grants = func() time.Time { return now }, time.Minute, grants })
	a := d.requests(t, "")
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	d.sweep(t.Context())
	if now := d.requests(t, ""); now.State != Approved {
		t.Errorf("after a look it is %s", now.State)
	}
	grants.End("alice", protocol.Errorf(protocol.CredentialInvalid, "the key was revoked"))
	if now := d.requests(t, ""); now.State != Pending || len(now.Votes) > 0 {
		t.Errorf("without its voter's key it is %+v", now)
	}
	if err := d.decide(bob, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	d.sweep(t.Context())
	if got := d.state(a.ID); got != Expired {
		t.Errorf("too late it is %s", got)
	}
}

// TestASiteThatAsksAndTakesBackIsBounded until the next sweep.
func TestASiteThatAsksAndTakesBackIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(o *Options) {
		o.MaxOwnKept, o.Record, o.Publish = 3, func(Event) {}, func(protocol.Recipients, *protocol.Event) {}
	})
	call := &commands.Call{Principal: plant}
	again := func(n int) error {
		p := RequestParams{
			ID: fmt.Sprintf("01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10.%d", n), Site: "plant", Tool: "oven.heat", Args: []byte(`{}`), Why: "it is hot", AskedBy: "operator/bob",
			Expires: d.opts.Now().Add(time.Hour).UnixMilli(),
		}
		if _, err := d.Request(t.Context(), call, p); err != nil {
			return err
		}
		_, err := d.CloseRequested(t.Context(), call, CloseParams{ID: p.ID})
		return err
	}
	for n := range 6 {
		if err := again(n); err != nil {
			t.Fatal(err)
		}
	}
	if due, _ := d.calendar.due(d.opts.Now().Add(MaxLife)); len(due) > 0 {
		t.Errorf("%d that are over are in the calendar", len(due))
	}
	if err := again(6); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("the seventh: %v", err)
	}
	d.sweep(t.Context())
	if err := again(7); err != nil || d.table.Len() != 4 {
		t.Errorf("after a sweep: %v; %d are kept", err, d.table.Len())
	}
}
