package door

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

func TestARequestEndsWithItsCredentialByTheCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.New()
		rs := newRequests(8, c)
		who := &protocol.Principal{ID: "ada", Expires: c.Now().Add(time.Hour)}
		ctx, done, err := rs.begin(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		start := time.Now()
		c.Step(2 * time.Hour) // the machine has slept
		<-ctx.Done()
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it went on for %v", took)
		}
		if e, ok := errors.AsType[*protocol.Error](context.Cause(ctx)); !ok || e.Code != protocol.CredentialInvalid {
			t.Errorf("ended by %v", context.Cause(ctx))
		}
	})
}

func TestRequestsOfOneKeepNobodyElseOut(t *testing.T) {
	rs := newRequests(64, clock.New())
	begin := func(who *protocol.Principal) *protocol.Error {
		_, done, err := rs.begin(t.Context(), who)
		if err == nil {
			t.Cleanup(done)
		}
		return err
	}
	greedy := &protocol.Principal{ID: "greedy", Space: "home"}
	for range 16 {
		if err := begin(greedy); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin(greedy); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("more than a quarter: %v", err)
	}
	if err := begin(&protocol.Principal{ID: "modest", Space: "home"}); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}
