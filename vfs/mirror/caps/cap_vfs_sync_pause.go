package caps

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var pauseSpec = commands.Spec{
	Name:    "cap.vfs.sync.pause",
	Summary: "Carry nothing over between a Cap and the VFS until it is resumed; folders of devices pause too.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.VFSPermission, protocol.SyncFailed, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate"}`,
}

// PauseParams are the params of cap.vfs.sync.pause and cap.vfs.sync.resume.
type PauseParams struct {
	Cap protocol.CapID `json:"cap_id" doc:"the Cap"`
}

// Target implements [commands.Targeter].
func (p PauseParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// PauseResult is the result of cap.vfs.sync.pause and cap.vfs.sync.resume.
type PauseResult struct {
	Cap    protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Paused bool           `json:"paused" doc:"true after cap.vfs.sync.pause, false after cap.vfs.sync.resume"`
}

// Pause has nothing carried over, over restarts of the bridge too. Files written
// meanwhile wait in the Cap's folder.
func (s *Service) Pause(ctx context.Context, call *commands.Call, p PauseParams) (PauseResult, error) {
	return entrust(ctx, s, call, &pauseSpec, p, s.pauseHere)
}

func (s *Service) pauseHere(ctx context.Context, who *protocol.Principal, p PauseParams) (PauseResult, error) {
	_, engine, release, err := s.find(ctx, who, p.Cap, true)
	if err != nil {
		return PauseResult{}, err
	}
	defer release()
	if err := engine.Pause(); err != nil {
		return PauseResult{}, err
	}
	return PauseResult{p.Cap, true}, nil
}
