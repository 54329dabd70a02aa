package files

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// An UploadView is an upload in parts, as its principal sees it.
type UploadView struct {
	ID       string   `json:"upload_id"`
	Group    string   `json:"group_name"`
	Path     string   `json:"path"`
	Size     int64    `json:"size"`
	Offset   int64    `json:"offset"` // bytes that have come: where to go on
	Step     int64    `json:"step"`   // divides the offset, but at the end
	Checksum *vfs.Sum `json:"checksum,omitempty"`
	// IfVersion is the condition of its beginning: the version that the file must have, 0 for
	// none; nil for no condition.
	IfVersion *uint64 `json:"if_version,omitempty"`
	Expires   int64   `json:"expires_at"` // Unix milliseconds
}

func viewOf(s vfs.ResumableState) UploadView {
	return UploadView{s.ID, s.Group, s.Path, s.Size, s.Received, vfs.UploadStep, s.SHA256, s.IfVersion, s.Expires.UnixMilli()}
}

// UploadAnswer is the answer about one upload.
type UploadAnswer struct {
	Success bool `json:"success"`
	UploadView
}

// UploadsAnswer lists uploads.
type UploadsAnswer struct {
	Success bool         `json:"success"`
	Uploads []UploadView `json:"uploads"`
}

// uploadsPath begins the paths of uploads in parts.
const uploadsPath = "/vfs/uploads/"

// uploads begins an upload in parts, or lists those of the principal.
func (h *Handler) uploads(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	if r.Method != http.MethodPost {
		return h.listUploads(w, r, who)
	}
	var in incoming
	if err := queries(r, map[string]*string{"group_name": &in.group, "path": &in.path, "size": &in.size, "checksum": &in.checksum, "mtime": &in.mtime, "content_type": &in.contentType}); err != nil {
		return err
	}
	o, err := in.options(r.Header)
	switch {
	case err != nil:
		return err
	case o.Size < 0:
		return protocol.InvalidParam("size", "is missing: the number of bytes of the whole file")
	case o.Size > h.MaxFile:
		return h.tooLarge()
	}
	if _, err := h.enter(r.Context(), who, "vfs:write", in.group); err != nil {
		return err
	}
	s, err := h.Service.Store().BeginUpload(r.Context(), who, vfs.Resumable{
		Group: in.group, Path: in.path, Size: o.Size, SHA256: o.SHA256, IfVersion: o.IfVersion, ContentType: o.ContentType, Mtime: o.Mtime,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", uploadsPath+s.ID)
	return succeed(w, http.StatusCreated, UploadAnswer{true, viewOf(s)})
}

// listUploads lists the uploads of the principal into groups that it may write: with
// another key it may have been able to begin more.
func (h *Handler) listUploads(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	list, refused := []UploadView{}, map[string]error{} // by the group
	for _, s := range h.Service.Store().Uploads(who) {
		err, known := refused[s.Group]
		if !known {
			err = h.may(r.Context(), who, "vfs:write", s.Group)
			refused[s.Group] = err
		}
		switch {
		case err == nil:
			list = append(list, viewOf(s))
		case protocol.CodeOf(err) != protocol.VFSPermission:
			return err
		}
	}
	return succeed(w, http.StatusOK, UploadsAnswer{true, list})
}

// oneUpload serves the paths of one upload: itself, and its end. All of them need the right
// to write its group, also those that only look or give it up: the key may be another one
// than that which began it.
func (h *Handler) oneUpload(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	id, end, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, uploadsPath), "/")
	store := h.Service.Store()
	state, err := store.FindUpload(r.Context(), who, id)
	if err != nil {
		return err
	}
	if err := h.may(r.Context(), who, "vfs:write", state.Group); err != nil {
		return err
	}
	switch {
	case end == "finish" && r.Method == http.MethodPost:
		return h.finishUpload(w, r, who, state)
	case end != "":
		return protocol.Errorf(protocol.NotFound, "there is nothing at this path")
	case r.Method == http.MethodGet:
		return succeed(w, http.StatusOK, UploadAnswer{true, viewOf(state)})
	case r.Method == http.MethodPatch:
		return h.appendPart(w, r, who, state)
	case r.Method == http.MethodDelete:
		if err := store.AbortUpload(r.Context(), who, id); err != nil {
			return err
		}
		return succeed(w, http.StatusOK, UploadAnswer{true, viewOf(state)})
	}
	refuseMethod(w, http.MethodGet, http.MethodPatch, http.MethodDelete)
	return nil
}

// appendPart takes the next part of an upload, or as much of it as comes.
func (h *Handler) appendPart(w http.ResponseWriter, r *http.Request, who *protocol.Principal, state vfs.ResumableState) error {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return protocol.InvalidParam("Content-Encoding", "files are taken as they are")
	}
	text, err := query(r, "offset")
	if err != nil {
		return err
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return protocol.InvalidParam("offset", "must be the number of bytes that have come")
	}
	if r.ContentLength > state.Size-offset {
		return vfs.BadContent(state.Path, "is longer than announced")
	}
	if _, err := h.enter(r.Context(), who, "vfs:write", state.Group); err != nil {
		return err
	}
	body, err := h.Accept(w, r, who, state.Group)
	if err != nil {
		return err
	}
	s, err := h.Service.Store().Append(r.Context(), who, state.ID, offset, body)
	if err = body.Close(err); err != nil {
		return err
	}
	return succeed(w, http.StatusOK, UploadAnswer{true, viewOf(s)})
}

// finishUpload makes a version of the file of an upload that is whole.
func (h *Handler) finishUpload(w http.ResponseWriter, r *http.Request, who *protocol.Principal, state vfs.ResumableState) error {
	text, err := query(r, "checksum")
	if err != nil {
		return err
	}
	sum, err := announcedSum(text, r.Header)
	if err != nil {
		return err
	}
	files, err := h.enter(r.Context(), who, "vfs:write", state.Group)
	if err != nil {
		return err
	}
	f, err := h.Service.Store().FinishUpload(r.Context(), who, state.ID, files, sum)
	h.Tell(r, who, "vfs.put", state.Group, state.Path, err)
	if err != nil {
		if state.IfVersion != nil && protocol.CodeOf(err) == protocol.RevisionConflict {
			return preconditionError{protocol.AsError(err)}
		}
		return err
	}
	w.Header().Set("Etag", etag(f))
	return succeed(w, http.StatusOK, UploadResult{true, f.View(), f.Group})
}
