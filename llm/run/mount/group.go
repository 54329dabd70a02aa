package mount

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

// Group is the part of a group of the VFS that a mount needs. Errors are those of the
// protocol: 4003 for a missing file, 3003 for another version than expected.
type Group interface {
	Stat(ctx context.Context, path string) (GroupFile, error)
	Open(ctx context.Context, path string) (io.ReadCloser, GroupFile, error)
	// List lists files whose path begins with prefix, by path in the order of bytes;
	// next is the cursor of the next call, "" at the end.
	List(ctx context.Context, prefix, cursor string) (files []GroupFile, next string, err error)
	// Put stores data as the file's new version. IfVersion is the required current
	// version, 0 for no file, nil for any.
	Put(ctx context.Context, path string, data []byte, ifVersion *uint64) (GroupFile, error)
}

// A GroupFile is one version of a file in a group.
type GroupFile struct {
	Path    string
	Version uint64
	Size    int64
	SHA256  Sum
}

// NewGroup returns the file system of a group's files below prefix, a folder or "".
func NewGroup(g Group, prefix string) FS {
	if prefix != "" {
		prefix = strings.TrimSuffix(prefix, "/") + "/"
	}
	return &group{files: g, prefix: prefix}
}

type group struct {
	files  Group
	prefix string
}

// Stat implements [FS].
func (g *group) Stat(ctx context.Context, path string) (Info, error) {
	if path != "" {
		f, err := g.files.Stat(ctx, g.prefix+path)
		if err == nil {
			return Info{Path: path, Size: f.Size}, nil
		}
		if fault.CodeOf(err) != fault.NotFound {
			return Info{}, g.explain(err)
		}
		files, _, err := g.files.List(ctx, g.prefix+path+"/", "")
		if err != nil {
			return Info{}, g.explain(err)
		}
		if len(files) == 0 {
			return Info{}, notFound(path)
		}
	}
	return Info{Path: path, Dir: true}, nil
}

// Open implements [FS].
func (g *group) Open(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	if path == "" {
		return nil, Info{}, isFolder(path)
	}
	r, f, err := g.files.Open(ctx, g.prefix+path)
	if fault.CodeOf(err) == fault.NotFound {
		if info, err := g.Stat(ctx, path); err == nil && info.Dir {
			return nil, Info{}, isFolder(path)
		}
		return nil, Info{}, notFound(path)
	}
	if err != nil {
		return nil, Info{}, g.explain(err)
	}
	return &groupReader{r}, Info{Path: path, Size: f.Size}, nil
}

// groupReader translates the errors of reading.
type groupReader struct{ io.ReadCloser }

// Read implements [io.Reader].
func (r *groupReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fault.As(err)
	}
	return n, err
}

// explain converts an error to a fault, without the prefix of the mount.
func (g *group) explain(err error) error {
	e := *fault.As(err)
	switch protocol.CodeOf(err) {
	case protocol.InvalidParameter:
		e.Code = fault.Sandbox // not a valid path of the VFS
	case protocol.AlreadyExists:
		e.Code = fault.PreconditionFailed // equals another name on some systems
	}
	e.Details = nil
	if g.prefix != "" {
		e.Message = strings.ReplaceAll(e.Message, g.prefix, "")
	}
	return &e
}

// paths returns the paths of the files in a folder, relative to the mount.
func (g *group) paths(ctx context.Context, dir string) ([]string, error) {
	prefix := g.prefix
	if dir != "" {
		prefix += dir + "/"
	}
	var paths []string
	for cursor := ""; ; {
		files, next, err := g.files.List(ctx, prefix, cursor)
		if err != nil {
			return nil, g.explain(err)
		}
		for _, f := range files {
			path := strings.TrimPrefix(f.Path, g.prefix)
			if clean, reason := Clean(path); reason == "" && clean == path {
				paths = append(paths, path)
			}
		}
		if len(paths) > MaxFolder {
			return nil, tooManyNames()
		}
		if next == "" || next == cursor {
			return paths, nil
		}
		cursor = next
	}
}

// List implements [FS].
func (g *group) List(ctx context.Context, dir string, yield func(Info) bool) error {
	paths, err := g.paths(ctx, dir)
	if err != nil {
		return err
	}
	if len(paths) == 0 && dir != "" {
		if _, err := g.Stat(ctx, dir); err != nil {
			return err
		}
		return notFolder(dir)
	}
	for _, child := range children(dir, paths) {
		if !yield(child) {
			break
		}
	}
	return nil
}

// Walk implements [FS].
func (g *group) Walk(ctx context.Context, dir string, enter func(string) bool, yield func(Entry) bool) error {
	info, err := g.Stat(ctx, dir)
	if err != nil {
		return err
	}
	paths := []string{dir}
	if info.Dir {
		if paths, err = g.paths(ctx, dir); err != nil {
			return err
		}
	}
	f := folders{dir: dir, enter: enter}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.skips(path) {
			continue
		}
		read := func(ctx context.Context, buf []byte, limit int) ([]byte, error) {
			r, _, err := g.Open(ctx, path)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return readInto(r, buf, limit)
		}
		if !yield(Entry{Path: path, read: read}) {
			return nil
		}
	}
	return nil
}

// readInto reads at most limit bytes, into buf if they fit.
func readInto(r io.Reader, buf []byte, limit int) ([]byte, error) {
	b := bytes.NewBuffer(buf[:0])
	_, err := b.ReadFrom(io.LimitReader(r, int64(limit)))
	return b.Bytes(), err
}

// Write implements [FS]. The condition is checked on the version that is replaced, so
// no other write can come in between.
func (g *group) Write(ctx context.Context, path string, data []byte, o WriteOptions) error {
	var version *uint64
	if o.Absent || o.Match != nil {
		f, err := g.files.Stat(ctx, g.prefix+path)
		present := err == nil
		if err != nil && fault.CodeOf(err) != fault.NotFound {
			return g.explain(err)
		}
		if err := o.check(path, present, f.SHA256); err != nil {
			return err
		}
		version = &f.Version
		if !present {
			version = new(uint64)
		}
	}
	if _, err := g.files.Put(ctx, g.prefix+path, data, version); err != nil {
		if fault.CodeOf(err) == fault.PreconditionFailed {
			return fault.Errorf(fault.PreconditionFailed, "%s has changed", path)
		}
		return g.explain(err)
	}
	return nil
}

// appendTries is the greatest number of attempts to append to a file that others
// change.
const appendTries = 8

// Append implements [FS]: it makes a new version of the file.
func (g *group) Append(ctx context.Context, path string, data []byte) error {
	for try := 1; ; try++ {
		before, version, err := g.version(ctx, path)
		if err != nil {
			return err
		}
		_, err = g.files.Put(ctx, g.prefix+path, slices.Concat(before, data), &version)
		if err == nil || fault.CodeOf(err) != fault.PreconditionFailed || try == appendTries {
			return g.orNil(err)
		}
	}
}

func (g *group) orNil(err error) error {
	if err == nil {
		return nil
	}
	return g.explain(err)
}

// version reads a file and its version, 0 for a missing one.
func (g *group) version(ctx context.Context, path string) ([]byte, uint64, error) {
	r, f, err := g.files.Open(ctx, g.prefix+path)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return nil, 0, nil
	case err != nil:
		return nil, 0, g.explain(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return text, f.Version, g.orNil(err)
}
