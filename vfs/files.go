package vfs

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A File is one version of a file.
type File struct {
	ID    string // names the file through all its versions, also after it was deleted and put again
	Group string
	Path  string // relative, with slashes, as [CleanPath] allows
	// Version rises with every change of the file, its deletion included. Of
	// two versions in one space the later is the higher, so a version also
	// names a point in time (see [Snapshots]).
	Version     uint64
	Size        int64 // bytes
	SHA256      Sum
	Modified    time.Time // when the version was made, by the clock of the VFS
	Deleted     bool      // the version says that the file is gone; it has no content
	ContentType string    // as the writer said, "" if it did not
	// Mtime is the time when the content was changed last where it came from, in Unix
	// milliseconds, as the writer said; 0 if it did not.
	Mtime int64
}

// A Sum is the SHA-256 of a file's content, in text lower-case hexadecimal.
type Sum [32]byte

// String is the sum in lower-case hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sum) UnmarshalText(text []byte) error {
	parsed, err := ParseSum(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}

// ParseSum reads a SHA-256 of 64 hexadecimal digits, any case.
func ParseSum(text string) (Sum, error) {
	var s Sum
	if len(text) != hex.EncodedLen(len(s)) {
		return s, protocol.InvalidParam("checksum", "must be a SHA-256 of 64 hexadecimal digits")
	}
	if _, err := hex.Decode(s[:], []byte(text)); err != nil {
		return Sum{}, protocol.InvalidParam("checksum", "must be a SHA-256 of 64 hexadecimal digits")
	}
	return s, nil
}

// PutOptions say what a writer knows of the content it sends.
type PutOptions struct {
	// IfVersion is the version the file must have, 0 for a file that must not
	// be there; else 3003. Nil replaces any version.
	IfVersion *uint64
	// Size is the number of bytes to come, -1 if it is not known. Fewer or
	// more are refused with 4002.
	Size int64
	// SHA256 is the checksum the content must have, else 4002.
	SHA256 *Sum
	// ContentType is kept with the file, at most [MaxContentType] bytes of
	// visible ASCII.
	ContentType string
	// Mtime is the time when the content was changed last, in Unix milliseconds; 0 if
	// the writer does not say. Another time alone makes no new version.
	Mtime int64
}

// maxMtime bounds times: no JSON reader takes more for an integer.
const maxMtime = 1 << 53

// MaxContentType bounds a content type, in bytes.
const MaxContentType = 255

// Files are the files of all groups of one space. All methods may be called at
// the same time by many goroutines.
//
// Errors are of the protocol: 4001 when the VFS cannot be reached or does not
// answer in time (whether a change happened is then unknown), 4003 for a file
// that is not there, 4005 when there is no room, 3003 for another version than
// expected, 3002 for a path that another file is in the way of (details.twin
// names it, see [CleanPath]), 1001 for a group or path that cannot be, 1004
// for a file that is too large, 4002 for content that breaks off or differs from its
// announced size or sum, 4004 for access that the VFS does not permit.
type Files interface {
	// Stat describes the current version of a file. A deleted file is not
	// there.
	Stat(ctx context.Context, group, path string) (File, error)

	// Open opens a version of a file to read, 0 for the current one. Reading
	// fails with 4001 when the content cannot be had, and with 4002 if it is
	// damaged. The reader is for one goroutine and is to be closed; its reads
	// end with ctx.
	Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, File, error)

	// Put makes what r holds the file's new version, and returns when that is
	// durable. Until then, and after a failure, readers see the version before.
	// Content equal to the current version's makes no new version.
	Put(ctx context.Context, group, path string, r io.Reader, o PutOptions) (File, error)

	// Delete makes a version that says the file is gone, and returns it. For a
	// while, List yields it to callers that ask for deleted files; then it is
	// forgotten. IfVersion 0 is any version.
	Delete(ctx context.Context, group, path string, ifVersion uint64) (File, error)

	// List lists the files whose path begins with prefix, by path in the order
	// of bytes, at most limit of them (0 is [DefaultLimit]); next is the cursor of
	// the next page, "" at the end. A file that changes meanwhile may be listed as
	// it was or as it is; one that stays is never left out. With deleted, files
	// that were deleted are listed too.
	List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) (files []File, next string, err error)
}

