package caps

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var resumeSpec = commands.Spec{
	Name:    "cap.vfs.sync.resume",
	Summary: "End the pause of a Cap's mirror: both ends are compared as a whole.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.VFSPermission, protocol.SyncFailed, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate"}`,
}

// Resume ends a pause.
func (s *Service) Resume(ctx context.Context, call *commands.Call, p PauseParams) (PauseResult, error) {
	return entrust(ctx, s, call, &resumeSpec, p, s.resumeHere)
}

func (s *Service) resumeHere(ctx context.Context, who *protocol.Principal, p PauseParams) (PauseResult, error) {
	_, engine, release, err := s.find(ctx, who, p.Cap, true)
	if err != nil {
		return PauseResult{}, err
	}
	defer release()
	if err := engine.Resume(); err != nil {
		return PauseResult{}, err
	}
	return PauseResult{p.Cap, false}, nil
}
