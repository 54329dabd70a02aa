package webdav

import (
	"net/http"

	"github.com/aibridge/aibridge/protocol"
)

// get sends a file, or a range of it.
func (q *request) get() error {
	r, err := q.find(q.at, "vfs:read")
	if err != nil {
		return err
	}
	if r.folder {
		q.w.Header().Set("Allow", allowed)
		return statusError{http.StatusMethodNotAllowed, protocol.InvalidParam("path", "is a folder: PROPFIND lists it")}
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	return q.door.Files.Send(q.w, q.Request, q.who, r.files, r.file, etag(r.file))
}
