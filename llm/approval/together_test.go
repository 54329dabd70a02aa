package approval

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/internal/records"
)

// A slow table stores one record only when it is let.
type slowTable struct {
	records.Table[Record]
	slow    string
	storing chan struct{} // gets a token when that record is about to be stored
	goOn    chan struct{}
}

func (s *slowTable) Update(ctx context.Context, id string, r *Record, expect uint64) (uint64, error) {
	if id == s.slow {
		s.storing <- struct{}{}
		<-s.goOn
	}
	return s.Table.Update(ctx, id, r, expect)
}

// A decision waits for no other one whose record is stored at this moment.
func TestDecisionsWaitForNoOtherRecord(t *testing.T) {
	table := &slowTable{storing: make(chan struct{}), goOn: make(chan struct{})}
	d := newDesk(t, func(o *Options) {
		table.Table = o.Approvals
		o.Approvals = table
	})
	first, second := d.waits(t, heat(bot)), d.waits(t, heat(bot))
	table.slow = first.ID
	done := make(chan error, 1)
	go func() { done <- d.decide(alice, first, "approve", "") }()
	<-table.storing
	if err := d.decide(alice, second, "approve", ""); err != nil {
		t.Error(err)
	}
	close(table.goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
