package mcp

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func TestRequestsOfOneKeepNobodyElseOut(t *testing.T) {
	rs := newRequests(64, grant.Unlimited{})
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
