package store

import (
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Add adds every blob to a backup, as a file of its key's name. Blobs that are
// removed meanwhile are left out.
func (b *Blobs) Add(ctx context.Context, w *FileWriter) error {
	var failed error
	err := b.All(ctx, func(key string, _ time.Time) bool {
		failed = b.add(ctx, w, key)
		return failed == nil
	})
	return errors.Join(err, failed)
}

func (b *Blobs) add(ctx context.Context, w *FileWriter, key string) error {
	content, err := b.Open(ctx, key)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer content.Close()
	return w.File(key, content)
}

// Check implements [FileTarget].
func (b *Blobs) Check(string) error { return nil }

// Empty implements [FileTarget].
func (b *Blobs) Empty(ctx context.Context) (bool, error) {
	empty := true
	err := b.All(ctx, func(string, time.Time) bool {
		empty = false
		return false
	})
	return empty, err
}

// Clear implements [FileTarget].
func (b *Blobs) Clear(ctx context.Context) error {
	var failed error
	err := b.All(ctx, func(key string, _ time.Time) bool {
		failed = b.Remove(ctx, key)
		return failed == nil
	})
	return errors.Join(err, failed)
}

// Folder implements [FileTarget]: there are none.
func (b *Blobs) Folder(context.Context, string) error { return nil }

// File implements [FileTarget]. The blob keeps its key, so that records that refer
// to it find it, even if it was kept in a folder.
func (b *Blobs) File(ctx context.Context, key string) (RestoredFile, error) {
	o, err := b.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	return restoredBlob{o}, nil
}

// Done implements [FileTarget]: NATS has confirmed each.
func (b *Blobs) Done(context.Context) error { return nil }

type restoredBlob struct{ *object }

// Commit implements [RestoredFile].
func (o restoredBlob) Commit() error {
	_, err := o.object.Commit(vfs.Sum{}) // which has its own
	return err
}
