package caps

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var rescanSpec = commands.Spec{
	Name:    "cap.vfs.sync.rescan",
	Summary: "Look at everything in a Cap's folder and in the VFS now; folders of devices do so too.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.VFSPermission, protocol.SyncFailed, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","contents":true}`,
}

// RescanParams are the params of cap.vfs.sync.rescan.
type RescanParams struct {
	Cap      protocol.CapID `json:"cap_id" doc:"the Cap"`
	Contents bool           `json:"contents,omitempty" doc:"read every file anew instead of knowing it by size and times"`
}

// Target implements [commands.Targeter].
func (p RescanParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// RescanResult is the result of cap.vfs.sync.rescan.
type RescanResult struct {
	Cap protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Rescan
}

// A Rescan asks for a look at everything.
type Rescan struct {
	Time     int64 `json:"rescan_time" doc:"time at which it was asked for, Unix milliseconds; 0 for never since the bridge started"`
	Contents bool  `json:"contents,omitempty" doc:"every file is to be read anew"`
}

// Rescan has everything looked at soon; the status tells when that is done.
func (s *Service) Rescan(ctx context.Context, call *commands.Call, p RescanParams) (RescanResult, error) {
	return entrust(ctx, s, call, &rescanSpec, p, s.rescanHere)
}

func (s *Service) rescanHere(ctx context.Context, who *protocol.Principal, p RescanParams) (RescanResult, error) {
	m, engine, release, err := s.find(ctx, who, p.Cap, true)
	if err != nil {
		return RescanResult{}, err
	}
	defer release()
	if err := engine.Rescan(p.Contents); err != nil {
		return RescanResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.rescan = Rescan{max(time.Now().UnixMilli(), m.rescan.Time+1), p.Contents}
	return RescanResult{p.Cap, m.rescan}, nil
}
