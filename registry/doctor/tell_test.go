package doctor

import (
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// What an owner does wrong is no affair of everything that it has registered.
func TestWhoHearsOfAFault(t *testing.T) {
	lamp := protocol.AgentID("lamp")
	owner := protocol.Party{Kind: protocol.KindOperator, Space: "a", ID: "lamp"}
	for name, c := range map[string]struct {
		of   protocol.Party
		want map[protocol.Party]bool
	}{
		"of the agent": {lamp.Party("a"), map[protocol.Party]bool{lamp.Party("a"): true, owner: true, lamp.Party("b"): false}},
		"of its owner": {owner, map[protocol.Party]bool{lamp.Party("a"): false, owner: true, {Kind: protocol.KindOperator, Space: "a", ID: "olga"}: false}},
	} {
		to := recipients(&Fault{Party: c.of}, lamp)
		for who, want := range c.want {
			if to.Has(&who) != want {
				t.Errorf("%s: %s hears of it: %t", name, who, !want)
			}
		}
	}
}

// Every device may have itself examined, and not all at once.
func TestFewAreExaminedAtATime(t *testing.T) {
	s := New(Options{})
	for range mostExamining {
		s.examining <- struct{}{}
	}
	who := &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: "a"}
	if _, err := s.Examine(t.Context(), &commands.Call{Principal: who}, Params{AgentID: "lamp"}); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("one more is examined: %v", err)
	}
}
