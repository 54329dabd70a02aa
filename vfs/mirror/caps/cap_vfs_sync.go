package caps

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

var syncSpec = commands.Spec{
	Name:    "cap.vfs.sync",
	Summary: "Mirror a file of a Cap, or all of them, to the VFS.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors: []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.AlreadyExists, protocol.VFSPermission, protocol.FileNotFound,
		protocol.SyncFailed, protocol.NoSpace, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","vfs_path":"/vfs/cap/climate/disk/plan.txt","sync_type":"REAL_TIME","content":"21 degrees"}`,
}

// SyncParams are the params of cap.vfs.sync.
type SyncParams struct {
	Cap     protocol.CapID `json:"cap_id" doc:"the Cap"`
	Path    string         `json:"vfs_path" len:"1-1100" doc:"/vfs/cap/{cap_id}/ and the path of a file; without a file, everything"`
	Type    string         `json:"sync_type,omitempty" enum:"REAL_TIME,SCHEDULED" default:"REAL_TIME" doc:"REAL_TIME waits a moment for the VFS, SCHEDULED does not wait"`
	Content *string        `json:"content,omitempty" doc:"content for the file; that in the Cap's folder when absent"`
}

// Target implements [commands.Targeter].
func (p SyncParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// SyncResult is the result of cap.vfs.sync.
type SyncResult struct {
	Cap      protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Path     string         `json:"vfs_path" doc:"path in the VFS, as in the request"`
	Status   string         `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"state afterwards, of the file or of the whole Cap: synced; pending if the VFS is not waited for or cannot be reached; syncing while other files are transferred; conflict if it was resolved and the copy that lost is kept; failed"`
	Checksum string         `json:"checksum" doc:"SHA-256 of the file; empty for the whole Cap"`
	Reason   string         `json:"reason,omitempty" doc:"reason why it is not synced"`
}

// Sync mirrors one file or a whole Cap. Content is durable in the Cap's folder
// when it returns, whether or not the VFS can be reached.
func (s *Service) Sync(ctx context.Context, call *commands.Call, p SyncParams) (SyncResult, error) {
	if file, err := fileOf(p.Cap, p.Path); err == nil && p.Content != nil && ruleOf(file) != "" {
		call.Warn("%s is written by the bridge: the next change of the Cap replaces this content", file)
	}
	return entrust(ctx, s, call, &syncSpec, p, s.syncHere)
}

func (s *Service) syncHere(ctx context.Context, who *protocol.Principal, p SyncParams) (SyncResult, error) {
	m, engine, release, err := s.find(ctx, who, p.Cap, true)
	if err != nil {
		return SyncResult{}, err
	}
	defer release()
	file, err := fileOf(p.Cap, p.Path)
	if err != nil {
		return SyncResult{}, err
	}
	result := SyncResult{Cap: p.Cap, Path: p.Path}
	if file == "" {
		err = s.syncAll(ctx, m, engine, p, &result)
	} else {
		err = s.syncOne(ctx, engine, file, p, &result)
	}
	if err != nil {
		return SyncResult{}, err
	}
	return result, nil
}

// syncAll mirrors everything. A VFS that is away is no error: it is caught up
// on.
func (s *Service) syncAll(ctx context.Context, m *capMirror, engine *mirror.Engine, p SyncParams, result *SyncResult) error {
	if p.Content != nil {
		return protocol.InvalidParam("content", "needs the path of a file")
	}
	if p.Type == "SCHEDULED" {
		result.Status = string(mirror.Pending)
		return nil
	}
	err := s.writeDocuments(ctx, m, engine)
	if err == nil {
		err = engine.Sync(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	status := engine.Status()
	result.Status, result.Reason = string(status.Standing), status.Trouble
	if status.Paused {
		result.Reason = "the mirror is paused; cap.vfs.sync.resume ends that"
	}
	if err != nil && result.Status == string(mirror.Synced) {
		result.Status = string(mirror.Pending)
	}
	return nil
}

func (s *Service) syncOne(ctx context.Context, engine *mirror.Engine, file string, p SyncParams, result *SyncResult) error {
	if err := writable(file, p.Content); err != nil {
		return err
	}
	var status mirror.FileStatus
	var err error
	switch {
	case p.Content != nil:
		status, err = engine.Write(ctx, file, strings.NewReader(*p.Content))
	case p.Type == "SCHEDULED":
		engine.Touch(file)
		status, _ = engine.File(file)
	default:
		status, err = engine.SyncNow(ctx, file)
	}
	if err != nil {
		return err
	}
	result.Status, result.Reason = string(status.Standing), status.Reason
	if sum, err := engine.Checksum(ctx, file); err == nil {
		result.Checksum = hex.EncodeToString(sum[:])
	}
	return nil
}

// writable refuses a path outside the Cap's disk, and documents that are none.
func writable(file string, content *string) error {
	if ruleOf(file) != "" {
		if content != nil && !json.Valid([]byte(*content)) {
			return protocol.InvalidParam("content", "must be JSON, as the file is")
		}
		return nil
	}
	if !strings.HasPrefix(file, Disk+"/") {
		return protocol.InvalidParam("vfs_path", "must be cap.json, group.json, links.json or below disk/")
	}
	return nil
}

// fileOf takes the name of a file of a Cap out of the way commands name it, "" for
// the whole Cap.
func fileOf(id protocol.CapID, path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "/vfs/cap/"+string(id))
	if !ok || rest != "" && rest[0] != '/' {
		return "", protocol.InvalidParam("vfs_path", "must begin with /vfs/cap/"+string(id)+"/")
	}
	file := strings.TrimPrefix(rest, "/")
	if file == "" || file == Disk || file == Disk+"/" {
		return "", nil
	}
	if reason := tree.CheckPath(file); reason != "" {
		return "", protocol.InvalidParam("vfs_path", reason)
	}
	return file, nil
}
