package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var restore = commands.Spec{
	Name:    "vfs.restore",
	Summary: "Make a kept version of a file its newest one, also of a file that was deleted.",
	Effect:  commands.Write,
	Action:  "vfs:write",
	Errors: []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound, protocol.RevisionConflict,
		protocol.AlreadyExists, protocol.SyncFailed, protocol.NoSpace},
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json","version":1767225600000000}`,
}

// RestoreParams are the params of vfs.restore.
type RestoreParams struct {
	Group   protocol.GroupName `json:"group_name" doc:"the group of files"`
	Path    string             `json:"path" len:"1-1024" doc:"the file"`
	Version uint64             `json:"version" range:"1-9223372036854775807" doc:"the version to bring back, as vfs.versions names it"`
	Current *uint64            `json:"current,omitempty" doc:"the version the file must have, 0 for one that was deleted, else 3003; any when absent"`
}

// Target implements [commands.Targeter].
func (p RestoreParams) Target() commands.Resource { return groupResource(p.Group) }

// RestoreResult is the result of vfs.restore.
type RestoreResult struct {
	Group protocol.GroupName `json:"group_name" doc:"name of the group of files"`
	FileView
}

// Restore brings a version back as a new one, without moving its content. The caller must
// have the right to write the file.
func (s *Service) Restore(ctx context.Context, call *commands.Call, p RestoreParams) (RestoreResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), true)
	if err != nil {
		return RestoreResult{}, err
	}
	path := Relative(p.Path)
	content, was, err := files.Open(ctx, string(p.Group), path, p.Version)
	if err != nil {
		return RestoreResult{}, err
	}
	if err := content.Close(); err != nil {
		return RestoreResult{}, err
	}
	f, err := PutCopy(ctx, files, string(p.Group), path, Source{Path: path, Version: p.Version},
		PutOptions{IfVersion: p.Current, Size: was.Size, SHA256: &was.SHA256, ContentType: was.ContentType, Mtime: was.Mtime})
	if err != nil {
		return RestoreResult{}, err
	}
	return RestoreResult{p.Group, f.View()}, nil
}
