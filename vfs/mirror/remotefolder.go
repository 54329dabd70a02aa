package mirror

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A RemoteFolder is a folder in a group of a VFS. It is a [Remote].
type RemoteFolder struct {
	files  vfs.Files
	group  string
	prefix string // ends in a slash, or is ""
}

// NewRemoteFolder is the folder of that name in a group; "" is the group itself.
func NewRemoteFolder(files vfs.Files, group, folder string) *RemoteFolder {
	if folder != "" {
		folder += "/"
	}
	return &RemoteFolder{files, group, folder}
}

func (p *RemoteFolder) file(f vfs.File) File {
	path, inside := strings.CutPrefix(f.Path, p.prefix)
	if !inside {
		path = "" // is refused as an answer to something else
	}
	return File{Path: path, Version: f.Version, Size: f.Size, SHA256: Sum(f.SHA256), Modified: f.Modified, Deleted: f.Deleted, Mtime: f.Mtime}
}

// Stat implements [Remote].
func (p *RemoteFolder) Stat(ctx context.Context, path string) (File, error) {
	f, err := p.files.Stat(ctx, p.group, p.prefix+path)
	if protocol.CodeOf(err) != protocol.FileNotFound {
		return p.file(f), err
	}
	// The tombstone, if there is one, is the first of those that begin so.
	list, _, listErr := p.files.List(ctx, p.group, p.prefix+path, "", 1, true)
	if listErr != nil {
		return File{}, listErr
	}
	if len(list) > 0 && list[0].Path == p.prefix+path && list[0].Deleted {
		return p.file(list[0]), nil
	}
	return File{}, err
}

// Open implements [Remote].
func (p *RemoteFolder) Open(ctx context.Context, path string, version uint64) (io.ReadSeekCloser, File, error) {
	r, f, err := p.files.Open(ctx, p.group, p.prefix+path, version)
	if err != nil {
		return nil, File{}, err
	}
	return r, p.file(f), nil
}

// Put implements [Remote].
func (p *RemoteFolder) Put(ctx context.Context, path string, body io.Reader, o PutOptions) (File, error) {
	f, err := p.files.Put(ctx, p.group, p.prefix+path, body, putOptions(o))
	return p.file(f), err
}

func putOptions(o PutOptions) vfs.PutOptions {
	version := o.IfVersion
	options := vfs.PutOptions{IfVersion: &version, Size: o.Size, Mtime: o.Mtime}
	if o.SHA256 != nil {
		sum := vfs.Sum(*o.SHA256)
		options.SHA256 = &sum
	}
	return options
}

// PutBatch implements [BatchPutter].
func (p *RemoteFolder) PutBatch(ctx context.Context, list []Small) (files []File, errs []error, err error) {
	batch := make([]vfs.Content, len(list))
	for i, small := range list {
		batch[i] = vfs.Content{Path: p.prefix + small.Path, Data: small.Content, PutOptions: putOptions(small.PutOptions)}
	}
	results, err := vfs.PutAll(ctx, p.files, p.group, batch)
	if err != nil {
		return nil, nil, err
	}
	files, errs = make([]File, len(results)), make([]error, len(results))
	for i, r := range results {
		files[i], errs[i] = p.file(r.File), r.Err
	}
	return files, errs, nil
}

// GetBatch implements [BatchGetter].
func (p *RemoteFolder) GetBatch(ctx context.Context, paths []string) ([]Whole, error) {
	there := make([]string, len(paths))
	for i, path := range paths {
		there[i] = p.prefix + path
	}
	found, err := vfs.GetAll(ctx, p.files, p.group, there)
	if err != nil {
		return nil, err
	}
	wholes := make([]Whole, len(found))
	for i, f := range found {
		wholes[i] = Whole{File: p.file(f.File), Content: f.Data, Err: f.Err}
	}
	return wholes, nil
}

// ChunkSize implements [Chunker].
func (p *RemoteFolder) ChunkSize() int { return vfs.ChunkSize }

// Chunks implements [Chunker].
func (p *RemoteFolder) Chunks(ctx context.Context, path string, version uint64) ([]Sum, error) {
	files, ok := p.files.(vfs.Chunked)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	found, err := files.Chunks(ctx, p.group, p.prefix+path, version)
	sums := make([]Sum, len(found))
	for i, sum := range found {
		sums[i] = Sum(sum)
	}
	return sums, err
}

// PutDelta implements [Chunker].
func (p *RemoteFolder) PutDelta(ctx context.Context, path string, delta vfs.Delta, changed io.Reader, o PutOptions) (File, error) {
	files, ok := p.files.(vfs.Chunked)
	if !ok {
		return File{}, errors.ErrUnsupported
	}
	f, err := files.PutDelta(ctx, p.group, p.prefix+path, delta, changed, putOptions(o))
	return p.file(f), err
}

// PutCopy implements [Copier].
func (p *RemoteFolder) PutCopy(ctx context.Context, path, from string, version uint64, o PutOptions) (File, error) {
	c, ok := p.files.(vfs.Copier)
	if !ok {
		return File{}, errors.ErrUnsupported
	}
	f, err := c.PutCopy(ctx, p.group, p.prefix+path, vfs.Source{Path: p.prefix + from, Version: version}, putOptions(o))
	return p.file(f), err
}

// Delete implements [Remote].
func (p *RemoteFolder) Delete(ctx context.Context, path string, ifVersion uint64) (File, error) {
	f, err := p.files.Delete(ctx, p.group, p.prefix+path, ifVersion)
	return p.file(f), err
}

// Below implements [Remote].
func (p *RemoteFolder) Below(ctx context.Context, folder string) (File, error) {
	list, _, err := p.files.List(ctx, p.group, p.prefix+folder+"/", "", 1, false)
	if err != nil {
		return File{}, err
	}
	if len(list) == 0 {
		return File{}, vfs.NoFile(p.group, folder+"/")
	}
	return p.file(list[0]), nil
}

// List implements [Remote].
func (p *RemoteFolder) List(ctx context.Context, cursor string, limit int) ([]File, string, error) {
	list, next, err := p.files.List(ctx, p.group, p.prefix, cursor, min(limit, vfs.MaxLimit), true)
	files := make([]File, len(list))
	for i, f := range list {
		files[i] = p.file(f)
	}
	return files, next, err
}

// Revision implements [Reviser].
func (p *RemoteFolder) Revision(ctx context.Context) (string, error) {
	if r, ok := p.files.(vfs.Reviser); ok {
		return r.Revision(ctx, p.group, p.prefix)
	}
	return "", nil
}

// Versions implements [Historian].
func (p *RemoteFolder) Versions(ctx context.Context, path string) ([]File, error) {
	h, ok := p.files.(vfs.Historian)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	list, err := h.Versions(ctx, p.group, p.prefix+path)
	files := make([]File, len(list))
	for i, f := range list {
		files[i] = p.file(f)
	}
	return files, err
}

// Instance implements [Instancer].
func (p *RemoteFolder) Instance(ctx context.Context) (string, error) {
	if i, ok := p.files.(Instancer); ok {
		return i.Instance(ctx)
	}
	return "", nil
}
