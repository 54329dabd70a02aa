package vfs

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// A Source is a version of a file whose content another file is to have.
type Source struct {
	Group   string // "" for the group that is written to
	Path    string
	Version uint64
}

// in returns the group of the source of a file in another group.
func (s *Source) in(group string) string { return cmp.Or(s.Group, group) }

// A Copier is implemented by [Files] that make a version of content they have
// already, without reading it. The error is [errors.ErrUnsupported] if they
// cannot do it after all.
//
// A source is named by path and version, never by its checksum: a caller that may copy it
// may also read it, and knowing a checksum gives no right.
type Copier interface {
	// PutCopy makes the content of a version of a file another file's new version. A
	// missing source is 4003; a source that has another size or sum than announced,
	// or is damaged, is 4002.
	PutCopy(ctx context.Context, group, path string, from Source, o PutOptions) (File, error)
}

// PutCopy copies a file within the files, by reference if they can.
func PutCopy(ctx context.Context, files Files, group, path string, from Source, o PutOptions) (File, error) {
	if c, ok := files.(Copier); ok {
		if f, err := c.PutCopy(ctx, group, path, from, o); !errors.Is(err, errors.ErrUnsupported) {
			return f, err
		}
	}
	content, f, err := files.Open(ctx, from.in(group), from.Path, from.Version)
	if err != nil {
		return File{}, err
	}
	defer content.Close()
	if err := announced(f, o); err != nil {
		return File{}, err
	}
	return files.Put(ctx, group, path, io.Reader(content), o)
}

// announced refuses a source that differs from the announced one.
func announced(f File, o PutOptions) error {
	switch {
	case o.Size >= 0 && f.Size != o.Size:
		return BadContent(f.Path, "has another size than announced")
	case o.SHA256 != nil && f.SHA256 != *o.SHA256:
		return BadContent(f.Path, "has another checksum than announced")
	}
	return nil
}

// PutCopy implements [Copier].
func (s *Space) PutCopy(ctx context.Context, group, path string, from Source, o PutOptions) (File, error) {
	if err := s.checkPut(ctx, group, path, o, 0); err != nil {
		return File{}, err
	}
	c, unpin, err := s.hold(ctx, from.in(group), from, o)
	if err != nil {
		return File{}, err
	}
	defer unpin()
	w := &writing{Space: s, group: group, path: path, options: o, content: c}
	return w.run(ctx)
}

// hold finds the content of a version and keeps its blobs from being collected
// until unpin.
func (s *Space) hold(ctx context.Context, group string, from Source, o PutOptions) (c *received, unpin func(), err error) {
	r, v, unpin, err := s.pinned(ctx, group, from.Path, from.Version)
	if err != nil {
		return nil, nil, err
	}
	if err := announced(r.file(v), o); err != nil {
		unpin()
		return nil, nil, err
	}
	c = &received{size: v.Size, sum: v.SHA256}
	if v.Blob == "" {
		return c, unpin, nil
	}
	where := v.position()
	c.where = &where
	w := &writing{Space: s, content: c}
	if w.probeAt(ctx, where, make(sizes)); s.store.index.isBroken(where) {
		unpin()
		return nil, nil, BadContent(from.Path, "is damaged")
	}
	return c, unpin, nil
}

// PutCopy implements [Copier].
func (m mirror) PutCopy(ctx context.Context, group, path string, from Source, o PutOptions) (File, error) {
	files, err := m.files()
	if err != nil {
		return File{}, err
	}
	return PutCopy(ctx, files, group, path, from, o)
}

// PutCopy implements [Copier]. The source must be in a folder that the principal
// may see.
func (m *mirrorReader) PutCopy(ctx context.Context, group, path string, from Source, o PutOptions) (File, error) {
	if from.in(group) != MirrorGroup {
		return File{}, errors.ErrUnsupported // the source is none of these files
	}
	if err := m.may(from.Path); err != nil {
		return File{}, err
	}
	if err := m.mayWrite(path); err != nil {
		return File{}, err
	}
	return PutCopy(ctx, m.Files, group, path, from, o)
}
