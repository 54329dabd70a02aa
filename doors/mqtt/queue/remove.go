package queue

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var remove = commands.Spec{
	Name:    "queue.remove",
	Summary: "Delete one message of a queue, also one that a worker has: nobody gets it again.",
	Effect:  commands.Write,
	Action:  "queue:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.RevisionConflict},
	Example: `{"queued_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`,
}

// RemoveParams name a message.
type RemoveParams struct {
	ID string `json:"queued_id" len:"1-64" audit:"yes" doc:"id of the message, as queue.info has it"`
}

// Target is the message.
func (p RemoveParams) Target() commands.Resource {
	return commands.Resource{Type: "queued", ID: p.ID}
}

// Remove deletes a message of the caller's own, or of a space that it manages, and
// returns it as it was.
func (k *Keeper) Remove(ctx context.Context, call *commands.Call, p RemoveParams) (Place, error) {
	who := call.Principal
	m, revision, there := k.Table.Get(p.ID)
	if !there || m.By != who.Party().String() && !who.Manages(m.Space) {
		return Place{}, protocol.Errorf(protocol.NotFound, "no message %q is in a queue", p.ID).With("queued_id", p.ID)
	}
	if err := k.Table.Delete(ctx, p.ID, revision); err != nil {
		return Place{}, err
	}
	return m.place(p.ID), nil
}
