package audit

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var verifyAll = commands.Spec{
	Name:    "audit.verify",
	Summary: "Check every entry of the audit trail: what was changed, is missing or stands elsewhere, and where.",
	Effect:  commands.Read,
	Action:  "audit:verify",
	Async:   true,
	Example: `{}`,
}

// VerifyParams may name a head that was noted outside the bridge.
type VerifyParams struct {
	Head string `json:"head,omitempty" len:"1-128" doc:"head of an earlier verification, SEQ:HASH: entries up to it must be unchanged"`
}

// VerifyTrail checks the trail.
func (t *Trail) VerifyTrail(ctx context.Context, _ *commands.Call, p VerifyParams) (Report, error) {
	var head Head
	if p.Head != "" {
		var err error
		if head, err = ParseHead(p.Head); err != nil {
			return Report{}, protocol.InvalidParam("head", err.Error())
		}
	}
	return t.Verify(ctx, head)
}

// Commands are the commands of the trail.
func (t *Trail) Commands() []commands.Command {
	return []commands.Command{
		commands.New(query, t.Query),
		commands.New(verifyAll, t.VerifyTrail),
	}
}
