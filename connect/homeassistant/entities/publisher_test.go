package entities

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// TestABridgeThatDoesNotPublishKeepsNothingToWithdraw has skills come and go
// where another bridge of the cluster shows them.
func TestABridgeThatDoesNotPublishKeepsNothingToWithdraw(t *testing.T) {
	t.Parallel()
	s := New(Options{Settings: Settings{Space: "home", Skills: []string{"*"}, Most: 10}, Root: "aibridge"})
	for i := range 100 {
		id := protocol.SkillID(fmt.Sprint("lamp-", i))
		s.Changed(Skill{Space: "home", ID: id, Name: "Lamp", Capabilities: []Capability{{ID: "ring"}}})
		s.Changed(Skill{Space: "home", ID: id})
	}
	if len(s.skills)+len(s.inputs)+len(s.leaving) != 0 {
		t.Errorf("%d skills, %d inputs and %d to withdraw are kept", len(s.skills), len(s.inputs), len(s.leaving))
	}
}
