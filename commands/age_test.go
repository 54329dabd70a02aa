package commands

import (
	"math"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// TestTheAgeOfARequestIsThatOfItsTimestamp has timestamps near and far, and some that no
// whole number of nanoseconds holds.
func TestTheAgeOfARequestIsThatOfItsTimestamp(t *testing.T) {
	t.Parallel()
	arrived := epoch.Add(123_456_789 * time.Nanosecond)
	now := arrived.UnixMilli()
	for _, ms := range []int64{now, now - 1, now + 1, now - latelyMillis, now + latelyMillis, now - latelyMillis + 1,
		now / 1000, 1, -1, math.MinInt64, math.MaxInt64, math.MinInt64 + latelyMillis, math.MaxInt64 - latelyMillis} {
		c := &Call{arrived: arrived, request: &protocol.Request{Timestamp: ms}}
		if got, want := c.age(), arrived.Sub(time.UnixMilli(ms)); got != want {
			t.Errorf("the age of a request of %d is %v, want %v", ms, got, want)
		}
	}
	c := &Call{arrived: arrived, request: &protocol.Request{}}
	if got := c.age(); got != 0 {
		t.Errorf("a request without a timestamp is %v old", got)
	}
}
