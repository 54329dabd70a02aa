package project

import (
	"bytes"
	"context"
	"io"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// group is a group of files as the mount of a workflow.
type group struct {
	*Projects
	owner grant.Grant // of the principal that started the workflow
	name  string
}

// open checks the owner's credential, the policies and the rights of the group before
// each use.
func (g *group) open(ctx context.Context, write bool) (vfs.Files, error) {
	who, err := g.judge(ctx, g.owner, fileAction(write), g.name)
	if err != nil {
		return nil, err
	}
	return g.Files.For(ctx, who, g.name, write)
}

func (g *group) file(f vfs.File, err error) (mount.GroupFile, error) {
	return mount.GroupFile{Path: f.Path, Version: f.Version, Size: f.Size, SHA256: mount.Sum(f.SHA256)}, err
}

// Stat implements [mount.Group].
func (g *group) Stat(ctx context.Context, path string) (mount.GroupFile, error) {
	files, err := g.open(ctx, false)
	if err != nil {
		return mount.GroupFile{}, err
	}
	return g.file(files.Stat(ctx, g.name, path))
}

// Open implements [mount.Group].
func (g *group) Open(ctx context.Context, path string) (io.ReadCloser, mount.GroupFile, error) {
	files, err := g.open(ctx, false)
	if err != nil {
		return nil, mount.GroupFile{}, err
	}
	content, about, err := files.Open(ctx, g.name, path, 0)
	if err != nil {
		return nil, mount.GroupFile{}, err
	}
	f, _ := g.file(about, nil)
	return content, f, nil
}

// List implements [mount.Group].
func (g *group) List(ctx context.Context, prefix, cursor string) ([]mount.GroupFile, string, error) {
	open, err := g.open(ctx, false)
	if err != nil {
		return nil, "", err
	}
	files, next, err := open.List(ctx, g.name, prefix, cursor, vfs.MaxLimit, false)
	if err != nil {
		return nil, "", err
	}
	list := make([]mount.GroupFile, len(files))
	for i, f := range files {
		list[i], _ = g.file(f, nil)
	}
	return list, next, nil
}

// Put implements [mount.Group].
func (g *group) Put(ctx context.Context, path string, data []byte, ifVersion *uint64) (mount.GroupFile, error) {
	files, err := g.open(ctx, true)
	if err != nil {
		return mount.GroupFile{}, err
	}
	return g.file(files.Put(ctx, g.name, path, bytes.NewReader(data), vfs.PutOptions{IfVersion: ifVersion, Size: int64(len(data))}))
}
