package caps

import (
	"context"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

var recoverSpec = commands.Spec{
	Name:    "cap.vfs.recover",
	Summary: "Bring back a lost or damaged Cap from the VFS, as it is there or was at a point in time.",
	Effect:  commands.Write,
	Action:  "cap:vfs.recover",
	Errors: []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.VFSUnavailable, protocol.VFSPermission,
		protocol.FileNotFound, protocol.SyncFailed, protocol.NoSpace, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","dry_run":true}`,
}

// RecoverParams are the params of cap.vfs.recover.
type RecoverParams struct {
	Cap      protocol.CapID `json:"cap_id" doc:"the Cap"`
	Snapshot string         `json:"snapshot_id,omitempty" len:"1-20" doc:"a point in time: the version of any file of the space, or Unix microseconds; now when absent"`
	DryRun   bool           `json:"dry_run,omitempty" doc:"only show what would change"`
}

// Target implements [commands.Targeter].
func (p RecoverParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// RecoverResult is the result of cap.vfs.recover.
type RecoverResult struct {
	Cap    protocol.CapID  `json:"cap_id" doc:"id of the Cap"`
	Status string          `json:"recovery_status" enum:"recovered,unchanged,dry_run" doc:"recovered; unchanged if nothing differed; dry_run if nothing was to be changed"`
	Time   int64           `json:"recovery_time" doc:"Unix milliseconds"`
	Total  int             `json:"total" doc:"files that differed"`
	Files  []RecoveredFile `json:"files" doc:"the first 1000 of them, by path"`
}

// A RecoveredFile is a file that differed.
type RecoveredFile struct {
	Path     string `json:"vfs_path" doc:"path of the file in the VFS, /vfs/cap/{cap_id}/ and the path in the Cap's folder"`
	Action   string `json:"action" enum:"create,replace,remove" doc:"create, replace or remove, in the Cap's folder"`
	Checksum string `json:"checksum,omitempty" doc:"SHA-256 of what it holds afterwards"`
	Size     int64  `json:"size" doc:"bytes it holds afterwards; 0 for a removed file"`
}

// maxShown bounds the files of a result.
const maxShown = 1000

// Recover brings a Cap back. The folder's former files stay as versions.
func (s *Service) Recover(ctx context.Context, call *commands.Call, p RecoverParams) (RecoverResult, error) {
	return entrust(ctx, s, call, &recoverSpec, p, s.recoverHere)
}

func (s *Service) recoverHere(ctx context.Context, who *protocol.Principal, p RecoverParams) (result RecoverResult, err error) {
	exists, _, write := s.o.Channels.May(who, p.Cap)
	if exists && !write {
		return RecoverResult{}, protocol.Errorf(protocol.VFSPermission, "the files of Cap %q are not yours", p.Cap).With("cap_id", string(p.Cap))
	}
	at := ref{who.Home(), p.Cap}
	var snapshot uint64
	if p.Snapshot != "" {
		if snapshot, err = strconv.ParseUint(p.Snapshot, 10, 64); err != nil || snapshot == 0 {
			return RecoverResult{}, protocol.InvalidParam("snapshot_id", "must be a positive number")
		}
	}
	r := &recovery{s: s, ref: at, files: s.o.Files(at.space), folder: vfs.MirrorFolder(at.id) + "/", snapshot: snapshot}
	if err := r.look(ctx); err != nil {
		return RecoverResult{}, err
	}
	if len(r.there) == 0 {
		return RecoverResult{}, noCap(p.Cap)
	}
	if !exists {
		if err := s.o.Channels.MayRestore(who, p.Cap, r.documents); err != nil {
			return RecoverResult{}, err
		}
	}
	if r.documents != nil {
		if err := s.o.Channels.Check(at.space, at.id, r.documents); err != nil {
			return RecoverResult{}, err
		}
	}
	if err := r.compare(ctx); err != nil {
		return RecoverResult{}, err
	}
	result = RecoverResult{Cap: p.Cap, Status: "dry_run", Time: time.Now().UnixMilli(), Total: len(r.changes), Files: r.shown()}
	if p.DryRun {
		return result, nil
	}
	if result.Status = "unchanged"; len(r.changes) > 0 {
		result.Status = "recovered"
	}
	if err := r.carryOut(ctx); err != nil {
		return RecoverResult{}, err
	}
	return result, nil
}
