package approval

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// TestRulesHoldForMattersToo has a rule about rollouts, and one about every tool.
func TestRulesHoldForMattersToo(t *testing.T) {
	for name, rule := range map[string]Rule{
		"about rollouts":   {Tools: []string{"group.*"}, Needs: 2},
		"about everything": {Needs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ruled(Rule{Risks: []string{"high"}, Needs: 3}, rule))
			err := d.Raise(t.Context(), Matter{
				ID: "m", Task: "r", Tool: "group.rollout", Args: json.RawMessage(`{}`), Space: protocol.DefaultSpace, Asker: bot.Party(), Life: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			a := d.asked(t)
			if err := d.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if decided, _, why := d.Verdict("m"); decided {
				t.Errorf("one of two has decided: %s", why)
			}
			if err := d.decide(bob, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if decided, approved, why := d.Verdict("m"); !decided || !approved {
				t.Errorf("two have agreed: %v, %v, %s", decided, approved, why)
			}
		})
	}
}
