// Package vfstest tests implementations of vfs.Files ([Run]), and has two for tests
// of code that uses files: [Memory], and [Faulty], which fails in every way a VFS
// can.
package vfstest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Memory are files in memory. It keeps every version.
type Memory struct {
	// Quota bounds the bytes of all current versions; 0 for no bound.
	Quota int64
	// Now is the clock, time.Now if nil.
	Now func() time.Time

	mu     sync.Mutex
	last   uint64
	groups map[string]*group
	used   int64
}

type group struct {
	files map[string][]version // by path, oldest first
	twins vfs.Collisions
}

type version struct {
	vfs.File
	data []byte
}

// NewMemory returns empty files.
func NewMemory() *Memory { return &Memory{groups: make(map[string]*group)} }

// Stat implements [vfs.Files].
func (m *Memory) Stat(ctx context.Context, group, path string) (vfs.File, error) {
	v, err := m.find(ctx, group, path, 0)
	return v.File, err
}

// Open implements [vfs.Files].
func (m *Memory) Open(ctx context.Context, group, path string, number uint64) (io.ReadSeekCloser, vfs.File, error) {
	v, err := m.find(ctx, group, path, number)
	if err != nil {
		return nil, vfs.File{}, err
	}
	return content{bytes.NewReader(v.data)}, v.File, nil
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

func (m *Memory) find(ctx context.Context, group, path string, number uint64) (version, error) {
	if err := check(ctx, group, path); err != nil {
		return version{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.group(group).files[path]
	if number == 0 {
		if n := len(list); n > 0 && !list[n-1].Deleted {
			return list[n-1], nil
		}
		return version{}, vfs.NoFile(group, path)
	}
	for _, v := range list {
		if v.Version == number && !v.Deleted {
			return v, nil
		}
	}
	return version{}, vfs.NoVersion(path, number)
}

// Put implements [vfs.Files].
func (m *Memory) Put(ctx context.Context, group, path string, r io.Reader, o vfs.PutOptions) (vfs.File, error) {
	if err := check(ctx, group, path); err != nil {
		return vfs.File{}, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return vfs.File{}, protocol.Wrap(protocol.SyncFailed, err, "the content broke off")
	}
	sum := vfs.Sum(sha256.Sum256(data))
	if o.Size >= 0 && o.Size != int64(len(data)) {
		return vfs.File{}, vfs.BadContent(path, "has another size than announced")
	}
	if o.SHA256 != nil && *o.SHA256 != sum {
		return vfs.File{}, vfs.BadContent(path, "has another checksum than announced")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(group)
	now, there := g.current(path)
	if o.IfVersion != nil && *o.IfVersion != now.Version && !(*o.IfVersion == 0 && !there) {
		return vfs.File{}, vfs.VersionConflict(path, *o.IfVersion, now.Version)
	}
	if there && now.SHA256 == sum && now.ContentType == o.ContentType {
		return now, nil
	}
	if err := g.twins.Check(path); err != nil {
		return vfs.File{}, err
	}
	grows := int64(len(data)) - now.Size
	if m.Quota > 0 && m.used+grows > m.Quota {
		return vfs.File{}, vfs.NoRoom("the quota is used up")
	}
	m.used += grows
	g.twins.Add(path)
	return m.commit(g, vfs.File{ID: now.ID, Group: group, Path: path, Size: int64(len(data)), SHA256: sum, ContentType: o.ContentType, Mtime: o.Mtime}, data), nil
}

// Delete implements [vfs.Files].
func (m *Memory) Delete(ctx context.Context, group, path string, ifVersion uint64) (vfs.File, error) {
	if err := check(ctx, group, path); err != nil {
		return vfs.File{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(group)
	now, there := g.current(path)
	if !there {
		return vfs.File{}, vfs.NoFile(group, path)
	}
	if ifVersion != 0 && ifVersion != now.Version {
		return vfs.File{}, vfs.VersionConflict(path, ifVersion, now.Version)
	}
	m.used -= now.Size
	g.twins.Remove(path)
	return m.commit(g, vfs.File{ID: now.ID, Group: group, Path: path, Deleted: true}, nil), nil
}

func (m *Memory) commit(g *group, f vfs.File, data []byte) vfs.File {
	m.last++
	f.Version = m.last
	f.Modified = time.Now()
	if m.Now != nil {
		f.Modified = m.Now()
	}
	f.Modified = f.Modified.UTC().Truncate(time.Millisecond)
	if f.ID == "" {
		f.ID = protocol.NewID()
	}
	g.files[f.Path] = append(g.files[f.Path], version{f, data})
	return f
}

// List implements [vfs.Files].
func (m *Memory) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]vfs.File, string, error) {
	return m.list(ctx, group, prefix, cursor, limit, func(list []version) (vfs.File, bool) {
		f := list[len(list)-1].File
		return f, deleted || !f.Deleted
	})
}

// Snapshot implements [vfs.Snapshots].
func (m *Memory) Snapshot(ctx context.Context, group string) (uint64, error) {
	if err := check(ctx, group, "x"); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, nil
}

// ListAt implements [vfs.Snapshots].
func (m *Memory) ListAt(ctx context.Context, group, prefix string, snapshot uint64, cursor string, limit int) ([]vfs.File, string, error) {
	return m.list(ctx, group, prefix, cursor, limit, func(list []version) (vfs.File, bool) {
		for _, v := range slices.Backward(list) {
			if v.Version <= snapshot {
				return v.File, !v.Deleted
			}
		}
		return vfs.File{}, false
	})
}

func (m *Memory) list(ctx context.Context, group, prefix, cursor string, limit int, pick func([]version) (vfs.File, bool)) (files []vfs.File, next string, err error) {
	if err := check(ctx, group, "x"); err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = vfs.DefaultLimit
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, list := range m.group(group).files {
		if f, ok := pick(list); ok && strings.HasPrefix(path, prefix) && path > cursor {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b vfs.File) int { return cmp.Compare(a.Path, b.Path) })
	if limit = min(limit, vfs.MaxLimit); len(files) > limit {
		files = files[:limit]
		next = files[limit-1].Path
	}
	return files, next, nil
}

// Usage implements [vfs.Meter].
func (m *Memory) Usage(ctx context.Context) (vfs.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return vfs.Usage{Used: m.used, Total: m.Quota}, ctx.Err()
}

// Wipe loses everything, as a VFS whose disk was replaced.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups, m.used = make(map[string]*group), 0
}

func (m *Memory) group(name string) *group {
	g := m.groups[name]
	if g == nil {
		g = &group{files: make(map[string][]version)}
		m.groups[name] = g
	}
	return g
}

// current is the newest version of a file and whether it is there.
func (g *group) current(path string) (vfs.File, bool) {
	list := g.files[path]
	if len(list) == 0 {
		return vfs.File{}, false
	}
	f := list[len(list)-1].File
	return f, !f.Deleted
}

func check(ctx context.Context, group, path string) error {
	if err := ctx.Err(); err != nil {
		return protocol.Wrap(protocol.VFSUnavailable, err, "the VFS did not answer in time")
	}
	if err := vfs.CheckGroup(group); err != nil {
		return err
	}
	_, err := vfs.CleanPath(path)
	return err
}
