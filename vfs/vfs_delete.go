package vfs

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var remove = commands.Spec{
	Name:    "vfs.delete",
	Summary: "Delete a file, or all files of a folder. Their versions are kept for a while.",
	Effect:  commands.Write,
	Action:  "vfs:delete",
	Errors: []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound, protocol.RevisionConflict,
		protocol.PayloadTooLarge},
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json"}`,
}

// DeleteParams are the params of vfs.delete.
type DeleteParams struct {
	Group   protocol.GroupName `json:"group_name" doc:"the group of files"`
	ID      string             `json:"file_id,omitempty" len:"1-64" doc:"the file; or name its path"`
	Path    string             `json:"path,omitempty" len:"1-1024" doc:"the file; or name its file_id"`
	Version uint64             `json:"version,omitempty" doc:"the version the file must have, else 3003; any when absent"`

	Recursive bool `json:"recursive,omitempty" doc:"path is a folder, of which all files are deleted, those of its folders too; at most 10 000, else 1004 and none is"`
}

// Target implements [commands.Targeter].
func (p DeleteParams) Target() commands.Resource { return groupResource(p.Group) }

// DeleteResult is the result of vfs.delete.
type DeleteResult struct {
	ID      string `json:"file_id,omitempty" doc:"id of the file that was deleted; absent for a folder"`
	Path    string `json:"path" doc:"path of the file or folder in its group, with slashes"`
	Version uint64 `json:"version,omitempty" doc:"that says the file is gone; absent for a folder"`
	Deleted int    `json:"deleted,omitempty" doc:"number of files of the folder that were deleted"`
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
	if p.Recursive {
		return deleteFolder(ctx, files, p)
	}
	f, err := Find(ctx, files, string(p.Group), p.ID, Relative(p.Path))
	if err != nil {
		return DeleteResult{}, err
	}
	gone, err := files.Delete(ctx, string(p.Group), f.Path, p.Version)
	if err != nil {
		return DeleteResult{}, err
	}
	return DeleteResult{ID: gone.ID, Path: gone.Path, Version: gone.Version}, nil
}

func deleteFolder(ctx context.Context, files Files, p DeleteParams) (DeleteResult, error) {
	folder := Located{files, string(p.Group), strings.TrimSuffix(Relative(p.Path), "/")}
	if p.ID != "" || p.Version != 0 {
		return DeleteResult{}, protocol.InvalidParam("recursive", "goes with a path, and with no version")
	}
	if _, err := CleanPath(folder.Path); err != nil {
		return DeleteResult{}, err
	}
	if err := CheckTree(ctx, folder); err != nil {
		return DeleteResult{}, err
	}
	n, err := DeleteTree(ctx, folder)
	return DeleteResult{Path: folder.Path, Deleted: n}, err
}
