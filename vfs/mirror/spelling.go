package mirror

import (
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A spellingIndex knows how files and folders are spelled, to find those that
// some system takes for one. Unlike the VFS's own index it also knows paths
// that cannot be beside each other: for a while a mirror has both, the one that
// goes and the one that comes. The zero value is empty.
type spellingIndex struct {
	files   map[string]spellings // by folded path
	folders map[string]spellings
}

// spellings counts the paths that fold to the same.
type spellings struct {
	one   string // if there is only one
	count int
	more  map[string]int // all, if there are several
}

func (s spellings) add(path string, n int) spellings {
	if s.more == nil && (s.count == 0 || s.one == path) {
		s.one, s.count = path, s.count+n
		return s
	}
	if s.more == nil {
		s.more = map[string]int{s.one: s.count}
	}
	if s.more[path] += n; s.more[path] <= 0 {
		delete(s.more, path)
	}
	if len(s.more) == 1 {
		for path, count := range s.more {
			return spellings{one: path, count: count}
		}
	}
	return s
}

// other is one of the paths that is not the given one.
func (s spellings) other(path string) (string, bool) {
	if s.more == nil {
		return s.one, s.count > 0 && s.one != path
	}
	for other := range s.more {
		if other != path {
			return other, true
		}
	}
	return "", false
}

func (x *spellingIndex) add(path string)    { x.count(path, 1) }
func (x *spellingIndex) remove(path string) { x.count(path, -1) }

func (x *spellingIndex) count(path string, n int) {
	if x.files == nil {
		x.files, x.folders = make(map[string]spellings), make(map[string]spellings)
	}
	update(x.files, path, n)
	for i := range len(path) {
		if path[i] == '/' {
			update(x.folders, path[:i], n)
		}
	}
}

func update(m map[string]spellings, path string, n int) {
	key := tree.Fold(path)
	if s := m[key].add(path, n); s.more == nil && s.count <= 0 {
		delete(m, key)
	} else {
		m[key] = s
	}
}

// check refuses with 3002 a path that another is in the way of.
func (x *spellingIndex) check(path string) error {
	if twin, ok := x.twin(path); ok {
		return vfs.Obstructed(path, twin)
	}
	return nil
}

func (x *spellingIndex) twin(path string) (string, bool) {
	key := tree.Fold(path)
	if twin, ok := x.files[key].other(path); ok {
		return twin, true
	}
	if twin, ok := x.folders[key].other(""); ok {
		return twin, true
	}
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		above := path[:i]
		key := tree.Fold(above)
		if twin, ok := x.files[key].other(""); ok {
			return twin, true
		}
		if twin, ok := x.folders[key].other(above); ok {
			return twin, true
		}
	}
	return "", false
}
