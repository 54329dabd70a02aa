package site

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// TestWhatIsRefusedDoesNotHoldUpTheRest tells errors of one agent or skill from those
// of a centre that does not answer.
func TestWhatIsRefusedDoesNotHoldUpTheRest(t *testing.T) {
	t.Parallel()
	of := func(code protocol.Code) error { return protocol.Errorf(code, "no") }
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{of(protocol.AlreadyExists), false},
		{of(protocol.PermissionDenied), false},
		{of(protocol.NoSpace), false},
		{of(protocol.Internal), false}, // it would be the same each time
		{fmt.Errorf("skill oven: %w", of(protocol.Internal)), false},
		{of(protocol.Busy), true},
		{of(protocol.RateLimited), true},
		{of(protocol.TimedOut), true},
		{of(protocol.OutcomeUnknown), true},
		{of(protocol.StoreUnavailable), true},
		{of(protocol.ShuttingDown), true},
		{context.Canceled, true},
		{errors.New("the connection is lost"), true},
	} {
		if got := passes(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
