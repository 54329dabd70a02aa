package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Stat implements [vfs.Files].
func (c *Client) Stat(ctx context.Context, group, path string) (vfs.File, error) {
	if err := check(group, path); err != nil {
		return vfs.File{}, err
	}
	return c.head(ctx, group, path, 0)
}

// head asks for the headers of a download.
func (c *Client) head(ctx context.Context, group, path string, version uint64) (vfs.File, error) {
	g, p := c.there(group, path)
	query := url.Values{"group_name": {g}, "path": {p}}
	if version != 0 {
		query.Set("version", strconv.FormatUint(version, 10))
	}
	response, err := c.ask(ctx, http.MethodHead, "download", query)
	if err != nil {
		return vfs.File{}, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound && version != 0:
		return vfs.File{}, vfs.NoVersion(path, version)
	case response.StatusCode == http.StatusNotFound:
		return vfs.File{}, vfs.NoFile(group, path)
	case response.StatusCode != http.StatusOK:
		return vfs.File{}, refusal(response.StatusCode, nil)
	case response.ContentLength < 0:
		return vfs.File{}, strange("a file without a size")
	}
	return c.described(group, path, response.Header, response.ContentLength)
}

// ByID implements [vfs.Finder].
func (c *Client) ByID(ctx context.Context, group, id string) (vfs.File, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return vfs.File{}, err
	}
	g, _ := c.there(group, "")
	response, err := c.ask(ctx, http.MethodHead, "download", url.Values{"group_name": {g}, "file_id": {id}})
	if err != nil {
		return vfs.File{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return vfs.File{}, refusal(response.StatusCode, nil)
	}
	there, err := url.PathUnescape(response.Header.Get("X-File-Path"))
	path, ok := c.here(group, there)
	if err != nil || !ok {
		return vfs.File{}, vfs.NoFile(group, id)
	}
	return c.described(group, path, response.Header, response.ContentLength)
}

// Open implements [vfs.Files]. A read that breaks off goes on where it was,
// with the same version.
func (c *Client) Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, vfs.File, error) {
	if err := check(group, path); err != nil {
		return nil, vfs.File{}, err
	}
	f, err := c.head(ctx, group, path, version)
	if err != nil {
		return nil, vfs.File{}, err
	}
	return &reader{ctx: ctx, client: c, file: f, hash: sha256.New()}, f, nil
}

// A reader reads one version of a remote file.
type reader struct {
	ctx    context.Context
	client *Client
	file   vfs.File
	offset int64
	body   io.ReadCloser // of the answer, at offset; nil if there is none yet
	in     io.Reader     // body, hurried
	fails  int           // in a row
	hash   hash.Hash     // of the bytes read, nil once the reader has jumped
	closed bool
}

// maxFails is the number of times in a row that a read may break off.
const maxFails = 3

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	for {
		switch {
		case r.closed:
			return 0, errors.New("vfs: read of a closed file")
		case len(p) == 0:
			return 0, nil
		case r.offset >= r.file.Size:
			return 0, r.verdict()
		}
		if r.body == nil {
			if err := r.connect(); err != nil {
				return 0, err
			}
		}
		n, err := r.in.Read(p[:min(int64(len(p)), r.file.Size-r.offset)])
		if n > 0 {
			r.offset += int64(n)
			r.fails = 0
			if r.hash != nil {
				r.hash.Write(p[:n])
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		r.drop()
		if r.fails++; r.fails >= maxFails || r.ctx.Err() != nil {
			return 0, unavailable(err)
		}
	}
}

// verdict is the end of the content.
func (r *reader) verdict() error {
	if r.hash != nil && r.offset == r.file.Size && vfs.Sum(r.hash.Sum(nil)) != r.file.SHA256 {
		return vfs.BadContent(r.file.Path, "is not what the remote VFS says it is")
	}
	return io.EOF
}

// connect requests the rest of the file.
func (r *reader) connect() error {
	g, p := r.client.there(r.file.Group, r.file.Path)
	request, err := r.client.request(r.ctx, http.MethodGet, "download",
		url.Values{"group_name": {g}, "path": {p}, "version": {strconv.FormatUint(r.file.Version, 10)}}, nil)
	if err != nil {
		return err
	}
	if r.offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.offset))
	}
	response, err := r.client.http.Do(request)
	if err != nil {
		return unavailable(err)
	}
	want := http.StatusOK
	if r.offset > 0 {
		want = http.StatusPartialContent
	}
	if response.StatusCode != want {
		err := r.client.decode(r.ctx, response, &struct{}{})
		if err == nil {
			err = strange("another range than asked for")
		}
		return err
	}
	if response.ContentLength != r.file.Size-r.offset || response.Header.Get("X-File-Version") != strconv.FormatUint(r.file.Version, 10) {
		_ = response.Body.Close()
		return strange("another file than asked for")
	}
	r.body = response.Body
	r.in = r.client.hurry(r.ctx, response.Body)
	return nil
}

