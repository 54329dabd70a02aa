package approval

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A field that is added to the record of an approval survives the decision.
func TestADecisionKeepsTheOtherFields(t *testing.T) {
	for _, decision := range []string{"approve", "deny"} {
		d := newDesk(t)
		r := &Record{Approval: Approval{ID: "a", State: Pending, Space: protocol.DefaultSpace, Hash: "h", Args: []byte("{}"), AskedAt: time.Now().UnixMilli(), Expires: time.Now().Add(time.Hour).UnixMilli()}, Salt: newSalt()}
		if _, err := d.table.Create(t.Context(), r.ID, r); err != nil {
			t.Fatal(err)
		}
		recordstest.Survives(t, d.table, r.ID, func() {
			stored, _, _ := d.table.Get(r.ID)
			if err := d.decide(bob, stored.view(), decision, "because"); err != nil {
				t.Fatal(err)
			}
		}, "State", "DecidedBy", "DecidedAt", "Reason", "Agreed", "-Deciders", "-Needs")
	}
}
