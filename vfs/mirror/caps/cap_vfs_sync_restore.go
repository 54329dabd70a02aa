package caps

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

var restoreSpec = commands.Spec{
	Name:    "cap.vfs.sync.restore",
	Summary: "Bring back a copy of a file that lost a conflict, in the Cap's folder or in that of a device. What it replaces is kept in turn.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors: []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.AlreadyExists, protocol.VFSUnavailable, protocol.VFSPermission,
		protocol.FileNotFound, protocol.SyncFailed, protocol.NoSpace, protocol.LimitReached, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","vfs_path":"/vfs/cap/climate/disk/plan.txt","checksum":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`,
}

// RestoreParams are the params of cap.vfs.sync.restore.
type RestoreParams struct {
	Cap      protocol.CapID `json:"cap_id" doc:"the Cap"`
	Path     string         `json:"vfs_path" len:"1-1100" doc:"the file, as lost of cap.vfs.sync.status names it; one of a device's folder is below /vfs/cap/{cap_id}/disk/"`
	Checksum string         `json:"checksum" len:"64-64" doc:"SHA-256 of the copy, from there"`
	Owner    string         `json:"owner,omitempty" len:"1-256" doc:"the principal whose folder keeps the copy, as folders of cap.vfs.sync.status names it; the Cap's own folder when absent"`
	Folder   string         `json:"folder,omitempty" len:"1-128" doc:"name of that folder; only with owner"`
}

// Target implements [commands.Targeter].
func (p RestoreParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// RestoreResult is the result of cap.vfs.sync.restore.
type RestoreResult struct {
	Cap    protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Path   string         `json:"vfs_path" doc:"path of the restored file in the VFS, as in the request"`
	Status string         `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"state of the file afterwards; pending if the VFS cannot be reached at the moment, or a device has still to do it"`
	Reason string         `json:"reason,omitempty" doc:"reason why it is not synced"`
	Order  int64          `json:"order_id,omitempty" doc:"the order to a device's folder; restores of that folder in cap.vfs.sync.status tells what becomes of it"`
}

// Restore brings a lost copy back.
func (s *Service) Restore(ctx context.Context, call *commands.Call, p RestoreParams) (RestoreResult, error) {
	return entrust(ctx, s, call, &restoreSpec, p, s.restoreHere)
}

func (s *Service) restoreHere(ctx context.Context, who *protocol.Principal, p RestoreParams) (RestoreResult, error) {
	sum, err := vfs.ParseSum(p.Checksum)
	if err != nil {
		return RestoreResult{}, err
	}
	m, engine, release, err := s.find(ctx, who, p.Cap, true)
	if err != nil {
		return RestoreResult{}, err
	}
	defer release()
	file, err := fileOf(p.Cap, p.Path)
	if err != nil {
		return RestoreResult{}, err
	}
	if file == "" || ruleOf(file) != "" {
		return RestoreResult{}, protocol.InvalidParam("vfs_path", "must be a file below disk/")
	}
	if err := writable(file, nil); err != nil {
		return RestoreResult{}, err
	}
	if p.Owner != "" || p.Folder != "" {
		return s.orderRestore(m, p, file)
	}
	status, err := engine.Restore(ctx, file, mirror.Sum(sum))
	if err != nil {
		return RestoreResult{}, err
	}
	return RestoreResult{Cap: p.Cap, Path: p.Path, Status: string(status.Standing), Reason: status.Reason}, nil
}

// orderRestore has a device's folder bring a copy back, when it reports itself
// next.
func (s *Service) orderRestore(m *capMirror, p RestoreParams, file string) (RestoreResult, error) {
	if p.Owner == "" {
		return RestoreResult{}, protocol.InvalidParam("owner", "is needed with folder")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := m.order(p.Owner, p.Folder, strings.TrimPrefix(file, Disk+"/"), strings.ToLower(p.Checksum))
	if err != nil {
		return RestoreResult{}, err
	}
	return RestoreResult{Cap: p.Cap, Path: p.Path, Status: string(mirror.Pending), Reason: "the folder of the device has still to report itself", Order: o.ID}, nil
}
