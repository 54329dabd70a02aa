package vfs

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Change puts a record in place of the one with the given revision, 0 for a
// key that holds nothing.
type Change struct {
	Key      string
	Record   *Record
	Revision uint64
}

// A Record is the store's record of a file: its versions, and where their
// contents are.
type Record struct {
	Space    protocol.SpaceID `json:"space"`
	Group    string           `json:"group"`
	Path     string           `json:"path"`
	ID       string           `json:"id"`
	First    uint64           `json:"first"`    // version
	Versions []Version        `json:"versions"` // that are kept, oldest first, at least one
	// Upload is the upload whose content this is, as far as it has come; nil of files.
	Upload *Resumable `json:"upload,omitempty"`
}

// A Version is one version in a record.
type Version struct {
	Number   uint64 `json:"n"`
	Size     int64  `json:"size,omitempty"`
	SHA256   Sum    `json:"sha256,omitzero"`
	Modified int64  `json:"at"` // Unix ms
	Deleted  bool   `json:"deleted,omitempty"`
	Type     string `json:"type,omitempty"`
	Mtime    int64  `json:"mtime,omitempty"` // Unix ms, as the writer said
	// Blob is the key of the blob that has the content, which begins at
	// Offset: small contents share a blob. Empty content has none.
	Blob   string `json:"blob,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// List says where the list of the chunks of a large content is, nil if it
	// has none. It is shared and never changed.
	List *ListRef `json:"list,omitempty"`
	// Damaged is the number that a version would have got when the content
	// was found to be damaged, 0 if it never was.
	Damaged uint64 `json:"damaged,omitempty"`
}

// A blobPosition is the place of a content in the blobs.
type blobPosition struct {
	blob   string
	offset int64
	list   *ListRef
}

// position is the place of the content of a version.
func (v *Version) position() blobPosition { return blobPosition{v.Blob, v.Offset, v.List} }

// blobs yields the blobs in which a content is, none for an empty one.
func (p blobPosition) blobs() iter.Seq[string] {
	return func(yield func(string) bool) {
		if p.blob == "" || !yield(p.blob) || p.list == nil {
			return
		}
		for i := range p.list.Shared {
			if !yield(p.list.Shared[i].Blob) {
				return
			}
		}
	}
}

// same reports whether two places are one.
func (p blobPosition) same(other blobPosition) bool {
	return p.blob == other.blob && p.offset == other.offset
}

// Schema implements records.Versioned. A bridge that knows nothing of shared
// blobs would collect them, so it must not go on with a record that names some.
func (r *Record) Schema() int {
	for i := range r.Versions {
		if l := r.Versions[i].List; l != nil && l.Apart {
			return 2
		}
	}
	return 1
}

// recordKey is the key of a file's record. Paths are longer than keys may be.
func recordKey(space protocol.SpaceID, group, path string) string {
	sum := sha256.Sum256([]byte(group + "\x00" + path))
	return string(space) + "/" + hex.EncodeToString(sum[:20])
}

func (r *Record) key() string { return recordKey(r.Space, r.Group, r.Path) }

// current is the newest version.
func (r *Record) current() *Version { return &r.Versions[len(r.Versions)-1] }

// live reports whether the file is there.
func (r *Record) live() bool { return !r.current().Deleted }

// at is the kept version with a number, nil if there is none.
func (r *Record) at(number uint64) *Version {
	for i := range r.Versions {
		if r.Versions[i].Number == number {
			return &r.Versions[i]
		}
	}
	return nil
}

// asOf is the version that was current at a snapshot, nil if there was none;
// ok is false if it is kept no more.
func (r *Record) asOf(snapshot uint64) (v *Version, ok bool) {
	for i := len(r.Versions) - 1; i >= 0; i-- {
		if r.Versions[i].Number <= snapshot {
			return &r.Versions[i], true
		}
	}
	return nil, r.First > snapshot
}

// bytes is the size of all kept versions together.
func (r *Record) bytes() (n int64) {
	if r == nil {
		return 0
	}
	for i := range r.Versions {
		n += r.Versions[i].Size
	}
	return n
}

// file describes a version.
func (r *Record) file(v *Version) File {
	return File{
		ID: r.ID, Group: r.Group, Path: r.Path, Version: v.Number, Size: v.Size, SHA256: v.SHA256,
		Modified: time.UnixMilli(v.Modified).UTC(), Deleted: v.Deleted, ContentType: v.Type, Mtime: v.Mtime,
	}
}

// with is the record with one more version and no more than keep of them.
func (r *Record) with(v Version, keep int) *Record {
	next := *r
	first := max(0, len(r.Versions)+1-keep)
	next.Versions = append(append(make([]Version, 0, len(r.Versions)+1-first), r.Versions[first:]...), v)
	return &next
}
