package files

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// download sends a file, named by file_id or by path, or one of its versions.
func (h *Handler) download(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	done, err := h.transfer(r.Context(), who)
	if err != nil {
		return err
	}
	defer done()
	var group, path, id, version string
	if err := queries(r, map[string]*string{"group_name": &group, "path": &path, "file_id": &id, "version": &version}); err != nil {
		return err
	}
	number, err := optionalNumber("version", version)
	if err != nil {
		return err
	}
	files, err := h.enter(r.Context(), who, "vfs:read", group)
	if err != nil {
		return err
	}
	if path, err = pathOf(r.Context(), files, group, id, path); err != nil {
		return err
	}
	content, f, err := files.Open(r.Context(), group, path, number)
	if err != nil {
		return err
	}
	defer content.Close()
	describe(w.Header(), f)
	if r.Header.Get("If-Unmodified-Since") == "" && r.Header.Get("If-Match") != "" {
		if want, ok := parseETag(r.Header.Get("If-Match")); ok && want != f.Version {
			return preconditionError{protocol.AsError(vfs.VersionConflict(path, want, f.Version))}
		}
	}
	pacer := h.pace(w, who)
	defer pacer.stop()
	http.ServeContent(pacedWriter{w, pacer}, r, "", f.Modified, content)
	return nil
}

// pathOf is the path of a file that is named by its id or its path.
func pathOf(ctx context.Context, files vfs.Files, group, id, path string) (string, error) {
	if (id == "") == (path == "") {
		return "", protocol.InvalidParam("file_id", "name the file by file_id or by path")
	}
	if path != "" {
		return path, nil
	}
	f, err := vfs.Find(ctx, files, group, id, "")
	return f.Path, err
}

func optionalNumber(name, text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, protocol.InvalidParam(name, "must be a whole number")
	}
	return n, nil
}

// ListResult is the answer to a list.
type ListResult struct {
	Success  bool           `json:"success"`
	Group    string         `json:"group_name"`
	Files    []vfs.FileView `json:"files"`
	Next     string         `json:"next_cursor,omitempty"`
	Snapshot string         `json:"snapshot_id,omitempty"`
	Revision string         `json:"revision,omitempty"`
}

// list lists files: those of a folder, or, with prefix, those whose path
// begins with it.
func (h *Handler) list(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	var group, path, prefix, cursor, limit, deleted, snapshot string
	if err := queries(r, map[string]*string{
		"group_name": &group, "path": &path, "prefix": &prefix, "cursor": &cursor, "limit": &limit, "deleted": &deleted, "snapshot_id": &snapshot,
	}); err != nil {
		return err
	}
	n, err := optionalNumber("limit", limit)
	if err != nil {
		return err
	}
	if n > vfs.MaxLimit {
		return protocol.InvalidParam("limit", fmt.Sprintf("must be at most %d", vfs.MaxLimit))
	}
	at, err := optionalNumber("snapshot_id", snapshot)
	if err != nil {
		return err
	}
	files, err := h.enter(r.Context(), who, "vfs:list", group)
	if err != nil {
		return err
	}
	result := ListResult{Success: true, Group: group, Snapshot: snapshot, Files: []vfs.FileView{}}
	if reviser, ok := files.(vfs.Reviser); ok && r.URL.Query().Has("revision") { // before the list, lest a change between both be missed
		if result.Revision, err = reviser.Revision(r.Context(), group, prefix); err != nil {
			return err
		}
	}
	found, next, err := h.find(r.Context(), files, listing{group, path, prefix, cursor, int(n), deleted == "true", at})
	if err != nil {
		return err
	}
	for _, f := range found {
		result.Files = append(result.Files, f.View())
	}
	result.Next = next
	if s, ok := files.(vfs.Snapshots); ok && snapshot == "" && cursor == "" && r.URL.Query().Has("snapshot") {
		now, err := s.Snapshot(r.Context(), group)
		if err != nil {
			return err
		}
		result.Snapshot = strconv.FormatUint(now, 10)
	}
	return succeed(w, http.StatusOK, result)
}

// A listing holds the parameters of a list.
type listing struct {
	group, path, prefix, cursor string
	limit                       int
	deleted                     bool
	snapshot                    uint64
}

func (h *Handler) find(ctx context.Context, files vfs.Files, l listing) ([]vfs.File, string, error) {
	if l.snapshot != 0 {
		s, ok := files.(vfs.Snapshots)
		if !ok {
			return nil, "", protocol.InvalidParam("snapshot_id", "this VFS keeps no snapshots")
		}
		return s.ListAt(ctx, l.group, l.prefix+l.path, l.snapshot, l.cursor, l.limit)
	}
	if l.path == "" {
		return files.List(ctx, l.group, l.prefix, l.cursor, l.limit, l.deleted)
	}
	return vfs.ListFolder(ctx, files, l.group, l.path, l.cursor, l.limit, l.deleted)
}

// DeleteResult is the answer to a deletion.
type DeleteResult struct {
	Success bool   `json:"success"`
	ID      string `json:"file_id"`
	Path    string `json:"path"`
	Version uint64 `json:"version"`
}

// delete deletes a file.
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, who *protocol.Principal) error {
	var group, path, id string
	if err := queries(r, map[string]*string{"group_name": &group, "path": &path, "file_id": &id}); err != nil {
		return err
	}
	want, err := ifVersion(r.Header)
	if err != nil {
		return err
	}
	files, err := h.enter(r.Context(), who, "vfs:delete", group)
	if err != nil {
		return err
	}
	if path, err = pathOf(r.Context(), files, group, id, path); err != nil {
		return err
	}
	var version uint64
	if want != nil {
		version = *want
	}
	gone, err := files.Delete(r.Context(), group, path, version)
	h.Tell(r, who, "vfs.delete", group, path, err)
	if err != nil && want != nil && protocol.CodeOf(err) == protocol.RevisionConflict {
		return preconditionError{protocol.AsError(err)}
	}
	if err != nil {
		return err
	}
	return succeed(w, http.StatusOK, DeleteResult{true, gone.ID, gone.Path, gone.Version})
}
