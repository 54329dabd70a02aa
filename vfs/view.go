package vfs

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A FileView is a file as callers see it.
type FileView struct {
	ID          string `json:"file_id" doc:"names the file through all its versions"`
	Path        string `json:"path" doc:"path of the file in its group, with slashes"`
	Version     uint64 `json:"version" doc:"rises with every change"`
	Size        int64  `json:"size" doc:"bytes"`
	Checksum    string `json:"checksum,omitempty" doc:"SHA-256, hexadecimal"`
	Modified    int64  `json:"modified" doc:"Unix milliseconds"`
	Mtime       int64  `json:"mtime,omitempty" doc:"time of the last change of the content where it came from, as the writer said; Unix milliseconds"`
	ContentType string `json:"content_type,omitempty" doc:"media type as the writer gave it; absent if it gave none"`
	Deleted     bool   `json:"deleted,omitempty" doc:"the file is gone, and remembered for a while"`
}

// View is the file as callers see it.
func (f File) View() FileView {
	v := FileView{
		ID: f.ID, Path: f.Path, Version: f.Version, Size: f.Size, Modified: f.Modified.UnixMilli(),
		ContentType: f.ContentType, Deleted: f.Deleted, Mtime: f.Mtime,
	}
	if !f.Deleted {
		v.Checksum = f.SHA256.String()
	}
	return v
}

// A Finder is implemented by [Files] that find a file by its id.
type Finder interface {
	ByID(ctx context.Context, group, id string) (File, error)
}

// Find describes a file that is named by its id, or by its path.
func Find(ctx context.Context, files Files, group, id, path string) (File, error) {
	if id == "" {
		return files.Stat(ctx, group, path)
	}
	if f, ok := files.(Finder); ok {
		return f.ByID(ctx, group, id)
	}
	return File{}, protocol.InvalidParam("file_id", "this VFS finds files by path only")
}

// ByID implements [Finder].
func (m *mirrorReader) ByID(ctx context.Context, group, id string) (File, error) {
	f, err := Find(ctx, m.Files, group, id, "")
	if err == nil && m.may(f.Path) != nil {
		err = NoFile(group, id)
	}
	if err != nil {
		return File{}, err
	}
	return f, nil
}

// ListFolder lists the files at a path: the file, or all files in the folder and
// its folders. An empty path is the whole group.
func ListFolder(ctx context.Context, files Files, group, path, cursor string, limit int, deleted bool) ([]File, string, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return files.List(ctx, group, "", cursor, limit, deleted)
	}
	if _, err := CleanPath(path); err != nil {
		return nil, "", err
	}
	if cursor == "" {
		if f, err := files.Stat(ctx, group, path); err == nil {
			return []File{f}, "", nil
		} else if protocol.CodeOf(err) != protocol.FileNotFound {
			return nil, "", err
		}
	}
	return files.List(ctx, group, path+"/", cursor, limit, deleted)
}

// A page holds the parameters of every list. Lists are in the order of paths
// and the cursor is the last path of the page before.
type page struct {
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor string `json:"cursor,omitempty" len:"1-1024" doc:"next_cursor of the page before"`
}

func views(files []File) []FileView {
	list := make([]FileView, len(files))
	for i := range files {
		list[i] = files[i].View()
	}
	return list
}
