// Package mount is all that a run sees of files: three mounts, @project,
// @pkg and @state, each backed by a local folder, a group of the VFS or a
// package in memory. Nothing else exists for a run, and nothing that a mount
// says names a place outside it.
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
	Size int64  // bytes of a file; lists do not tell
	Dir  bool
}

// An Entry is a file that a walk came upon.
type Entry struct {
	Path string
	read func(ctx context.Context, buf []byte, limit int) ([]byte, error)
}

// Read reads the file into buf, or what replaces it when that is too small, at
// most limit bytes.
func (e Entry) Read(ctx context.Context, buf []byte, limit int) ([]byte, error) {
	return e.read(ctx, buf, limit)
}

// FS are the files of one mount. Paths are as [Mounts.Resolve] gives them:
// relative, clean, with slashes; "" is the root. All methods may be called at
// the same time. Errors are of package fault: ENOENT for a missing file,
// E_SANDBOX_VIOLATION for what leads out or is no plain file.
//
// Links, devices and names that no path can have are never listed. A link is
// followed when it is read through, as long as it stays in the mount; it is
// never written to.
type FS interface {
	// Stat describes a file or folder.
	Stat(ctx context.Context, path string) (Info, error)

	// Open opens a file to read. Reading ends with ctx.
	Open(ctx context.Context, path string) (io.ReadCloser, Info, error)

	// List yields the direct children of a folder, by name in the order of
	// bytes, until yield says no.
	List(ctx context.Context, dir string, yield func(Info) bool) error

	// Walk yields all files below a folder, or the file itself, always in the
	// same order, until yield says no. Enter is asked about the folders on the
	// way. What vanishes meanwhile is left out.
	Walk(ctx context.Context, dir string, enter func(path string) bool, yield func(Entry) bool) error

	// Write makes data the content of a file, and its folders, at once: others
	// see the content before or this one, and so does a reader after a crash.
	Write(ctx context.Context, path string, data []byte, o WriteOptions) error

	// Append adds data at the end of a file, which is made if need be.
	Append(ctx context.Context, path string, data []byte) error
}

// WriteOptions say what must be there before a write; else it fails with
// E_PRECONDITION_FAILED and changes nothing.
type WriteOptions struct {
	Match  *Sum // the content before
	Absent bool // no file must be there
}

// check compares the present contents, if any, with the expected.
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

// MaxFolder bounds how many names of one folder, and how many files of one
// group, are looked at.
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

// SumReader reads to the end, and gives the sum and the number of bytes.
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
