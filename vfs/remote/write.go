package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Put implements [vfs.Files]. It is never repeated: the content was read, and
// whether it arrived is not known.
func (c *Client) Put(ctx context.Context, group, path string, r io.Reader, o vfs.PutOptions) (vfs.File, error) {
	if err := check(group, path); err != nil {
		return vfs.File{}, err
	}
	return c.put(ctx, group, path, r, o, url.Values{})
}

// put sends an upload, with query parameters besides the group and path.
func (c *Client) put(ctx context.Context, group, path string, r io.Reader, o vfs.PutOptions, query url.Values) (vfs.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, p := c.there(group, path)
	query.Set("group_name", g)
	query.Set("path", p)
	if o.Size >= 0 {
		query.Set("size", strconv.FormatInt(o.Size, 10))
	}
	if o.SHA256 != nil {
		query.Set("checksum", o.SHA256.String())
	}
	if o.Mtime > 0 {
		query.Set("mtime", strconv.FormatInt(o.Mtime, 10))
	}
	_, file := r.(io.Seeker)
	body := &sent{r: r, file: file, cancel: cancel, patience: c.Patience}
	request, err := c.request(ctx, http.MethodPut, "upload", query, body)
	if err != nil {
		return vfs.File{}, err
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	if o.ContentType != "" {
		request.Header.Set("Content-Type", o.ContentType)
	}
	condition(request.Header, o.IfVersion)
	response, err := c.http.Do(request)
	if broken := body.end(); broken != nil {
		if err == nil {
			_ = response.Body.Close()
		}
		return vfs.File{}, broken
	}
	if err != nil {
		return vfs.File{}, unavailable(err)
	}
	var answer struct {
		Success bool `json:"success"`
		vfs.FileView
	}
	if err := c.decode(ctx, response, &answer); err != nil {
		return vfs.File{}, c.localize(group, err)
	}
	f, err := c.file(group, answer.FileView)
	if err == nil && (!answer.Success || f.Path != path || o.SHA256 != nil && f.SHA256 != *o.SHA256 || o.Size >= 0 && f.Size != o.Size) {
		err = strange("another file than was sent")
	}
	return f, err
}

// condition sets the header with the version that is to be changed.
func condition(h http.Header, version *uint64) {
	switch {
	case version == nil:
	case *version == 0:
		h.Set("If-None-Match", "*")
	default:
		h.Set("If-Match", `"`+strconv.FormatUint(*version, 10)+`"`)
	}
}

// A sent body ends the request when its reader fails, and when the VFS takes
// no more of it for too long.
type sent struct {
	r        io.Reader
	file     bool // r never waits for anything, and its user goes on with it afterwards
	cancel   context.CancelFunc
	patience time.Duration
	reading  sync.Mutex // held while r is read

	mu    sync.Mutex
	late  *time.Timer
	err   error // of the reader
	ended bool
}

// Read implements [io.Reader]. Between two reads the connection takes what the
// first one gave.
func (s *sent) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	if s.late != nil {
		s.late.Stop()
	}
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		s.err = protocol.Wrap(protocol.SyncFailed, err, "the content broke off")
	case !s.ended:
		s.late = time.AfterFunc(s.patience, s.cancel)
	}
	return n, err
}

// end returns the reader's error. A request may end before its body does: a file is not read
// any more then, while a reader that may wait for more may still be.
func (s *sent) end() error {
	s.mu.Lock()
	s.ended = true
	if s.late != nil {
		s.late.Stop()
	}
	s.mu.Unlock()
	if s.file {
		s.reading.Lock()
		defer s.reading.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late != nil {
		s.late.Stop()
	}
	return s.err
}

// Delete implements [vfs.Files]. It is never repeated.
func (c *Client) Delete(ctx context.Context, group, path string, ifVersion uint64) (vfs.File, error) {
	if err := check(group, path); err != nil {
		return vfs.File{}, err
	}
	g, p := c.there(group, path)
	request, err := c.request(ctx, http.MethodDelete, "delete", url.Values{"group_name": {g}, "path": {p}}, nil)
	if err != nil {
		return vfs.File{}, err
	}
	if ifVersion != 0 {
		condition(request.Header, &ifVersion)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return vfs.File{}, unavailable(err)
	}
	var answer struct {
		Success bool   `json:"success"`
		ID      string `json:"file_id"`
		Path    string `json:"path"`
		Version uint64 `json:"version"`
	}
	if err := c.decode(ctx, response, &answer); err != nil {
		return vfs.File{}, c.localize(group, err)
	}
	if !answer.Success || answer.Path != p || answer.ID == "" || answer.Version == 0 {
		return vfs.File{}, strange("no deletion")
	}
	return vfs.File{ID: answer.ID, Group: group, Path: path, Version: answer.Version, Deleted: true, Modified: time.Now().UTC()}, nil
}
