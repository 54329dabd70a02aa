// Package mount is the file system of a run: three mounts, @project, @pkg and @state,
// each backed by a local folder, a group of the VFS or a package in memory. A run has
// no other files, and neither results nor errors of a mount name a place outside it.
package mount

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Sum is the SHA-256 of a file's content, in text lower-case hexadecimal.
type Sum [sha256.Size]byte

// SumOf is the sum of a content.
func SumOf(data []byte) Sum { return sha256.Sum256(data) }

// String is the sum in lower-case hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// An Info describes a file or a folder.
type Info struct {
	Path string // below its mount, with slashes, "" for the mount itself
	Size int64  // bytes of a file; 0 in lists
	Dir  bool
}

// An Entry is a file of a walk.
type Entry struct {
	Path string
	read func(ctx context.Context, buf []byte, limit int) ([]byte, error)
}

// Read reads at most limit bytes of the file into buf, or into a larger buffer if buf
// is too small, and returns them.
func (e Entry) Read(ctx context.Context, buf []byte, limit int) ([]byte, error) {
	return e.read(ctx, buf, limit)
}

// FS is the file system of one mount. Paths are those of [Mounts.Resolve]: relative,
// clean, with slashes; "" is the root. Methods are safe for concurrent use. Errors are
// those of package fault: ENOENT for a missing file, E_SANDBOX_VIOLATION for a path
// that leads out of the mount or is no plain file.
//
// Links, devices and names that no path can have are never listed. Reads follow a link
// that stays in the mount; writes follow none.
type FS interface {
	// Stat describes a file or folder.
	Stat(ctx context.Context, path string) (Info, error)

	// Open opens a file for reading. Reads fail once ctx ends.
	Open(ctx context.Context, path string) (io.ReadCloser, Info, error)

	// List yields the direct children of a folder, by name in the order of bytes, until
	// yield reports false.
	List(ctx context.Context, dir string, yield func(Info) bool) error

	// Walk yields all files below a folder, or the file itself, always in the same
	// order, until yield reports false. Enter decides about each folder on the way.
	// Files that are removed meanwhile are left out.
	Walk(ctx context.Context, dir string, enter func(path string) bool, yield func(Entry) bool) error

	// Write replaces the content of a file atomically, also in a crash: readers see the
	// old content or the new one. It makes missing folders.
	Write(ctx context.Context, path string, data []byte, o WriteOptions) error

	// Append adds data at the end of a file, and creates the file if it is missing.
	Append(ctx context.Context, path string, data []byte) error
}

// WriteOptions are the preconditions of a write. If one is not met, the write fails
// with E_PRECONDITION_FAILED and changes nothing.
type WriteOptions struct {
	Match  *Sum // sum of the current content
	Absent bool // there must be no file
}

// check checks the preconditions against the current content, if any.
func (o WriteOptions) check(path string, present bool, sum Sum) error {
	switch {
	case o.Absent && present:
		return fault.Errorf(fault.PreconditionFailed, "%s is there already", path).With("sha256", sum.String())
	case o.Match != nil && !present:
		return fault.Errorf(fault.PreconditionFailed, "%s is not there", path)
	case o.Match != nil && *o.Match != sum:
		return fault.Errorf(fault.PreconditionFailed, "%s has changed", path).With("sha256", sum.String())
	}
	return nil
}

// MaxFolder is the greatest number of names of one folder, or of files of one group, in
// a list.
const MaxFolder = 100_000

func notFound(path string) error {
	return fault.Errorf(fault.NotFound, "there is no %s", nameOf(path)).With("path", path)
}

func isFolder(path string) error {
	return fault.Errorf(fault.NotFound, "%s is a folder, not a file", nameOf(path)).With("path", path)
}

func nameOf(path string) string {
	if path == "" {
		return "such folder"
	}
	return strconv.Quote(path)
}

func tooManyNames() error {
	return fault.Errorf(fault.ReadLimit, "the folder holds more than %d names", MaxFolder)
}

// SumReader reads to the end, and returns the sum and the number of bytes.
func SumReader(r io.Reader) (sum Sum, n int64, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	h.Sum(sum[:0])
	return sum, n, err
}

// ParseSum reads a sum of 64 hexadecimal digits.
func ParseSum(text string) (sum Sum, ok bool) {
	if len(text) != hex.EncodedLen(len(sum)) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil
}
