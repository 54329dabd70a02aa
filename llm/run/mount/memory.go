package mount

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// memory holds files that never change, such as those of a package.
type memory struct {
	files map[string][]byte
	paths []string // sorted
}

// Memory returns a read-only file system of files by their clean paths. The contents
// must not be changed any more.
func Memory(files map[string][]byte) FS {
	return &memory{files: files, paths: slices.Sorted(maps.Keys(files))}
}

// below returns the paths of the files in a folder.
func (m *memory) below(dir string) []string {
	if dir == "" {
		return m.paths
	}
	prefix := dir + "/"
	from, _ := slices.BinarySearch(m.paths, prefix)
	to := from
	for to < len(m.paths) && strings.HasPrefix(m.paths[to], prefix) {
		to++
	}
	return m.paths[from:to]
}

// Stat implements [FS].
func (m *memory) Stat(_ context.Context, path string) (Info, error) {
	if text, ok := m.files[path]; ok {
		return Info{Path: path, Size: int64(len(text))}, nil
	}
	if path == "" || len(m.below(path)) > 0 {
		return Info{Path: path, Dir: true}, nil
	}
	return Info{}, notFound(path)
}

// Open implements [FS].
func (m *memory) Open(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	info, err := m.Stat(ctx, path)
	if err != nil {
		return nil, Info{}, err
	}
	if info.Dir {
		return nil, Info{}, isFolder(path)
	}
	return io.NopCloser(bytes.NewReader(m.files[path])), info, nil
}

// List implements [FS].
func (m *memory) List(ctx context.Context, dir string, yield func(Info) bool) error {
	info, err := m.Stat(ctx, dir)
	if err != nil {
		return err
	}
	if !info.Dir {
		return notFolder(dir)
	}
	for _, child := range children(dir, m.below(dir)) {
		if !yield(child) {
			break
		}
	}
	return nil
}

// children returns the direct entries of a folder, made of all paths below it, by name.
func children(dir string, below []string) []Info {
	seen := make(map[string]bool)
	var list []Info
	for _, path := range below {
		name, rest, deeper := strings.Cut(strings.TrimPrefix(path[len(dir):], "/"), "/")
		if seen[name] || deeper && rest == "" {
			continue
		}
		seen[name] = true
		list = append(list, Info{Path: join(dir, name), Dir: deeper})
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
	return list
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func notFolder(path string) error {
	return fault.Errorf(fault.NotFound, "%s is a file, not a folder", nameOf(path)).With("path", path)
}

// Walk implements [FS].
func (m *memory) Walk(ctx context.Context, dir string, enter func(string) bool, yield func(Entry) bool) error {
	info, err := m.Stat(ctx, dir)
	if err != nil {
		return err
	}
	paths := []string{dir}
	if info.Dir {
		paths = m.below(dir)
	}
	f := folders{dir: dir, enter: enter}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.skips(path) {
			continue
		}
		read := func(_ context.Context, buf []byte, limit int) ([]byte, error) {
			text := m.files[path]
			return append(buf[:0], text[:min(len(text), limit)]...), nil
		}
		if !yield(Entry{Path: path, read: read}) {
			return nil
		}
	}
	return nil
}

// folders calls enter once for each folder of a walk over sorted paths.
type folders struct {
	dir   string // root of the walk
	enter func(string) bool
	known map[string]bool
}

// skips reports whether a file is in a folder that is not entered.
func (f *folders) skips(path string) bool {
	for i := len(f.dir) + 1; f.enter != nil && i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		above := path[:i]
		open, ok := f.known[above]
		if !ok {
			if f.known == nil {
				f.known = make(map[string]bool)
			}
			open = f.enter(above)
			f.known[above] = open
		}
		if !open {
			return true
		}
	}
	return false
}

// Write implements [FS].
func (m *memory) Write(_ context.Context, path string, _ []byte, _ WriteOptions) error {
	return violation(path, "it is read-only")
}

// Append implements [FS].
func (m *memory) Append(_ context.Context, path string, _ []byte) error {
	return violation(path, "it is read-only")
}
