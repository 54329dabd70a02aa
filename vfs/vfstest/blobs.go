package vfstest

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Blobs are blobs in memory, named after their SHA-256.
type Blobs struct {
	mu    sync.Mutex
	blobs map[string]kept
}

type kept struct {
	data     []byte
	modified time.Time
}

// NewBlobs returns no blobs.
func NewBlobs() *Blobs { return &Blobs{blobs: make(map[string]kept)} }

// New implements [vfs.Blobs].
func (b *Blobs) New(context.Context) (vfs.Blob, error) { return &blob{blobs: b}, nil }

type blob struct {
	bytes.Buffer
	blobs *Blobs
}

// Commit implements [vfs.Blob].
func (w *blob) Commit(sum vfs.Sum) (string, error) {
	w.blobs.mu.Lock()
	defer w.blobs.mu.Unlock()
	w.blobs.blobs[sum.String()] = kept{w.Bytes(), time.Now()}
	return sum.String(), nil
}

// Abort implements [vfs.Blob].
func (w *blob) Abort() {}

// Open implements [vfs.Blobs].
func (b *Blobs) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ok := b.blobs[key]
	if !ok {
		return nil, protocol.Errorf(protocol.FileNotFound, "the content is lost")
	}
	return content{bytes.NewReader(k.data)}, nil
}

// Remove implements [vfs.Blobs].
func (b *Blobs) Remove(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.blobs, key)
	return nil
}

// All implements [vfs.Blobs].
func (b *Blobs) All(_ context.Context, yield func(key string, modified time.Time) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, k := range b.blobs {
		if !yield(key, k.modified) {
			break
		}
	}
	return nil
}

// Room implements [vfs.Blobs].
func (b *Blobs) Room() int64 { return -1 }
