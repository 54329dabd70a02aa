package vfs

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var versionList = commands.Spec{
	Name:    "vfs.versions",
	Summary: "List the kept versions of a file, also of one that was deleted.",
	Effect:  commands.Read,
	Action:  "vfs:versions",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.FileNotFound, protocol.InvalidState},
	Example: `{"group_name":"skill-a-group","path":"test-data-1.json"}`,
}

// VersionsParams are the params of vfs.versions.
type VersionsParams struct {
	Group protocol.GroupName `json:"group_name" doc:"the group of files"`
	Path  string             `json:"path" len:"1-1024" doc:"the file"`
}

// Target implements [commands.Targeter].
func (p VersionsParams) Target() commands.Resource { return groupResource(p.Group) }

// VersionsResult is the result of vfs.versions.
type VersionsResult struct {
	Group    protocol.GroupName `json:"group_name" doc:"name of the group of files"`
	Path     string             `json:"path" doc:"path of the file in its group, with slashes"`
	Versions []FileView         `json:"versions" doc:"the latest first; one that says that the file was deleted has no content"`
}

// A Historian is implemented by [Files] that tell which versions of a file they
// keep, the oldest first. A file of which none is kept is 4003.
type Historian interface {
	Versions(ctx context.Context, group, path string) ([]File, error)
}

// Versions lists the versions of a file to principals that may read it.
func (s *Service) Versions(ctx context.Context, call *commands.Call, p VersionsParams) (VersionsResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), false)
	if err != nil {
		return VersionsResult{}, err
	}
	found, err := versions(ctx, files, string(p.Group), Relative(p.Path))
	if err != nil {
		return VersionsResult{}, err
	}
	slices.Reverse(found)
	return VersionsResult{p.Group, Relative(p.Path), views(found)}, nil
}

func versions(ctx context.Context, files Files, group, path string) ([]File, error) {
	h, ok := files.(Historian)
	if !ok {
		return nil, protocol.Errorf(protocol.InvalidState, "the VFS that keeps group %q does not tell its versions", group).With("group_name", group)
	}
	return h.Versions(ctx, group, path)
}

// Versions implements [Historian].
func (s *Space) Versions(ctx context.Context, group, path string) ([]File, error) {
	if err := checkNames(ctx, group, path); err != nil {
		return nil, err
	}
	r, _, ok := s.store.opts.Records.Get(recordKey(s.space, group, path))
	if !ok {
		return nil, NoFile(group, path)
	}
	found := make([]File, len(r.Versions))
	for i := range r.Versions {
		found[i] = r.file(&r.Versions[i])
	}
	return found, nil
}

// Versions implements [Historian].
func (m *mirrorReader) Versions(ctx context.Context, group, path string) ([]File, error) {
	if err := m.may(path); err != nil {
		return nil, err
	}
	return versions(ctx, m.Files, group, path)
}

// Versions implements [Historian].
func (m mirror) Versions(ctx context.Context, group, path string) ([]File, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return versions(ctx, files, group, path)
}
