// Package project opens the projects of workflows: groups of the VFS, and folders of
// this machine. The rights of the principal that started the workflow are checked with
// each use.
package project

import (
	"context"
	"io"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// Files holds the groups of files.
type Files interface {
	// For yields the files of a group for a principal that may use it.
	For(ctx context.Context, who *protocol.Principal, group string, write bool) (vfs.Files, error)
}

// Projects finds projects by name. All fields but Folders are required.
type Projects struct {
	Folders map[string]string // of this machine, for operators, by the name of the project
	Files   Files
	Grants  grant.Authority
	// Authorize returns the error of a principal that may not do an action.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
}

// Open opens a project by its name: the folder of that name, or else the group of
// files, which the owner of the grant must be allowed to write.
func (p *Projects) Open(ctx context.Context, owner grant.Grant, name string) (mount.FS, error) {
	for _, write := range []bool{false, true} {
		if _, err := p.judge(ctx, owner, fileAction(write), name); err != nil {
			return nil, err
		}
	}
	if dir, ok := p.Folders[name]; ok {
		return p.folder(owner, name, dir)
	}
	files := &group{Projects: p, owner: owner, name: name}
	if _, err := files.open(ctx, true); err != nil {
		return nil, err
	}
	return mount.NewGroup(files, ""), nil
}

// folder opens a folder of this machine.
func (p *Projects) folder(owner grant.Grant, name, dir string) (mount.FS, error) {
	may := func(ctx context.Context, write bool) error {
		who, err := p.judge(ctx, owner, fileAction(write), name)
		if err == nil && !who.Manages(protocol.DefaultSpace) {
			err = protocol.Errorf(protocol.VFSPermission, "the project %q is for operators", name).With("param_name", "project")
		}
		return err
	}
	if err := may(context.Background(), true); err != nil {
		return nil, err
	}
	folder, err := mount.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	return mount.Guard(folder, may), nil
}

// fileAction is the name of the action in policies: to read or to write a file.
func fileAction(write bool) string {
	if write {
		return "vfs:write"
	}
	return "vfs:read"
}

// judge returns the current principal of a grant, or an error if it may not do an
// action to a group of files now.
func (p *Projects) judge(ctx context.Context, owner grant.Grant, action, group string) (*protocol.Principal, error) {
	who, err := p.Grants.Principal(owner)
	if err != nil {
		return nil, err
	}
	return who, p.may(ctx, who, action, group)
}

// may returns the error of a principal that may not do an action to a group of files,
// by the limits of its credential or by policy.
func (p *Projects) may(ctx context.Context, who *protocol.Principal, action, group string) error {
	return p.Authorize(ctx, who, action, commands.Resource{Type: "vfs", ID: group, Space: who.Home()})
}

// Fetch reads a file of a group as a principal, if it has at most so many bytes.
func (p *Projects) Fetch(ctx context.Context, who *protocol.Principal, group, path string, most int64) ([]byte, error) {
	if err := p.may(ctx, who, fileAction(false), group); err != nil {
		return nil, err
	}
	files, err := p.Files.For(ctx, who, group, false)
	if err != nil {
		return nil, err
	}
	content, about, err := files.Open(ctx, group, path, 0)
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it was only read
	if about.Size > most {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "the file has more than %d bytes", most).With("limit", most)
	}
	return io.ReadAll(io.LimitReader(content, most))
}
