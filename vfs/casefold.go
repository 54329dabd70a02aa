package vfs

import (
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// pathSet knows the paths of a group, to keep twins out: see [CleanPath]. The
// zero value is empty.
type pathSet struct {
	files   map[string]string // folded path → path
	folders map[string]*folder
}

// A folder is there as long as something is in it.
type folder struct {
	path  string
	count int // of paths below it
}

// collision returns the obstacle to a new path: a file or folder of the same
// name in another case, a file where a folder is needed, or the other way
// round. The path itself is no collision of its own.
func (n *pathSet) collision(path string) (string, bool) {
	folded := foldPath(path)
	if f, ok := n.files[folded]; ok {
		return f, f != path
	}
	if f, ok := n.folders[folded]; ok {
		return f.path, true
	}
	for i := range folders(path) {
		above := path[:i]
		folded := foldPath(above)
		if f, ok := n.files[folded]; ok {
			return f, true
		}
		if f, ok := n.folders[folded]; ok && f.path != above {
			return f.path, true
		}
	}
	return "", false
}

// add notes a path that has no twin.
func (n *pathSet) add(path string) {
	if n.files == nil {
		n.files, n.folders = make(map[string]string), make(map[string]*folder)
	}
	folded := foldPath(path)
	if _, ok := n.files[folded]; ok {
		return
	}
	n.files[folded] = path
	for i := range folders(path) {
		key := foldPath(path[:i])
		f := n.folders[key]
		if f == nil {
			f = &folder{path: strings.Clone(path[:i])}
			n.folders[key] = f
		}
		f.count++
	}
}

// remove forgets a path.
func (n *pathSet) remove(path string) {
	folded := foldPath(path)
	if n.files[folded] != path {
		return
	}
	delete(n.files, folded)
	for i := range folders(path) {
		key := foldPath(path[:i])
		if f := n.folders[key]; f != nil {
			if f.count--; f.count == 0 {
				delete(n.folders, key)
			}
		}
	}
}

// folders yields where the folders of a path end: its slashes.
func folders(path string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(i) {
				return
			}
		}
	}
}

// errCollision refuses a path that another is in the way of.
func errCollision(path, twin string) *protocol.Error {
	text := fmt.Sprintf("%q cannot be beside %q: some systems take them for one", path, twin)
	switch {
	case twin == path:
		text = fmt.Sprintf("%q cannot be a file: there is a folder %q with files in it", path, path+"/")
	case strings.HasPrefix(path, twin+"/"):
		text = fmt.Sprintf("%q needs a folder where the file %q stands", path, twin)
	}
	return protocol.Errorf(protocol.AlreadyExists, "%s", text).With("path", path).With("twin", twin)
}

// Collisions tells of the paths of one group which cannot be beside each other. It
// is for implementations of [Files] that keep no index of their own. The zero
// value is empty; it is not safe for concurrent use.
type Collisions struct{ names pathSet }

// Check refuses with 3002 a path that has a twin.
func (t *Collisions) Check(path string) error {
	if twin, ok := t.names.collision(path); ok {
		return errCollision(path, twin)
	}
	return nil
}

// Add notes a path that was checked.
func (t *Collisions) Add(path string) { t.names.add(path) }

// Remove forgets a path.
func (t *Collisions) Remove(path string) { t.names.remove(path) }
