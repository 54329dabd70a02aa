package s3

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// TestAnUploadGivesItsBytesBackOnce ends an upload again, as an abort does that
// waited for another one.
func TestAnUploadGivesItsBytesBackOnce(t *testing.T) {
	owner := protocol.Party{ID: "alice", Kind: protocol.KindAgent, Space: protocol.DefaultSpace}
	s := newUploads(Options{})
	s.parties[owner], s.spaces[protocol.DefaultSpace] = &spooled{uploads: 1, bytes: 3 * leastCharge}, 1
	u := &upload{id: "u", owner: owner, space: protocol.DefaultSpace, dir: filepath.Join(t.TempDir(), "u"), parts: map[int]part{1: {size: 10}}}
	s.byID["u"] = u
	s.end(u)
	s.end(u)
	if got := s.parties[owner]; got == nil || got.bytes != 2*leastCharge || got.uploads != 0 || len(s.spaces) != 0 {
		t.Errorf("%+v, %v", got, s.spaces)
	}
}

// TestNoSpaceHasAllUploads has the principals of one space begin as many as they
// may, which leaves room for those of others.
func TestNoSpaceHasAllUploads(t *testing.T) {
	s := newUploads(Options{Spool: t.TempDir(), Now: time.Now})
	begin := func(space, id string) error {
		return s.begin(&protocol.Principal{ID: id, Kind: protocol.KindAgent, Space: protocol.SpaceID(space)}, new(upload))
	}
	var refused error
	for n := 0; refused == nil && n <= maxUploads; n++ {
		refused = begin("red", fmt.Sprint("p", n/maxUploadsOfParty))
	}
	if protocol.CodeOf(refused) != protocol.LimitReached || len(s.byID) != maxUploadsOfSpace {
		t.Errorf("%d uploads, %v", len(s.byID), refused)
	}
	if err := begin("blue", "other"); err != nil {
		t.Error(err)
	}
}
