package vfs

import (
	"context"
	"strconv"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var list = commands.Spec{
	Name:    "vfs.list",
	Summary: "List the files of a group, as they are or as they were.",
	Effect:  commands.Read,
	Action:  "vfs:list",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound},
	Example: `{"group_name":"skill-a-group","path":"reports"}`,
}

// ListParams are the params of vfs.list.
type ListParams struct {
	Group    protocol.GroupName `json:"group_name" doc:"the group of files"`
	Path     string             `json:"path,omitempty" len:"1-1024" doc:"a file, or a folder whose files are listed, its folders' too; the whole group when absent"`
	Deleted  bool               `json:"deleted,omitempty" doc:"list files that were deleted too, as long as they are remembered"`
	Snapshot string             `json:"snapshot_id,omitempty" len:"1-20" pattern:"[0-9]+" doc:"list the files as they were at this point in time: the snapshot_id of an earlier answer, or any version"`
	Folders  bool               `json:"folders,omitempty" doc:"list only what is directly in the folder: its files, and its folders by name; not with snapshot_id"`
	page
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource { return groupResource(p.Group) }

func groupResource(group protocol.GroupName) commands.Resource {
	return commands.Resource{Type: "vfs", ID: string(group)}
}

// ListResult is the result of vfs.list.
type ListResult struct {
	Group    protocol.GroupName `json:"group_name" doc:"name of the group of files"`
	Files    []FileView         `json:"files" doc:"by path"`
	Folders  []string           `json:"folders,omitempty" doc:"paths of the folders that are directly in the folder, if they were asked for; a page counts them too"`
	Next     string             `json:"next_cursor,omitempty" doc:"cursor of the next page"`
	Snapshot string             `json:"snapshot_id,omitempty" doc:"names the moment of this answer"`
}

// List lists files to principals that may read them.
func (s *Service) List(ctx context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), false)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Group: p.Group, Snapshot: p.Snapshot}
	snapshots, _ := files.(Snapshots)
	var found []File
	switch {
	case p.Folders && p.Snapshot != "":
		return ListResult{}, protocol.InvalidParam("folders", "cannot be listed as they were; leave snapshot_id out")
	case p.Folders:
		b, next, err := browse(ctx, files, string(p.Group), Relative(p.Path), p.Cursor, p.Limit, p.Deleted)
		if err != nil {
			return ListResult{}, err
		}
		found, result.Folders, result.Next = b.files, b.folders, next
	case p.Snapshot == "":
		if snapshots != nil && p.Cursor == "" {
			if now, err := snapshots.Snapshot(ctx, string(p.Group)); err == nil {
				result.Snapshot = strconv.FormatUint(now, 10)
			}
		}
		found, result.Next, err = ListFolder(ctx, files, string(p.Group), Relative(p.Path), p.Cursor, p.Limit, p.Deleted)
	case snapshots == nil:
		return ListResult{}, protocol.InvalidParam("snapshot_id", "this VFS keeps no snapshots")
	default:
		var at uint64
		if at, err = strconv.ParseUint(p.Snapshot, 10, 64); err != nil {
			return ListResult{}, protocol.InvalidParam("snapshot_id", "is too large")
		}
		found, result.Next, err = snapshots.ListAt(ctx, string(p.Group), Relative(p.Path), at, p.Cursor, p.Limit)
	}
	if err != nil {
		return ListResult{}, err
	}
	result.Files = views(found)
	return result, nil
}
