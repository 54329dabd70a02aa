package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// Blobs keep contents of files in an object bucket of NATS, where all bridges
// that share the NATS see them, and `nats object` too. An object is named
// anew each time and never changes, so that none is removed by one bridge
// while another puts the same content; NATS keeps its SHA-256.
type Blobs struct {
	store  *Store
	name   string // of the bucket
	bucket jetstream.ObjectStore
	sweeps sweeps
}

// OpenBlobs makes the bucket for contents of files if it is not there.
func (s *Store) OpenBlobs(ctx context.Context) (*Blobs, error) {
	return s.openBucket(ctx, "files", "contents of files")
}

func (s *Store) openBucket(ctx context.Context, kind, about string) (*Blobs, error) {
	js, err := jetstream.New(s.state.conn)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	name := s.options.Prefix + "-" + kind
	var bucket jetstream.ObjectStore
	err = insist(ctx, func(ctx context.Context) (err error) {
		bucket, err = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket:      name,
			Description: "AI Bridge: " + about,
			Storage:     jetstream.FileStorage,
			Replicas:    s.options.Replicas,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: make the bucket of blobs: %w", err)
	}
	return &Blobs{store: s, name: name, bucket: bucket}, nil
}

// Remove implements [vfs.Blobs].
func (b *Blobs) Remove(ctx context.Context, key string) error {
	if err := b.bucket.Delete(ctx, key); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return explainBlob(err)
	}
	return nil
}

// All implements [vfs.Blobs].
func (b *Blobs) All(ctx context.Context, yield func(key string, modified time.Time) bool) error {
	list, err := b.list(ctx)
	if err != nil {
		return explainBlob(err)
	}
	for _, o := range list {
		if !yield(o.Name, o.ModTime) {
			return nil
		}
	}
	return nil
}

func (b *Blobs) list(ctx context.Context) ([]*jetstream.ObjectInfo, error) {
	list, err := b.bucket.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	return list, err
}

// Room implements [vfs.Blobs]: NATS does not tell.
func (b *Blobs) Room() int64 { return -1 }

// jsNoRoom are the codes of JetStream for a stream, an account or a disk that
// is full.
var jsNoRoom = map[jetstream.ErrorCode]bool{10023: true, 10047: true, 10077: true}

func explainBlob(err error) error {
	var api *jetstream.APIError
	var refused *apiError
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, errChunkMissing):
		return protocol.Wrap(protocol.FileNotFound, err, "the content is lost")
	case errors.As(err, &api) && jsNoRoom[api.ErrorCode], errors.As(err, &refused) && jsNoRoom[jetstream.ErrorCode(refused.ErrCode)]:
		return protocol.Wrap(protocol.NoSpace, err, "no space left in the store")
	}
	return protocol.Wrap(protocol.VFSUnavailable, err, "the store of files does not answer")
}
