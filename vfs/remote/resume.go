package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// PartsFrom is the size from which files are uploaded in parts, unless a client has another.
const PartsFrom = 8 << 20

// Bounds of what is done about a connection that breaks.
const (
	maxBreaks = 10 // one after the other, without a byte that arrived
	longPause = 30 * time.Second
)

// An upload is one in parts, as the VFS tells of it.
type upload struct {
	ID       string `json:"upload_id"`
	Group    string `json:"group_name"`
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Offset   int64  `json:"offset"`
	Checksum string `json:"checksum"`
	// IfVersion is the condition of its beginning, nil for none.
	IfVersion *uint64 `json:"if_version"`
}

// is reports whether an upload is that of a file with a condition.
func (u *upload) is(group, path string, o vfs.PutOptions) bool {
	same := (u.IfVersion == nil) == (o.IfVersion == nil) && (o.IfVersion == nil || *u.IfVersion == *o.IfVersion)
	return same && u.Group == group && u.Path == path && u.Size == o.Size && u.Checksum == o.SHA256.String()
}

// PutFile stores a file whose size and checksum o has. A large one goes in parts: it goes
// on where it was when the connection breaks, or when the same content was begun earlier
// with the same condition, by whatever process of the same principal.
func (c *Client) PutFile(ctx context.Context, group, path string, r io.ReadSeeker, o vfs.PutOptions) (vfs.File, error) {
	if o.Size < c.PartsFrom || o.SHA256 == nil {
		return c.Put(ctx, group, path, r, o)
	}
	if err := check(group, path); err != nil {
		return vfs.File{}, err
	}
	u, err := c.begun(ctx, group, path, o)
	if err != nil {
		return vfs.File{}, err
	}
	breaks, arrived := 0, u.Offset
	for {
		f, err := c.goOn(ctx, group, path, r, u, o)
		if err == nil {
			return f, nil
		}
		for err != nil { // until it is known where to go on
			if u.Offset > arrived {
				breaks, arrived = 0, u.Offset
			}
			if breaks++; !passes(err) || breaks > maxBreaks || !c.rest(ctx, breaks) {
				return vfs.File{}, c.localize(group, err)
			}
			if f, found := c.stored(ctx, group, path, o); found {
				return f, nil
			}
			err = c.about(ctx, http.MethodGet, "uploads/"+u.ID, nil, u)
		}
	}
}

// passes reports whether an upload goes on after an error.
func passes(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.VFSUnavailable, protocol.Busy, protocol.ShuttingDown:
		return true
	case protocol.RevisionConflict: // of the offset: more has arrived than was known
		e := new(protocol.Error)
		return errors.As(err, &e) && e.Details["upload_id"] != nil
	}
	return false
}

// rest waits before a further attempt. It reports false if ctx ends.
func (c *Client) rest(ctx context.Context, attempt int) bool {
	timer := time.NewTimer(min(c.pause<<(attempt-1), longPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stored reports whether the file has the content already: the answer to the end of the
// upload may be what was lost.
func (c *Client) stored(ctx context.Context, group, path string, o vfs.PutOptions) (vfs.File, bool) {
	f, err := c.Stat(ctx, group, path)
	return f, err == nil && f.SHA256 == *o.SHA256 && f.Size == o.Size && (o.IfVersion == nil || f.Version > *o.IfVersion)
}

// begun is the upload to go on with: one of the same content that was begun earlier, or a
// new one.
func (c *Client) begun(ctx context.Context, group, path string, o vfs.PutOptions) (*upload, error) {
	g, p := c.there(group, path)
	var all struct {
		Uploads []upload `json:"uploads"`
	}
	if err := c.about(ctx, http.MethodGet, "uploads", nil, &all); err != nil {
		return nil, err
	}
	for i := range all.Uploads {
		u := &all.Uploads[i]
		if u.is(g, p, o) {
			return u, nil
		}
		if c.Alone {
			if err := c.giveUp(ctx, u); err != nil {
				return nil, err
			}
		}
	}
	query := url.Values{
		"group_name": {g}, "path": {p}, "size": {strconv.FormatInt(o.Size, 10)}, "checksum": {o.SHA256.String()},
	}
	if o.Mtime > 0 {
		query.Set("mtime", strconv.FormatInt(o.Mtime, 10))
	}
	if o.ContentType != "" {
		query.Set("content_type", o.ContentType)
	}
	request, err := c.request(ctx, http.MethodPost, "uploads", query, nil)
	if err != nil {
		return nil, err
	}
	condition(request.Header, o.IfVersion)
	u := new(upload)
	if err := c.send(ctx, request, u); err != nil {
		return nil, c.localize(group, err)
	}
	if u.ID == "" || u.Size != o.Size {
		return nil, strange("another upload than was begun")
	}
	return u, nil
}

// giveUp gives up an upload, which may have ended meanwhile.
func (c *Client) giveUp(ctx context.Context, u *upload) error {
	err := c.about(ctx, http.MethodDelete, "uploads/"+u.ID, nil, &struct{}{})
	if code := protocol.CodeOf(err); code == protocol.FileNotFound || code == protocol.NotFound {
		return nil
	}
	return err
}

// goOn sends what is missing of an upload, and ends it.
func (c *Client) goOn(ctx context.Context, group, path string, r io.ReadSeeker, u *upload, o vfs.PutOptions) (vfs.File, error) {
	for u.Offset < u.Size {
		if err := c.part(ctx, r, u); err != nil {
			return vfs.File{}, err
		}
	}
	var answer struct {
		vfs.FileView
	}
	if err := c.about(ctx, http.MethodPost, "uploads/"+u.ID+"/finish", url.Values{"checksum": {o.SHA256.String()}}, &answer); err != nil {
		return vfs.File{}, err
	}
	f, err := c.file(group, answer.FileView)
	if err == nil && (f.Path != path || f.SHA256 != *o.SHA256 || f.Size != o.Size) {
		err = strange("another file than was sent")
	}
	return f, err
}

// part sends all that is missing, of which as much arrives as the connection carries.
func (c *Client) part(ctx context.Context, r io.ReadSeeker, u *upload) error {
	if _, err := r.Seek(u.Offset, io.SeekStart); err != nil {
		return protocol.Wrap(protocol.SyncFailed, err, "the content cannot be read")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := &sent{r: io.LimitReader(r, u.Size-u.Offset), file: true, cancel: cancel, patience: c.Patience}
	request, err := c.request(ctx, http.MethodPatch, "uploads/"+u.ID, url.Values{"offset": {strconv.FormatInt(u.Offset, 10)}}, body)
	if err != nil {
		return err
	}
	request.ContentLength = u.Size - u.Offset
	request.Header.Set("Content-Type", "application/octet-stream")
	before := u.Offset
	err = c.send(ctx, request, u)
	if broken := body.end(); broken != nil {
		return broken
	}
	if err == nil && u.Offset <= before {
		err = strange("nothing of a part has arrived")
	}
	return err
}

// about asks something about uploads that may be asked again.
func (c *Client) about(ctx context.Context, method, what string, query url.Values, into any) error {
	request, err := c.request(ctx, method, what, query, nil)
	if err != nil {
		return err
	}
	return c.send(ctx, request, into)
}

func (c *Client) send(ctx context.Context, request *http.Request, into any) error {
	response, err := c.http.Do(request)
	if err != nil {
		return unavailable(err)
	}
	err = c.decode(ctx, response, into)
	if response.StatusCode == http.StatusNotFound && protocol.CodeOf(err) == protocol.VFSUnavailable {
		return protocol.Errorf(protocol.NotFound, "the upload is not there any more: begin anew")
	}
	return err
}