func (r *reader) drop() {
	if r.body != nil {
		_ = r.body.Close()
		r.body, r.in = nil, nil
	}
}

// Seek implements [io.Seeker].
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.file.Size
	}
	if offset < 0 {
		return 0, errors.New("vfs: seek before the beginning")
	}
	if offset != r.offset {
		r.drop()
		r.offset, r.hash = offset, nil
		if offset == 0 {
			r.hash = sha256.New()
		}
	}
	return offset, nil
}

// Close implements [io.Closer].
func (r *reader) Close() error {
	r.closed = true
	r.drop()
	return nil
}

// listed is the answer to a list.
type listed struct {
	Success  bool           `json:"success"`
	Files    []vfs.FileView `json:"files"`
	Next     string         `json:"next_cursor"`
	Snapshot string         `json:"snapshot_id"`
	Revision string         `json:"revision"`
}

// List implements [vfs.Files].
func (c *Client) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]vfs.File, string, error) {
	extra := url.Values{}
	if deleted {
		extra.Set("deleted", "true")
	}
	return c.list(ctx, group, prefix, cursor, limit, extra)
}

// ListAt implements [vfs.Snapshots].
func (c *Client) ListAt(ctx context.Context, group, prefix string, snapshot uint64, cursor string, limit int) ([]vfs.File, string, error) {
	if snapshot == 0 {
		return nil, "", nil // before everything
	}
	return c.list(ctx, group, prefix, cursor, limit, url.Values{"snapshot_id": {strconv.FormatUint(snapshot, 10)}})
}

func (c *Client) list(ctx context.Context, group, prefix, cursor string, limit int, query url.Values) ([]vfs.File, string, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = vfs.DefaultLimit
	}
	limit = min(limit, vfs.MaxLimit)
	g, p := c.there(group, prefix)
	query.Set("group_name", g)
	query.Set("prefix", p)
	query.Set("limit", strconv.Itoa(limit))
	if cursor != "" {
		_, at := c.there(group, cursor)
		query.Set("cursor", at)
	}
	response, err := c.ask(ctx, http.MethodGet, "list", query)
	if err != nil {
		return nil, "", err
	}
	var answer listed
	if err := c.decode(ctx, response, &answer); err != nil {
		return nil, "", c.localize(group, err)
	}
	if !answer.Success || len(answer.Files) > limit {
		return nil, "", strange("no list")
	}
	files := make([]vfs.File, 0, len(answer.Files))
	for _, v := range answer.Files {
		f, err := c.file(group, v)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	return c.page(group, cursor, files, answer.Next)
}

// page checks that a list goes on, lest it never end.
func (c *Client) page(group, cursor string, files []vfs.File, next string) ([]vfs.File, string, error) {
	if next == "" {
		return files, "", nil
	}
	here, ok := c.here(group, next)
	if !ok || here <= cursor {
		return nil, "", strange("a list that goes round in circles")
	}
	return files, here, nil
}

// Revision implements [vfs.Reviser].
func (c *Client) Revision(ctx context.Context, group, prefix string) (string, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return "", err
	}
	g, p := c.there(group, prefix)
	response, err := c.ask(ctx, http.MethodGet, "list", url.Values{"group_name": {g}, "prefix": {p}, "limit": {"1"}, "revision": {""}})
	if err != nil {
		return "", err
	}
	var answer listed
	if err := c.decode(ctx, response, &answer); err != nil {
		return "", err
	}
	if !answer.Success || len(answer.Revision) > 256 {
		return "", strange("no list")
	}
	return answer.Revision, nil
}

// Snapshot implements [vfs.Snapshots].
func (c *Client) Snapshot(ctx context.Context, group string) (uint64, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return 0, err
	}
	g, _ := c.there(group, "")
	response, err := c.ask(ctx, http.MethodGet, "list", url.Values{"group_name": {g}, "limit": {"1"}, "snapshot": {""}})
	if err != nil {
		return 0, err
	}
	var answer listed
	if err := c.decode(ctx, response, &answer); err != nil {
		return 0, err
	}
	snapshot, err := strconv.ParseUint(answer.Snapshot, 10, 64)
	if err != nil {
		return 0, protocol.Errorf(protocol.SyncFailed, "the remote VFS keeps no snapshots")
	}
	return snapshot, nil
}

// Usage implements [vfs.Meter].
func (c *Client) Usage(ctx context.Context) (vfs.Usage, error) {
	response, err := c.ask(ctx, http.MethodGet, "health", nil)
	if err != nil {
		return vfs.Usage{}, err
	}
	var answer struct {
		Status  string `json:"status"`
		Details struct {
			Used  int64 `json:"storage_used_bytes"`
			Total int64 `json:"storage_total_bytes"`
		} `json:"details"`
	}
	if err := c.decode(ctx, response, &answer); err != nil {
		return vfs.Usage{}, err
	}
	if answer.Status != "healthy" {
		return vfs.Usage{}, unavailable(nil)
	}
	return vfs.Usage{Used: max(0, answer.Details.Used), Total: max(0, answer.Details.Total)}, nil
}
