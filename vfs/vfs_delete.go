package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var remove = commands.Spec{
	Name:    "vfs.delete",
	Summary: "Delete a file. Its versions are kept for a while.",
	Effect:  commands.Write,
	Action:  "vfs:delete",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound, protocol.RevisionConflict},
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json"}`,
}

// DeleteParams are the params of vfs.delete.
type DeleteParams struct {
	Group   protocol.GroupName `json:"group_name" doc:"the group of files"`
	ID      string             `json:"file_id,omitempty" len:"1-64" doc:"the file; or name its path"`
	Path    string             `json:"path,omitempty" len:"1-1024" doc:"the file; or name its file_id"`
	Version uint64             `json:"version,omitempty" doc:"the version the file must have, else 3003; any when absent"`
}

// Target implements [commands.Targeter].
func (p DeleteParams) Target() commands.Resource { return groupResource(p.Group) }

// DeleteResult is the result of vfs.delete.
type DeleteResult struct {
	ID      string `json:"file_id" doc:"id of the file that was deleted"`
	Path    string `json:"path" doc:"path of the file in its group, with slashes"`
	Version uint64 `json:"version" doc:"that says the file is gone"`
}

// Delete deletes a file of a group that the caller may write to.
func (s *Service) Delete(ctx context.Context, call *commands.Call, p DeleteParams) (DeleteResult, error) {
	if (p.ID == "") == (p.Path == "") {
		return DeleteResult{}, protocol.InvalidParam("file_id", "name the file by file_id or by path")
	}
	files, err := s.For(ctx, call.Principal, string(p.Group), true)
	if err != nil {
		return DeleteResult{}, err
	}
	f, err := Find(ctx, files, string(p.Group), p.ID, Relative(p.Path))
	if err != nil {
		return DeleteResult{}, err
	}
	gone, err := files.Delete(ctx, string(p.Group), f.Path, p.Version)
	if err != nil {
		return DeleteResult{}, err
	}
	return DeleteResult{gone.ID, gone.Path, gone.Version}, nil
}
