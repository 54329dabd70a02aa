package webdav

import (
	"context"

	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A resource is a file or a folder at a target.
type resource struct {
	at     target
	files  vfs.Files // nil for the folder of all groups
	folder bool
	file   vfs.File // if it is none
}

// located is the resource as the VFS knows it.
func (r *resource) located() vfs.Located {
	return vfs.Located{Files: r.files, Group: r.at.group, Path: r.at.path}
}

// href is the resource's URL.
func (r *resource) href() string { return r.at.href(r.folder) }

// etag is the entity tag of a file.
func etag(f vfs.File) string { return files.Tag(f) }

// find looks up a resource on which the principal may act. A missing resource is
// 4003, and so is a hidden one.
func (q *request) find(at target, action string) (resource, error) {
	if at.root() {
		return resource{at: at, folder: true}, nil
	}
	among, err := q.door.Files.Enter(q.Context(), q.who, action, at.group)
	if err != nil {
		return resource{}, err
	}
	return look(q.Context(), among, at)
}

// look finds the resource at a target among files.
func look(ctx context.Context, among vfs.Files, at target) (resource, error) {
	r := resource{at: at, files: among}
	if at.path != "" {
		f, err := among.Stat(ctx, at.group, at.path)
		if err == nil && !at.slash {
			r.file = f
			return r, nil
		}
		if err != nil && protocol.CodeOf(err) != protocol.FileNotFound {
			return r, err
		}
	}
	below := ""
	if at.path != "" {
		below = at.path + "/"
	}
	found, _, err := among.List(ctx, at.group, below, "", 1, false)
	if err != nil {
		return r, err
	}
	if len(found) == 0 {
		return r, vfs.NoFile(at.group, at.path)
	}
	r.folder = true
	return r, nil
}

// findMaybe is find for a resource that need not exist.
func (q *request) findMaybe(at target, action string) (r resource, there bool, err error) {
	r, err = q.find(at, action)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return r, false, nil
	}
	return r, err == nil, err
}

// inFolder refuses with 409 a target whose folder is missing.
func (q *request) inFolder(at target) error {
	parent := at.parent()
	if parent.root() {
		return nil
	}
	r, there, err := q.findMaybe(parent, "vfs:list")
	if err == nil && (!there || !r.folder) {
		// The first file of a group makes the group, so that its folder need
		// not be made.
		if parent.path == "" && !there {
			return nil
		}
		return conflict(at)
	}
	return err
}
