package delayed

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var cancel = commands.Spec{
	Name:    "delayed.cancel",
	Summary: "Cancel a delayed message before it is published.",
	Effect:  commands.Write,
	Action:  "delayed:cancel",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.OutcomeUnknown},
	Example: `{"message_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`,
}

// CancelParams name a message.
type CancelParams struct {
	ID string `json:"message_id" len:"1-64" audit:"yes" doc:"id of the message, as delayed.list has it"`
}

// Target is the message.
func (p CancelParams) Target() commands.Resource {
	return commands.Resource{Type: "delayed", ID: p.ID}
}

// tooLate is the time before its publication in which a message cannot be cancelled: the
// bridge that publishes it may have begun.
const tooLate = time.Second

// Cancel removes a message that waits, and returns it as it was. It fails with 3006 if
// the message is due within a second, and with 4012 if its time came meanwhile.
func (k *Keeper) Cancel(ctx context.Context, call *commands.Call, p CancelParams) (View, error) {
	m, revision, there := k.Table.Get(p.ID)
	if !there || !m.visibleTo(call.Principal) {
		return View{}, notFound(p.ID)
	}
	due := time.UnixMilli(m.Due)
	if time.Until(due) < tooLate {
		return View{}, protocol.Errorf(protocol.InvalidState, "the message is due and cannot be cancelled any more").With("message_id", p.ID)
	}
	switch err := k.Table.Delete(ctx, p.ID, revision); {
	case protocol.CodeOf(err) == protocol.NotFound:
		return View{}, notFound(p.ID)
	case err != nil:
		return View{}, err
	case !time.Now().Before(due):
		return View{}, protocol.Errorf(protocol.OutcomeUnknown, "the message was due while it was cancelled, and may have been published").With("message_id", p.ID)
	}
	return m.view(p.ID), nil
}

func notFound(id string) error {
	return protocol.Errorf(protocol.NotFound, "no delayed message %q waits", id).With("message_id", id)
}
