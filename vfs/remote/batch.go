package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Bounds of one request of a batch: the default limit of a bridge is 1 MiB.
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

// result is the VFS's answer about one file of a batch.
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
	return c.run(ctx, "vfs.sync.to", params)
}

// GetBatch implements [vfs.BatchGetter]: as many files as fit come with each
// answer to vfs.sync.from. The answer lacks the times of the versions.
func (c *Client) GetBatch(ctx context.Context, group string, paths []string) ([]vfs.Whole, error) {
	if err := vfs.CheckGroup(group); err != nil {
		return nil, err
	}
	if len(paths) > vfs.MaxBatchFiles {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "a batch may have %d files", vfs.MaxBatchFiles)
	}
	wholes := make([]vfs.Whole, len(paths))
	var todo []int
	for i, path := range paths {
		if _, err := vfs.CleanPath(path); err != nil {
			wholes[i].Err = err
			continue
		}
		todo = append(todo, i)
	}
	for room := vfs.MaxBatchBytes; len(todo) > 0; {
		some := todo[:min(len(todo), batchFiles)]
		left, err := c.getSome(ctx, group, paths, some, wholes, &room)
		if err != nil { // perhaps the VFS has no such command
			for _, i := range todo {
				wholes[i].Err = err
			}
			break
		}
		if len(left) == len(some) {
			left = nil // each of them is too large
		}
		todo = append(left, todo[len(some):]...)
	}
	return wholes, nil
}

// getSome reads some files of a batch in one request, and lists those that did
// not fit into the answer but may fit into the next.
func (c *Client) getSome(ctx context.Context, group string, paths []string, some []int, wholes []vfs.Whole, room *int) (left []int, err error) {
	g, _ := c.there(group, "")
	params := vfs.SyncFromParams{Group: protocol.GroupName(g)}
	for _, i := range some {
		_, p := c.there(group, paths[i])
		params.Files = append(params.Files, p)
	}
	synced, err := c.run(ctx, "vfs.sync.from", params)
	if err == nil && len(synced) != len(some) {
		err = strange("another number of files than were asked for")
	}
	if err != nil {
		return nil, err
	}
	for n, i := range some {
		wholes[i] = c.whole(group, paths[i], &synced[n])
		if *room -= len(wholes[i].Data); *room < 0 {
			wholes[i] = tooLarge(paths[i])
		}
		if synced[n].Status == vfs.TooLarge && *room > 0 {
			left = append(left, i)
		}
	}
	return left, nil
}

func tooLarge(path string) vfs.Whole {
	return vfs.Whole{Err: protocol.Errorf(protocol.PayloadTooLarge, "%q is too large to be read with others", path).With("path", path)}
}

// whole is the VFS's answer about one file of a batch, with its content.
func (c *Client) whole(group, path string, s *vfs.SyncedFile) vfs.Whole {
	switch {
	case s.Status == vfs.TooLarge:
		return tooLarge(path)
	case s.Error != nil:
		return vfs.Whole{Err: c.localize(group, translate(&protocol.Error{Code: s.Error.Code, Message: s.Error.Message}))}
	case s.Status != vfs.Synced || s.Content == nil || s.Size == nil:
		return vfs.Whole{Err: strange("a file without its content")}
	}
	data := []byte(*s.Content)
	if s.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*s.Content); err != nil {
			return vfs.Whole{Err: strange("a file that is not base64")}
		}
	}
	f, err := c.file(group, vfs.FileView{ID: s.ID, Path: s.Path, Version: s.Version, Checksum: s.Checksum, Size: *s.Size, Mtime: s.Mtime})
	switch {
	case err != nil:
		return vfs.Whole{Err: err}
	case f.Path != path || f.Size != int64(len(data)):
		return vfs.Whole{Err: strange("another file than was asked for")}
	case vfs.Sum(sha256.Sum256(data)) != f.SHA256:
		return vfs.Whole{Err: vfs.BadContent(path, "is not what the remote VFS says it is")}
	}
	return vfs.Whole{File: f, Data: data}
}

// run has the VFS run one of the commands that sync files.
func (c *Client) run(ctx context.Context, command string, params any) ([]vfs.SyncedFile, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	envelope := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Command: command,
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
