package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// maxChunks bounds the chunks of a file whose sums are asked for: 64 GiB.
const maxChunks = 64 << 30 / vfs.ChunkSize

// Chunks implements [vfs.Chunked]. A VFS that knows nothing of chunks answers
// in some way or other that is not sums of them.
func (c *Client) Chunks(ctx context.Context, group, path string, version uint64) ([]vfs.Sum, error) {
	if err := check(group, path); err != nil {
		return nil, err
	}
	g, p := c.there(group, path)
	query := url.Values{"group_name": {g}, "path": {p}}
	if version != 0 {
		query.Set("version", strconv.FormatUint(version, 10))
	}
	response, err := c.ask(ctx, http.MethodGet, "chunks", query)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	const size = int64(len(vfs.Sum{}))
	length := response.ContentLength
	known := response.StatusCode == http.StatusOK && response.Header.Get("X-Chunk-Size") == strconv.Itoa(vfs.ChunkSize) &&
		length >= 0 && length%size == 0 && length/size <= maxChunks
	if !known || version != 0 && response.Header.Get("X-File-Version") != strconv.FormatUint(version, 10) {
		return nil, errors.ErrUnsupported
	}
	sums := make([]vfs.Sum, 0, min(length/size, 1<<16))
	in := c.hurry(ctx, response.Body)
	for range length / size {
		var sum vfs.Sum
		if _, err := io.ReadFull(in, sum[:]); err != nil {
			return nil, unavailable(err)
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

// PutCopy implements [vfs.Copier]. A VFS that knows nothing of copies misses the
// content, with 4002.
func (c *Client) PutCopy(ctx context.Context, group, path string, from vfs.Source, o vfs.PutOptions) (vfs.File, error) {
	if from.Group != "" && from.Group != group {
		return vfs.File{}, errors.ErrUnsupported // the interface copies within a group
	}
	if err := errors.Join(check(group, path), check(group, from.Path)); err != nil {
		return vfs.File{}, err
	}
	if o.Size <= 0 || o.SHA256 == nil {
		return vfs.File{}, errors.ErrUnsupported // an empty file would be taken for the content
	}
	_, p := c.there(group, from.Path)
	return c.put(ctx, group, path, http.NoBody, o, url.Values{"copy_of": {p}, "copy_version": {strconv.FormatUint(from.Version, 10)}})
}

// PutDelta implements [vfs.Chunked].
func (c *Client) PutDelta(ctx context.Context, group, path string, delta vfs.Delta, r io.Reader, o vfs.PutOptions) (vfs.File, error) {
	if err := check(group, path); err != nil {
		return vfs.File{}, err
	}
	if o.Size < 0 || o.SHA256 == nil || len(delta.Keep) == 0 {
		return vfs.File{}, protocol.InvalidParam("keep", "needs chunks to keep, and the size and checksum of the whole")
	}
	return c.put(ctx, group, path, r, o, url.Values{"base": {strconv.FormatUint(delta.Base, 10)}, "keep": {delta.String()}})
}
