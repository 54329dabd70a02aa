package app

import (
	"bytes"
	"context"
	"io"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/vfs"
)

// vfsGroup is a group of files as workflows mount it.
type vfsGroup struct {
	files vfs.Files
	name  string
}

func (g *vfsGroup) file(f vfs.File, err error) (mount.GroupFile, error) {
	return mount.GroupFile{Path: f.Path, Version: f.Version, Size: f.Size, SHA256: mount.Sum(f.SHA256)}, err
}

// Stat implements [mount.Group].
func (g *vfsGroup) Stat(ctx context.Context, path string) (mount.GroupFile, error) {
	return g.file(g.files.Stat(ctx, g.name, path))
}

// Open implements [mount.Group].
func (g *vfsGroup) Open(ctx context.Context, path string) (io.ReadCloser, mount.GroupFile, error) {
	content, about, err := g.files.Open(ctx, g.name, path, 0)
	if err != nil {
		return nil, mount.GroupFile{}, err
	}
	f, _ := g.file(about, nil)
	return content, f, nil
}

// List implements [mount.Group].
func (g *vfsGroup) List(ctx context.Context, prefix, cursor string) ([]mount.GroupFile, string, error) {
	files, next, err := g.files.List(ctx, g.name, prefix, cursor, vfs.MaxLimit, false)
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
func (g *vfsGroup) Put(ctx context.Context, path string, data []byte, ifVersion *uint64) (mount.GroupFile, error) {
	return g.file(g.files.Put(ctx, g.name, path, bytes.NewReader(data), vfs.PutOptions{IfVersion: ifVersion, Size: int64(len(data))}))
}
