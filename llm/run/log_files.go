package run

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// made applies a change of a file, and returns the pieces that it has replaced.
func (b *logBook) made(p piece) (replaced []piece) {
	if p.op == opAppend {
		b.files[p.path] = append(b.files[p.path], p)
		return nil
	}
	replaced = b.files[p.path]
	b.files[p.path] = []piece{p}
	return replaced
}

// content is the content of a file.
func (b *logBook) content(ctx context.Context, path string) ([]byte, error) {
	pieces, ok := b.files[path]
	if !ok {
		return nil, fault.Errorf(fault.NotFound, "%s is not there", path)
	}
	var whole []byte
	for _, p := range pieces {
		data := p.data
		if p.op == opBlob {
			sealed, err := b.blobs.Get(ctx, string(p.data))
			if err != nil {
				return nil, err
			}
			if data, err = b.sealer.Open(sealed, string(p.data)); err != nil {
				return nil, err
			}
		}
		whole = append(whole, data...)
	}
	return whole, nil
}

// state rebuilds the run's folder from the log.
func (b *logBook) state(ctx context.Context) (mount.FS, error) {
	if err := os.RemoveAll(b.of(b.id)); err != nil {
		return nil, err
	}
	if err := b.folders.make(b.id); err != nil {
		return nil, err
	}
	folder, err := mount.OpenCopy(b.stateOf(b.id))
	if err != nil {
		return nil, err
	}
	for path := range b.files {
		data, err := b.content(ctx, path)
		if err == nil {
			err = folder.Write(ctx, path, data, mount.WriteOptions{})
		}
		if err != nil {
			return nil, errors.Join(err, folder.Close())
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, pieces := range b.files { // their content is on the disk now
		b.files[path] = onlyBlobs(pieces)
	}
	return &loggedFolder{folder, b}, nil
}

// onlyBlobs returns the pieces with blobs, which must be removed later.
func onlyBlobs(pieces []piece) []piece {
	return slices.DeleteFunc(pieces, func(p piece) bool { return p.op != opBlob })
}

// change records a change of a file, to be stored with the next entry of the diary.
func (b *logBook) change(p piece) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return b.lost
	}
	if p.op != opAppend { // it replaces earlier changes of the same turn
		b.changes = slices.DeleteFunc(b.changes, func(c piece) bool {
			if c.path != p.path {
				return false
			}
			b.dropped = append(b.dropped, onlyBlobs([]piece{c})...)
			return true
		})
	}
	b.changes = append(b.changes, p)
	b.dropped = append(b.dropped, onlyBlobs(b.made(p))...)
	b.files[p.path] = onlyBlobs(b.files[p.path])
	return nil
}

// A loggedFolder is the @state of a run whose changes go into its log.
type loggedFolder struct {
	*mount.Folder
	book *logBook
}

// maxInline is the greatest size of a file in the log itself, in bytes; larger ones are
// blobs.
const maxInline = 16 << 10

// Write implements [mount.FS].
func (f *loggedFolder) Write(ctx context.Context, path string, data []byte, o mount.WriteOptions) error {
	p := piece{op: opWrite, path: path, data: slices.Clone(data)}
	if len(data) > maxInline {
		var err error
		if p, err = f.book.blob(ctx, path, data); err != nil {
			return err
		}
	}
	err := f.Folder.Write(ctx, path, data, o)
	if err == nil {
		err = f.book.change(p)
	}
	if err != nil {
		f.book.drop(ctx, []piece{p})
	}
	return err
}

// blob stores the data of a write as a blob.
func (b *logBook) blob(ctx context.Context, path string, data []byte) (piece, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return piece{}, err
	}
	name := runBlob(b.id) + id.String()
	sealed, err := b.sealer.Seal(data, name)
	if err == nil {
		err = b.blobs.Put(ctx, name, sealed)
	}
	return piece{op: opBlob, path: path, data: []byte(name)}, err
}

// Append implements [mount.FS].
func (f *loggedFolder) Append(ctx context.Context, path string, data []byte) error {
	if err := f.Folder.Append(ctx, path, data); err != nil {
		return err
	}
	return f.book.change(piece{op: opAppend, path: path, data: slices.Clone(data)})
}

// Names of blobs.
const (
	runBlobs     = "run/"
	packageBlobs = "package/"
)

// runBlob is the common prefix of the names of a run's blobs.
func runBlob(id string) string { return runBlobs + id + "/" }
