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
	Size int64  // bytes of a file
	Dir  bool
}

// FS are the files of one mount. Paths are as [Mounts.Resolve] gives them:
// relative, clean, with slashes; "" is the root. All methods may be called at
// the same time. Errors are of package fault: ENOENT for what is not there,
// E_SANDBOX_VIOLATION for what leads out or is no plain file.
//
// Links, devices and names that no path can have are never listed.
type FS interface {
	// Stat describes a file or folder.
	Stat(ctx context.Context, path string) (Info, error)

	// Open opens a file to read. Reading ends with ctx.
	Open(ctx context.Context, path string) (io.ReadCloser, Info, error)

	// List yields the direct children of a folder, by name in the order of
	// bytes, until yield says no.
	List(ctx context.Context, dir string, yield func(Info) bool) error

	// Walk yields all files below a folder, or the file itself, in the order
	// of bytes of each folder's names, until yield says no. Enter is asked
	// about every folder on the way; nil enters all.
	Walk(ctx context.Context, dir string, enter func(path string) bool, yield func(Info) bool) error

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
