package webdav

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// put stores the body as a file's new version, when all of it has come.
func (q *request) put() error {
	switch {
	case q.at.path == "" || q.at.slash:
		return statusError{http.StatusConflict, protocol.InvalidParam("path", "is that of a folder")}
	case q.Header.Get("Content-Range") != "":
		return protocol.InvalidParam("Content-Range", "a file is written as a whole")
	}
	r, there, err := q.findMaybe(q.at, "vfs:write")
	if err != nil {
		return err
	}
	if there && r.folder {
		return statusError{http.StatusMethodNotAllowed, protocol.InvalidParam("path", "is a folder")}
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	if !there {
		if err := q.inFolder(q.at); err != nil {
			return err
		}
		err = q.mayEnter(q.at, false)
	} else {
		err = q.mayChange(q.at, false)
	}
	if err != nil {
		return err
	}
	o := vfs.PutOptions{Size: q.ContentLength, IfVersion: q.version(r, there), ContentType: q.contentType(), Mtime: q.mtime()}
	f, err := q.door.Files.Receive(q.w, q.Request, q.who, q.at.group, q.at.path, o)
	q.door.Files.Tell(q.Request, q.who, "vfs.put", q.at.group, q.at.path, err)
	if err != nil {
		return err
	}
	q.w.Header().Set("Etag", etag(f))
	if o.Mtime != 0 {
		q.w.Header().Set("X-Oc-Mtime", "accepted")
	}
	q.written(!there)
	return nil
}

// written answers that something is new, or another.
func (q *request) written(created bool) {
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	q.w.WriteHeader(status)
}

// version is the version that a file must still have when it is written, if the
// request has conditions on it; nil if it has none.
func (q *request) version(r resource, there bool) *uint64 {
	if q.Header.Get("If-Match") == "" && q.Header.Get("If-None-Match") == "" && len(q.condition.lists) == 0 {
		return nil
	}
	if !there {
		return new(uint64)
	}
	return &r.file.Version
}

func (q *request) contentType() string {
	if t := q.Header.Get("Content-Type"); len(t) <= vfs.MaxContentType {
		return t
	}
	return ""
}

// mtime is the time of the file's last change at its origin, as ownCloud's clients
// and rclone send it; 0 if they do not.
func (q *request) mtime() int64 {
	seconds, err := strconv.ParseFloat(q.Header.Get("X-Oc-Mtime"), 64)
	if err != nil || seconds <= 0 || seconds > 1<<42 {
		return 0
	}
	return int64(seconds * 1000)
}

// makeFolder makes an empty folder, or with one level a group.
func (q *request) makeFolder() error {
	if q.ContentLength > 0 {
		return statusError{http.StatusUnsupportedMediaType, protocol.InvalidParam("body", "a folder is made without one")}
	}
	if q.at.root() {
		return statusError{http.StatusMethodNotAllowed, protocol.Errorf(protocol.AlreadyExists, "the folder of all groups is there")}
	}
	at := q.at
	at.slash = false // any resource is in the way, be it a file or a folder
	r, there, err := q.findMaybe(at, "vfs:list")
	if err != nil {
		return err
	}
	if there {
		return statusError{http.StatusMethodNotAllowed, protocol.Errorf(protocol.AlreadyExists, "%q is there", at.name())}
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	if err := q.inFolder(at); err != nil {
		return err
	}
	if parent := at.parent(); parent.path == "" && !parent.root() {
		if _, there, err := q.findMaybe(parent, "vfs:list"); err != nil || !there {
			return conflict(at) // a group is made on purpose
		}
	}
	if err := q.mayEnter(at, false); err != nil {
		return err
	}
	files, err := q.door.Files.Enter(q.Context(), q.who, "vfs:write", at.group)
	if err != nil {
		return err
	}
	err = mark(q.Context(), files, at)
	q.door.Files.Tell(q.Request, q.who, "vfs.folder", at.group, at.path, err)
	if err != nil {
		return err
	}
	q.written(true)
	return nil
}

// mark makes the file that stands for a folder.
func mark(ctx context.Context, files vfs.Files, folder target) error {
	_, err := files.Put(ctx, folder.group, vfs.MarkerOf(folder.path), strings.NewReader(""),
		vfs.PutOptions{Size: 0, ContentType: vfs.FolderType})
	return err
}

// delete deletes a file, or a folder with everything in it.
func (q *request) delete() error {
	if depth := q.Header.Get("Depth"); depth != "" && depth != "infinity" {
		return protocol.InvalidParam("Depth", "must be infinity")
	}
	if q.at.root() {
		return protocol.Errorf(protocol.VFSPermission, "the folder of all groups cannot be deleted")
	}
	r, err := q.find(q.at, "vfs:list")
	if err != nil {
		return err
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	if err := q.mayEnter(q.at, true); err != nil {
		return err
	}
	if r.files, err = q.door.Files.Enter(q.Context(), q.who, "vfs:delete", q.at.group); err != nil {
		return err
	}
	err = q.remove(r)
	q.door.Files.Tell(q.Request, q.who, "vfs.delete", q.at.group, q.at.path, err)
	if err != nil {
		return err
	}
	q.keepFolder(q.at.parent())
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// remove deletes the resource that find has found, and ends its locks.
func (q *request) remove(r resource) error {
	if err := q.removeFiles(r); err != nil {
		return err
	}
	q.door.locks.gone(context.WithoutCancel(q.Context()), q.who.Home(), r.at.name())
	return nil
}

func (q *request) removeFiles(r resource) error {
	if !r.folder {
		var version uint64
		if v := q.version(r, true); v != nil {
			version = *v
		}
		_, err := r.files.Delete(q.Context(), r.at.group, r.at.path, version)
		return err
	}
	if err := vfs.CheckTree(q.Context(), r.located()); err != nil {
		return err
	}
	_, err := vfs.DeleteTree(q.Context(), r.located())
	return err
}

// keepFolder keeps a folder whose last file went: a folder of WebDAV stays until a
// client deletes it. The folder is lost if the principal may delete, but not write.
func (q *request) keepFolder(folder target) {
	if folder.root() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), 10*time.Second)
	defer cancel()
	files, err := q.door.Files.Enter(ctx, q.who, "vfs:write", folder.group)
	if err != nil {
		return
	}
	if _, err := look(ctx, files, target{group: folder.group, path: folder.path, slash: true}); protocol.CodeOf(err) == protocol.FileNotFound {
		_ = mark(ctx, files, folder) // without it the folder is gone, which is no error
	}
}
