package webdav

import (
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// TestNoSpaceHasAllLocks has the principals of one space take as many as they may,
// which leaves room for those of others.
func TestNoSpaceHasAllLocks(t *testing.T) {
	s := newLocks(time.Now)
	take := func(space, id, root string) error {
		_, _, err := s.take(&protocol.Principal{ID: id, Kind: protocol.KindAgent, Space: protocol.SpaceID(space)}, heldLock{root: root, timeout: time.Hour})
		return err
	}
	var refused error
	for n := 0; refused == nil && n <= maxLocks; n++ {
		refused = take("red", fmt.Sprint("p", n/maxLocksOfParty), fmt.Sprint("g/", n))
	}
	if protocol.CodeOf(refused) != protocol.Busy || len(s.byToken) != maxLocksOfSpace {
		t.Errorf("%d locks, %v", len(s.byToken), refused)
	}
	if err := take("blue", "other", "g/0"); err != nil {
		t.Error(err)
	}
}
