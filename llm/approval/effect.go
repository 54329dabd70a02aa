package approval

import "github.com/aibridge/aibridge/protocol"

// sameEffect is the error of a call whose effect another call has that waits for an
// approval, or was approved and not made yet: the effect would happen twice. The other
// approval is named to its own requester alone.
func (s *Service) sameEffect(r *Record) error {
	other, _, ok := s.opts.Approvals.Get(s.tally.waitsFor(r))
	if !ok {
		return nil
	}
	err := protocol.Errorf(protocol.InvalidState, "the call is not made, and no approval requested: a call with the same effect waits for an approval already").
		With("reason", "same_effect")
	if other.party() == r.party() {
		err = err.With("approval_id", other.ID).With("expires_at", other.Expires)
	}
	return err
}

// A placedEffect is the effect of a call in a space.
type placedEffect struct {
	space  protocol.SpaceID
	effect string
}

// waitsFor is the id of the open approval with the same effect in the same space, ""
// for none.
func (t *tally) waitsFor(r *Record) string {
	if r.Effect == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.effects[placedEffect{r.Space, r.Effect}]
}

// noteEffect updates the effects upon a change of the table.
func (t *tally) noteEffect(old, now *Record) {
	if old != nil && old.Effect != "" {
		if at := (placedEffect{old.Space, old.Effect}); t.effects[at] == old.ID {
			delete(t.effects, at)
		}
	}
	if now != nil && now.Effect != "" && !now.State.over() {
		t.effects[placedEffect{now.Space, now.Effect}] = now.ID
	}
}