// The bounds of a list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// A Content is one file of a [Batcher]'s batch.
type Content struct {
	Path string
	Data []byte
	PutOptions
}

// A Result is the outcome of one file of a batch: exactly one of both.
type Result struct {
	File File
	Err  error
}

// A Batcher is implemented by [Files] to which many small files are written
// quicker at once. The results are in the order of the batch; each file succeeds or
// fails by itself, as if it had been put alone. An error means that nothing at all
// was done.
type Batcher interface {
	PutBatch(ctx context.Context, group string, batch []Content) ([]Result, error)
}

// A Whole is a file with all of its content, or the error of reading it: exactly
// one of both.
type Whole struct {
	File File
	Data []byte
	Err  error
}

// A BatchGetter is implemented by [Files] from which many small files are read
// quicker at once. It reads the current versions, in the order of the paths,
// and checks the contents; each file succeeds or fails by itself. A file that does
// not fit into [MaxBatchBytes] with those before it is 1004. An error means that
// nothing at all was read.
type BatchGetter interface {
	GetBatch(ctx context.Context, group string, paths []string) ([]Whole, error)
}

// Limits of a batch.
const (
	MaxBatchFiles = 500
	MaxBatchBytes = 8 << 20
)

// Snapshots is implemented by [Files] that can show a group as it was.
type Snapshots interface {
	// Snapshot names this moment: every change that was acknowledged before
	// belongs to it, no change that begins later does.
	Snapshot(ctx context.Context, group string) (snapshot uint64, err error)

	// ListAt lists the files as they were at a snapshot, as List does; Open
	// reads them by their version. It fails with 4003 if versions that belong
	// to the snapshot are kept no more.
	ListAt(ctx context.Context, group, prefix string, snapshot uint64, cursor string, limit int) (files []File, next string, err error)
}

// Usage is the room, in bytes.
type Usage struct {
	Used  int64
	Total int64 // 0 if nothing bounds it
}

// A Meter is implemented by [Files] that know how much room there is.
type Meter interface {
	// Usage also tells whether the VFS can be reached: 4001 if not.
	Usage(ctx context.Context) (Usage, error)
}

// PutAll writes a batch, at once if files can.
func PutAll(ctx context.Context, files Files, group string, batch []Content) ([]Result, error) {
	if b, ok := files.(Batcher); ok {
		return b.PutBatch(ctx, group, batch)
	}
	results := make([]Result, len(batch))
	for i := range batch {
		results[i].File, results[i].Err = files.Put(ctx, group, batch[i].Path, bytes.NewReader(batch[i].Data), batch[i].PutOptions)
	}
	return results, nil
}

// GetAll reads files whole, at once if files can (see [BatchGetter]).
func GetAll(ctx context.Context, files Files, group string, paths []string) ([]Whole, error) {
	if len(paths) > MaxBatchFiles {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "a batch may have %d files", MaxBatchFiles)
	}
	if b, ok := files.(BatchGetter); ok {
		return b.GetBatch(ctx, group, paths)
	}
	wholes, room := make([]Whole, len(paths)), int64(MaxBatchBytes)
	for i, path := range paths {
		w := &wholes[i]
		w.File, w.Data, w.Err = getWhole(ctx, files, group, path, room)
		room -= int64(len(w.Data))
	}
	return wholes, nil
}

// getWhole reads a file that has at most as many bytes as there is room for,
// else 1004.
func getWhole(ctx context.Context, files Files, group, path string, room int64) (File, []byte, error) {
	r, f, err := files.Open(ctx, group, path, 0)
	if err != nil {
		return File{}, nil, err
	}
	defer r.Close()
	if f.Size > room {
		return f, nil, protocol.Errorf(protocol.PayloadTooLarge, "%q has %d bytes", path, f.Size).With("path", path)
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return File{}, nil, err
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF { // damage is reported at the end
		return File{}, nil, err
	}
	return f, data, nil
}
