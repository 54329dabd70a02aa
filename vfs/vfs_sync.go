package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var syncAll = commands.Spec{
	Name:    "vfs.sync",
	Summary: "Compare a caller's files with those of a group: what is to be uploaded, downloaded, deleted.",
	Effect:  commands.Read,
	Action:  "vfs:list",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission},
	Example: `{"action":"sync-all","group_name":"skill-a-group","sync_direction":"both"}`,
}

// SyncParams are the params of vfs.sync.
type SyncParams struct {
	Action    string             `json:"action,omitempty" enum:"sync-all" default:"sync-all" doc:"selection to sync"`
	Group     protocol.GroupName `json:"group_name" doc:"the group of files"`
	Direction string             `json:"sync_direction,omitempty" enum:"both,to,from" default:"both" doc:"to the VFS, from it, or both ways"`
	Files     []HeldFile         `json:"files,omitempty" len:"1-1000" doc:"holdings of the caller, of the paths from cursor on; with files the answer is not split into pages"`
	page
}

// A HeldFile is a file as the caller has it.
type HeldFile struct {
	Path     string `json:"path" len:"1-1024" doc:"relative, with slashes"`
	Checksum string `json:"checksum" len:"64-64" doc:"SHA-256, hexadecimal"`
	Version  uint64 `json:"version,omitempty" doc:"the version the caller's copy was made from; without it a difference is a conflict"`
}

// Target implements [commands.Targeter].
func (p SyncParams) Target() commands.Resource { return groupResource(p.Group) }

// Sync compares files: those the caller names, and then, page by page, those
// it did not name. Contents travel by vfs.sync.to, vfs.sync.from or HTTP.
func (s *Service) Sync(ctx context.Context, call *commands.Call, p SyncParams) (SyncResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), false)
	if err != nil {
		return SyncResult{}, err
	}
	result := SyncResult{Group: p.Group, Files: []SyncedFile{}}
	named := make(map[string]bool, len(p.Files))
	for i := range p.Files {
		held := &p.Files[i]
		held.Path = Relative(held.Path)
		named[held.Path] = true
		f, err := compare(ctx, files, string(p.Group), held, p.Direction)
		if err != nil {
			return SyncResult{}, err
		}
		result.Files = append(result.Files, f)
	}
	there, next, err := files.List(ctx, string(p.Group), "", p.Cursor, p.Limit, false)
	if err != nil {
		return SyncResult{}, err
	}
	result.Next = next
	for _, f := range there {
		if named[f.Path] || p.Direction == "to" {
			continue
		}
		result.Files = append(result.Files, syncedFile(Download, f))
	}
	return result, nil
}

// compare decides about a file that the caller has.
func compare(ctx context.Context, files Files, group string, held *HeldFile, direction string) (SyncedFile, error) {
	sum, err := ParseSum(held.Checksum)
	if err != nil {
		return failedFile(held.Path, err), nil
	}
	f, err := files.Stat(ctx, group, held.Path)
	switch code := protocol.CodeOf(err); {
	case code == protocol.FileNotFound:
		return missing(ctx, files, group, held, direction)
	case code == protocol.VFSUnavailable:
		return SyncedFile{}, err
	case err != nil:
		return failedFile(held.Path, err), nil
	case f.SHA256 == sum:
		return syncedFile(Synced, f), nil
	case direction == "to" && held.Version == f.Version, direction == "both" && held.Version == f.Version:
		return syncedFile(Upload, f), nil
	case direction == "from":
		return syncedFile(Download, f), nil
	}
	return syncedFile(Conflict, f), nil
}

// missing decides about a file that only the caller has: a new
// one is uploaded; one that was deleted from the VFS since is deleted.
func missing(ctx context.Context, files Files, group string, held *HeldFile, direction string) (SyncedFile, error) {
	status := Upload
	if direction == "from" {
		status = Missing
	}
	found := File{Path: held.Path, Deleted: true}
	gone, _, err := files.List(ctx, group, held.Path, "", 1, true)
	if err != nil {
		return SyncedFile{}, err
	}
	if len(gone) == 1 && gone[0].Path == held.Path && gone[0].Deleted && held.Version != 0 && held.Version < gone[0].Version {
		found = gone[0]
		if status = Gone; direction == "to" {
			status = Upload
		}
	}
	return syncedFile(status, found), nil
}
