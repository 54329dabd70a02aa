package vfs

import (
	"context"
	"io"
	"time"
)

// Blobs keep contents, each under a key that the blobs choose. A blob never
// changes, and is there as a whole or not at all.
//
// Errors that callers may see are errors of the protocol: 4005 when the disk is
// full, 4001 when the blobs cannot be reached, 4003 for a key that holds nothing.
type Blobs interface {
	// New begins a blob. It is invisible until it is committed.
	New(ctx context.Context) (Blob, error)
	// Open opens a blob to read.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Remove removes a blob; one that is not there is no error.
	Remove(ctx context.Context, key string) error
	// All yields every blob.
	All(ctx context.Context, yield func(key string, modified time.Time) bool) error
	// Room is the number of bytes that could be written, -1 if that is unknown.
	Room() int64
}

// A Sweeper is implemented by [Blobs] in which a crash can leave parts of
// blobs that were never committed, beside those that others are writing.
type Sweeper interface {
	// Sweep removes such parts if nothing was added to their blob after before, nor
	// since an earlier round of which a live writer would have added something. A
	// round does a bounded part of the work.
	Sweep(ctx context.Context, before time.Time) (blobs int, err error)
}

// A Blob is one being written. It ends with Commit or with Abort, after which
// Abort does nothing.
type Blob interface {
	io.Writer
	// Commit returns when the blob is durable. Its content has the given sum.
	// Committing contents that are there already is no error.
	Commit(sum Sum) (key string, err error)
	Abort()
}
