package vfs

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var copyFile = commands.Spec{
	Name:    "vfs.copy",
	Summary: "Copy a file, or all files of a folder, without moving their content.",
	Effect:  commands.Write,
	Action:  "vfs:write",
	Errors:  transferErrors,
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json","to_path":"archive/test-data-1.json"}`,
}

// transferErrors are those of vfs.copy and vfs.move.
var transferErrors = []protocol.Code{
	protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound, protocol.RevisionConflict, protocol.AlreadyExists,
	protocol.PayloadTooLarge, protocol.SyncFailed, protocol.NoSpace,
}

// CopyParams are the params of vfs.copy.
type CopyParams struct {
	TransferParams
	Version uint64 `json:"version,omitempty" doc:"the version of the file to copy, the current one when absent; not with recursive"`
}

// TransferParams name the source and the target of a copy or a move.
type TransferParams struct {
	Group     protocol.GroupName `json:"group_name" doc:"the group of files"`
	Path      string             `json:"path" len:"1-1024" doc:"the file, or with recursive the folder"`
	ToGroup   protocol.GroupName `json:"to_group_name,omitempty" doc:"the group of files that it is to be in; the same when absent"`
	ToPath    string             `json:"to_path" len:"1-1024" doc:"the file or folder that it is to be"`
	Recursive bool               `json:"recursive,omitempty" doc:"path is a folder, with at most 10 000 files, else 1004 and nothing is done"`
	Overwrite bool               `json:"overwrite,omitempty" doc:"replace files that are there, by newer versions of them; else 3003"`
}

// Target implements [commands.Targeter].
func (p TransferParams) Target() commands.Resource { return groupResource(p.destination()) }

func (p *TransferParams) destination() protocol.GroupName { return cmp.Or(p.ToGroup, p.Group) }

// TransferResult is the result of vfs.copy and vfs.move.
type TransferResult struct {
	Group protocol.GroupName `json:"group_name" doc:"name of the group that the files are in now"`
	Path  string             `json:"path" doc:"path of the file or folder there"`
	Files int                `json:"files" doc:"number of files that were taken there"`
	File  *FileView          `json:"file,omitempty" doc:"the file; absent for a folder"`
}

// Copy copies a file or a folder of a group that the caller may read to one that
// it may write to.
func (s *Service) Copy(ctx context.Context, call *commands.Call, p CopyParams) (TransferResult, error) {
	if p.Version != 0 && p.Recursive {
		return TransferResult{}, protocol.InvalidParam("version", "is that of a file, and does not go with recursive")
	}
	op := func(ctx context.Context, from, to Located, o PutOptions) (File, error) {
		return Copy(ctx, from, p.Version, to, o)
	}
	return s.transfer(ctx, call, op, p.TransferParams, "vfs:read")
}

// transfer copies or moves a file, or all files of a folder. The caller needs the
// right to all actions on their group.
func (s *Service) transfer(ctx context.Context, call *commands.Call, op TreeOp, p TransferParams, actions ...string) (result TransferResult, err error) {
	from, to, o, err := s.places(ctx, call, p, actions)
	if err != nil {
		return result, err
	}
	result = TransferResult{Group: p.destination(), Path: to.Path}
	if !p.Recursive {
		f, err := op(ctx, from, to, o)
		if err != nil {
			return result, err
		}
		view := f.View()
		result.Files, result.File = 1, &view
		return result, nil
	}
	result.Files, err = Tree(ctx, op, from, to, o)
	return result, err
}

// places finds the source and the target.
func (s *Service) places(ctx context.Context, call *commands.Call, p TransferParams, actions []string) (from, to Located, o PutOptions, err error) {
	from = Located{Group: string(p.Group), Path: Relative(p.Path)}
	to = Located{Group: string(p.destination()), Path: Relative(p.ToPath)}
	if p.Recursive {
		from.Path, to.Path = strings.TrimSuffix(from.Path, "/"), strings.TrimSuffix(to.Path, "/")
	}
	if reason := badPath(from.Path); reason != "" {
		return from, to, o, protocol.InvalidParam("path", reason)
	}
	if reason := badPath(to.Path); reason != "" {
		return from, to, o, protocol.InvalidParam("to_path", reason)
	}
	if from.Group == to.Group && from.Path == to.Path {
		return from, to, o, protocol.InvalidParam("to_path", "is the same as path")
	}
	if from.Files, err = s.source(ctx, call, p, from, actions); err != nil {
		return from, to, o, err
	}
	if to.Files, err = s.For(ctx, call.Principal, to.Group, true); err != nil {
		return from, to, o, err
	}
	if !p.Overwrite {
		o.IfVersion = new(uint64)
	}
	return from, to, o, nil
}

// source finds the files to be copied or moved. A missing file is reported before a
// group without files is claimed.
func (s *Service) source(ctx context.Context, call *commands.Call, p TransferParams, from Located, actions []string) (files Files, err error) {
	if p.Recursive { // the result names everything in the folder
		actions = append(actions, "vfs:list")
	}
	for _, action := range actions {
		if err := call.Authorize(ctx, action, groupResource(p.Group)); err != nil {
			return nil, err
		}
	}
	if from.Files, err = s.For(ctx, call.Principal, from.Group, false); err != nil {
		return nil, err
	}
	deletes := slices.Contains(actions, "vfs:delete")
	switch {
	case p.Recursive:
		err = CheckTree(ctx, from)
	case deletes:
		_, err = from.Files.Stat(ctx, from.Group, from.Path)
	}
	if err != nil || !deletes {
		return from.Files, err
	}
	return s.For(ctx, call.Principal, from.Group, true)
}
