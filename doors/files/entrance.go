package files

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Entrances for other doors to the same files, which speak another protocol: they
// share rights, places, pace and records.

// A Deed is a change of files by a principal, done or refused.
type Deed struct {
	Request *http.Request
	Who     *protocol.Principal
	Name    string // vfs.put, vfs.delete, vfs.copy, vfs.move, vfs.folder or vfs.refused
	Group   string
	Path    string // "" for the whole group
	Err     error
}

// A Refusal is an error in the words of another protocol. The client gets all of
// it, so it is not logged.
type Refusal interface {
	error
	Refuses()
}

// Enter asks policy and the group whether a principal may do something with its
// files: vfs:read, vfs:write, vfs:list or vfs:delete.
func (h *Handler) Enter(ctx context.Context, who *protocol.Principal, action, group string) (vfs.Files, error) {
	return h.enter(ctx, who, action, group)
}

// Tell has a deed recorded, if it was done.
func (h *Handler) Tell(r *http.Request, who *protocol.Principal, name, group, path string, err error) {
	if h.Record != nil && err == nil {
		h.Record(Deed{Request: r, Who: who, Name: name, Group: group, Path: path, Err: err})
	}
}

// Failed logs the parts of an error that the client does not get, and has it
// recorded if the principal lacks the right.
func (h *Handler) Failed(r *http.Request, who *protocol.Principal, err error) {
	h.explain(r, err)
	if code := protocol.CodeOf(err); h.Record == nil || who == nil || code != protocol.VFSPermission && code != protocol.PermissionDenied {
		return
	}
	group, _ := protocol.AsError(err).Details["group_name"].(string)
	h.Record(Deed{Request: r, Who: who, Name: "vfs.refused", Group: group, Path: r.URL.Path, Err: err})
}

// Tag is the strong entity tag of a file at these doors: the SHA-256 of its content,
// in URL-safe base64, which is short enough for clients that make file names of it.
func Tag(f vfs.File) string { return `"` + base64.RawURLEncoding.EncodeToString(f.SHA256[:]) + `"` }

// Send sends a version of a file, or a range of it, with an entity tag.
func (h *Handler) Send(w http.ResponseWriter, r *http.Request, who *protocol.Principal, files vfs.Files, f vfs.File, tag string) error {
	done, err := h.transfer(r.Context(), who)
	if err != nil {
		return err
	}
	defer done()
	content, f, err := files.Open(r.Context(), f.Group, f.Path, f.Version)
	if err != nil {
		return err
	}
	defer content.Close()
	describe(w.Header(), f)
	w.Header().Set("Etag", tag)
	modified := f.Modified
	if f.Mtime != 0 {
		modified = time.UnixMilli(f.Mtime)
	}
	pacer := h.pace(w, who)
	defer pacer.stop()
	http.ServeContent(pacedWriter{w, pacer}, r, "", modified, content)
	return nil
}

// A Body is that of an upload: it has a place among the transfers, comes at a
// pace, is bounded by the largest file, and ends with the right to write the
// group. It is to be closed.
type Body struct {
	io.Reader
	handler *Handler
	w       http.ResponseWriter
	paced   *pacedBody
	done    func()
}

// Accept begins to read the body of an upload to a group.
func (h *Handler) Accept(w http.ResponseWriter, r *http.Request, who *protocol.Principal, group string) (*Body, error) {
	done, err := h.transfer(r.Context(), who)
	if err != nil {
		return nil, err
	}
	pacer := h.pace(w, who)
	pacer.last = func(who *protocol.Principal) error {
		_, err := h.enter(r.Context(), who, "vfs:write", group)
		return err
	}
	paced := pacer.body(http.MaxBytesReader(w, r.Body, h.MaxFile+roomForForm))
	return &Body{Reader: paced, handler: h, w: w, paced: paced, done: func() { pacer.stop(); done() }}, nil
}

// Close ends the upload. After an error the rest of the body is not read.
func (b *Body) Close(err error) error {
	b.done()
	if err == nil {
		b.paced.end()
		return nil
	}
	b.w.Header().Set("Connection", "close")
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return b.handler.tooLarge()
	}
	return broken(err)
}

// Receive stores the body of a request as a file's new version.
func (h *Handler) Receive(w http.ResponseWriter, r *http.Request, who *protocol.Principal, group, path string, o vfs.PutOptions) (vfs.File, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return vfs.File{}, protocol.InvalidParam("Content-Encoding", "files are taken as they are")
	}
	files, err := h.enter(r.Context(), who, "vfs:write", group)
	if err != nil {
		return vfs.File{}, err
	}
	body, err := h.Accept(w, r, who, group)
	if err != nil {
		return vfs.File{}, err
	}
	f, err := files.Put(r.Context(), group, path, body, o)
	return f, body.Close(err)
}
