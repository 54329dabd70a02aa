package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A Sum is the SHA-256 of a file.
type Sum = [sha256.Size]byte

// A File is a version of a file in the VFS, or a tombstone.
type File struct {
	Path     string // relative to the place that is mirrored
	Version  uint64 // grows with every change of the path; a deletion is one
	Size     int64
	SHA256   Sum
	Modified time.Time // by the clock of the VFS
	Deleted  bool      // a tombstone: the file was deleted
	Mtime    int64     // when the content was changed last where it came from, Unix milliseconds; 0 if no writer said so
}

// PutOptions describe the new version.
type PutOptions struct {
	// IfVersion is the version the path must have; 0 asks that there is no
	// file. Else it is 3003.
	IfVersion uint64
	Size      int64 // -1 if not known before
	SHA256    *Sum  // the expected content; nil if not known before
	Mtime     int64 // when the file was changed last, Unix milliseconds
}

// A Remote is a place in a VFS: one folder of one group.
//
// Errors are of package protocol: 4003 for no file, 3003 for another version
// than expected, 4004 and 4005 for contents that may not or cannot be stored. Any
// other counts as the VFS not being there.
type Remote interface {
	// Stat looks a path up. A tombstone is no error.
	Stat(ctx context.Context, path string) (File, error)
	// Open reads a version; 0 is the latest.
	Open(ctx context.Context, path string, version uint64) (io.ReadSeekCloser, File, error)
	// Put stores a file and returns when it is durable.
	Put(ctx context.Context, path string, body io.Reader, o PutOptions) (File, error)
	// Delete leaves a tombstone if the path has the version, else 3003.
	Delete(ctx context.Context, path string, ifVersion uint64) (File, error)
	// Below looks for a file in a folder, or in a folder of it: any one that is
	// there; 4003 if there is none.
	Below(ctx context.Context, folder string) (File, error)
	// List returns files and tombstones in pages; the cursor of the first
	// page and after the last is "".
	List(ctx context.Context, cursor string, limit int) (files []File, next string, err error)
}

// A Small is a whole file on its way to the VFS.
type Small struct {
	Path    string
	Content []byte
	PutOptions
}

// A BatchPutter is a [Remote] that stores many small files at once. Each is
// stored or not for itself: errs has an error or nil for each.
type BatchPutter interface {
	PutBatch(ctx context.Context, list []Small) (files []File, errs []error, err error)
}

// A Whole is a file of the VFS with all of its content, or why it cannot be had.
type Whole struct {
	File
	Content []byte
	Err     error
}

// A BatchGetter is a [Remote] that hands out the latest versions of many small
// files at once, in the order of the paths. A file too large to come with the
// others is 1004.
type BatchGetter interface {
	GetBatch(ctx context.Context, paths []string) ([]Whole, error)
}

// An Instancer is a [Remote] that can tell itself from one that has lost
// everything and begun anew. The text is stable as long as versions are, ""
// if it cannot tell.
type Instancer interface {
	Instance(ctx context.Context) (string, error)
}

// A Reviser is a [Remote] that tells cheaply whether anything has changed: by
// a text that is another one after every change.
type Reviser interface {
	Revision(ctx context.Context) (string, error)
}

// A Chunker is a [Remote] that knows large files by the sums of chunks of a
// fixed size, so that only changed ones travel. The error is
// [errors.ErrUnsupported] if it cannot do that after all.
type Chunker interface {
	// ChunkSize is the size of the chunks, in bytes.
	ChunkSize() int
	// Chunks returns the sums of the chunks of a version.
	Chunks(ctx context.Context, path string, version uint64) ([]Sum, error)
	// PutDelta stores a file made of chunks of a version and of changed ones.
	// Size and SHA256 of the whole are given.
	PutDelta(ctx context.Context, path string, delta vfs.Delta, changed io.Reader, o PutOptions) (File, error)
}

// A Historian is a [Remote] that tells which versions of a file it keeps. The
// error is [errors.ErrUnsupported] if it cannot do that after all.
type Historian interface {
	// Versions lists them, the oldest first; 4003 if there is none.
	Versions(ctx context.Context, path string) ([]File, error)
}

// A Copier is a [Remote] that stores a file by naming a version of another that
// has the same content. A source that is not there is 4003. The error is
// [errors.ErrUnsupported] if it cannot do that after all.
type Copier interface {
	PutCopy(ctx context.Context, path, from string, version uint64, o PutOptions) (File, error)
}

// refusal is the reason why one file cannot be stored or read, while the VFS as such
// works.
func refusal(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.AlreadyExists, protocol.FileNotFound, protocol.NotFound,
		protocol.VFSPermission, protocol.PermissionDenied, protocol.NoSpace, protocol.SyncFailed,
		protocol.InvalidParameter, protocol.PayloadTooLarge, protocol.LimitReached, protocol.InvalidState:
		return true
	}
	return false
}

// unavailable reports whether an error says that the VFS is not there.
func unavailable(err error) bool {
	var fault *unavailableError
	return errors.As(err, &fault)
}

// stale reports whether the VFS has another version than was thought.
func stale(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.FileNotFound, protocol.NotFound:
		return true
	}
	return false
}
