package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// However many ask at once, no more wait than may.
func TestNoMoreWaitThanMay(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxOwn = 3 })
	d.table.Yield()
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			x := heat(bot)
			x.Parks = true
			var question *tools.Question
			if !errors.As(d.Gate(t.Context(), oven, x), &question) {
				t.Error("it does not wait")
				return
			}
			r := question.Draft.(*Record)
			release, err := d.Reserve(r)
			if err != nil {
				if protocol.CodeOf(err) != protocol.LimitReached {
					t.Error(err)
				}
				return
			}
			defer release()
			if err := d.Open(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := d.table.Len(); n == 0 || n > 3 {
		t.Errorf("%d wait", n)
	}
	for id := range d.table.All() {
		if err := d.Withdraw(t.Context(), id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.tally.total(); n != 0 {
		t.Errorf("of none %d are counted", n)
	}
}

func TestNobodyCountsTheEventsOfAnotherSpace(t *testing.T) {
	d := newDesk(t)
	next := func(who *protocol.Principal) uint64 {
		t.Helper()
		x := heat(who)
		x.Parks = true
		var question *tools.Question
		if !errors.As(d.Gate(t.Context(), oven, x), &question) {
			t.Fatal("it does not wait")
		}
		if err := d.Open(t.Context(), question.Draft.(*Record)); err != nil {
			t.Fatal(err)
		}
		return (<-d.events).Seq
	}
	if one, two, other := next(bot), next(bot), next(eve); one != 1 || two != 2 || other != 1 {
		t.Errorf("numbered %d, %d, and %d in another space", one, two, other)
	}
}

func TestNobodyHasTheApprovalsOfOthersForgotten(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxKept, o.MaxOwnKept = 5, 3 })
	for i, who := range []string{"carol", "bob", "bob", "bob", "bob", "bob", "bob"} {
		r := &Record{Approval: Approval{ID: fmt.Sprint(i), State: Denied, Requester: who, Kind: protocol.KindOperator, AskedAt: time.Now().UnixMilli()}}
		if _, err := d.table.Create(t.Context(), r.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	d.sweep(t.Context())
	if _, _, ok := d.table.Get("0"); !ok || d.table.Len() != 4 {
		t.Errorf("%d are kept, carol's: %v", d.table.Len(), ok)
	}
}

func TestNoSpaceHasTheApprovalsOfAnotherForgotten(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxKept = 5 })
	for i := range 20 { // by many principals, each within its own bound
		r := &Record{Home: "loud", Approval: Approval{ID: fmt.Sprint(100 + i), State: Denied, Requester: fmt.Sprint(i), Kind: protocol.KindOperator, AskedAt: time.Now().UnixMilli()}}
		if i == 0 {
			r.ID, r.Home = "000", "quiet" // the oldest
		}
		if _, err := d.table.Create(t.Context(), r.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	d.sweep(t.Context())
	if _, _, ok := d.table.Get("000"); !ok || d.table.Len() != 6 {
		t.Errorf("%d are kept, that of the other space: %v", d.table.Len(), ok)
	}
}

func TestWhatIsLostMayHaveBeenDone(t *testing.T) {
	d := newDesk(t)
	x := heat(bot)
	x.Parks, x.Approval = true, "nothing"
	if err := d.Gate(t.Context(), oven, x); protocol.CodeOf(err) != protocol.OutcomeUnknown {
		t.Errorf("an approval that is lost: %v", err)
	}
	x.Approval = d.waits(t, heat(alice)).ID
	if err := d.Gate(t.Context(), oven, x); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("the approval of somebody else: %v", err)
	}
}

// backwards seals by turning texts round.
type backwards struct{ broken bool }

func (b *backwards) Seal(plain []byte, purpose string) ([]byte, error) {
	turned := bytes.Clone(plain)
	for i := range turned {
		turned[i] ^= 0xff
	}
	return append([]byte(purpose), turned...), nil
}

func (b *backwards) Open(sealed []byte, purpose string) ([]byte, error) {
	turned, ok := bytes.CutPrefix(sealed, []byte(purpose))
	if !ok || b.broken {
		return nil, errors.New("sealed for something else")
	}
	turned = bytes.Clone(turned)
	for i := range turned {
		turned[i] ^= 0xff
	}
	return turned, nil
}

func TestArgumentsAreSealed(t *testing.T) {
	inner, seals := recordstest.New[Record](), new(backwards)
	d := newDesk(t, func(o *Options) { o.Approvals = Sealed(inner, seals) })
	a := d.waits(t, heat(bot))
	_, _, err := records.Change(t.Context(), d.opts.Approvals, a.ID, func(r *Record, _ uint64) (*Record, error) {
		next := *r
		next.Changes = []string{`the arguments were {"celsius":200}`}
		return &next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, _, _ := inner.Get(a.ID)
	var raw bytes.Buffer
	if err := records.Encode(&raw, stored); err != nil || strings.Contains(raw.String(), "celsius") {
		t.Errorf("stored %s, %v", raw.String(), err)
	}
	for _, r := range d.opts.Approvals.All() {
		if string(r.Args) != `{"celsius":220}` || len(r.Changes) != 1 || !strings.Contains(r.Changes[0], "200") {
			t.Errorf("opened %s, %q", r.Args, r.Changes)
		}
	}
	seals.broken = true
	if err := d.decide(alice, a, "approve", ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("approved what nobody can read: %v", err)
	}
	seals.broken = false
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	// An approval of a version that sealed nothing.
	open := *stored
	open.ID, open.Args, open.SealedArgs = "older", json.RawMessage(`{"celsius":1}`), nil
	if _, err := inner.Create(t.Context(), open.ID, &open); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := d.opts.Approvals.Get("older"); string(r.Args) != `{"celsius":1}` {
		t.Errorf("opened %s", r.Args)
	}
	seals.broken = true
	if err := d.decide(alice, (&Record{Approval: open.Approval, Salt: open.Salt}).view(), "deny", ""); err != nil {
		t.Errorf("an approval of an earlier version: %v", err)
	}
}
