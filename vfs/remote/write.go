package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
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

// put sends an upload, with what the query says beside the usual.
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
	body := &sent{r: r, cancel: cancel, patience: c.Patience}
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

// condition says which version is to be changed.
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
	cancel   context.CancelFunc
	patience time.Duration

	mu    sync.Mutex
	late  *time.Timer
	err   error // of the reader
	ended bool
}

// Read implements [io.Reader]. Between two reads the connection takes what the
// first one gave.
func (s *sent) Read(p []byte) (int, error) {
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

// end says what the reader failed with.
func (s *sent) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
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

// What one request of a batch may hold: the default limit of a bridge is 1 MiB.
const (
	batchBytes = 640 << 10
	batchFiles = 250
)

// PutBatch implements [vfs.Batcher]: small files go together in requests of
// vfs.sync.to, larger ones alone.
func (c *Client) PutBatch(ctx context.Context, group string, batch []vfs.Content) ([]vfs.Result, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return nil, err
	}
	if err := vfs.CheckBatch(batch); err != nil {
		return nil, err
	}
	results := make([]vfs.Result, len(batch))
	var some []int
	size := 0
	flush := func() {
		c.putSome(ctx, group, batch, some, results)
		some, size = nil, 0
	}
	for i := range batch {
		cost := len(batch[i].Data)*4/3 + len(batch[i].Path) + 512
		switch _, err := vfs.CleanPath(batch[i].Path); {
		case err != nil:
			results[i].Err = err
			continue
		case batch[i].Size >= 0 && batch[i].Size != int64(len(batch[i].Data)):
			results[i].Err = vfs.BadContent(batch[i].Path, "has another size than announced")
			continue
		case cost > batchBytes:
			flush()
			results[i].File, results[i].Err = c.Put(ctx, group, batch[i].Path, bytes.NewReader(batch[i].Data), batch[i].PutOptions)
			continue
		case size+cost > batchBytes || len(some) == batchFiles:
			flush()
		}
		some = append(some, i)
		size += cost
	}
	flush()
	return results, nil
}

// putSome writes some files of a batch in one request.
func (c *Client) putSome(ctx context.Context, group string, batch []vfs.Content, some []int, results []vfs.Result) {
	if len(some) == 0 {
		return
	}
	synced, err := c.syncTo(ctx, group, batch, some)
	if err == nil && len(synced) != len(some) {
		err = strange("another number of files than were sent")
	}
	for n, i := range some {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i].File, results[i].Err = c.result(group, &batch[i], &synced[n])
	}
}

// result is what the VFS says about one file of a batch.
func (c *Client) result(group string, sent *vfs.Content, s *vfs.SyncedFile) (vfs.File, error) {
	if s.Error != nil {
		return vfs.File{}, c.localize(group, translate(&protocol.Error{Code: s.Error.Code, Message: s.Error.Message}))
	}
	v := vfs.FileView{ID: s.ID, Path: s.Path, Version: s.Version, Checksum: s.Checksum, ContentType: sent.ContentType, Modified: time.Now().UnixMilli(), Mtime: s.Mtime}
	if s.Size != nil {
		v.Size = *s.Size
	}
	f, err := c.file(group, v)
	if err == nil && (s.Status != vfs.Synced || f.Path != sent.Path || f.Size != int64(len(sent.Data))) {
		err = strange("another file than was sent")
	}
	return f, err
}

func (c *Client) syncTo(ctx context.Context, group string, batch []vfs.Content, some []int) ([]vfs.SyncedFile, error) {
	g, _ := c.there(group, "")
	params := vfs.SyncToParams{Group: protocol.GroupName(g)}
	for _, i := range some {
		b := &batch[i]
		_, p := c.there(group, b.Path)
		file := vfs.SyncToFile{
			Path: p, Content: base64.StdEncoding.EncodeToString(b.Data), Encoding: "base64",
			Version: b.IfVersion, ContentType: b.ContentType, Mtime: b.Mtime,
		}
		if b.SHA256 != nil {
			file.Checksum = b.SHA256.String()
		}
		params.Files = append(params.Files, file)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	envelope := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Command: "vfs.sync.to",
		Params: raw, Metadata: protocol.Metadata{Timeout: protocol.DefaultTimeout},
	}
	request, err := c.request(ctx, http.MethodPost, "sync", nil, bytes.NewReader(envelope.Append(nil)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unavailable(err)
	}
	var answer struct {
		Result vfs.SyncResult `json:"result"`
	}
	if err := c.decode(ctx, response, &answer); err != nil {
		return nil, err
	}
	return answer.Result.Files, nil
}
