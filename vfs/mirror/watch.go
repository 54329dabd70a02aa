package mirror

import (
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A watcher hears of changes in the folder from the system. It only makes the
// engine quick: what counts are the scans.
type watcher struct {
	root    string
	system  *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
	folders map[string]bool // that are watched
	paths   map[string]bool // that have changed
}

// maxWatched bounds the folders that are watched; the rest is scanned.
const maxWatched = 8192

// watch begins to listen if changes are to be carried over in real time.
func (e *Engine) watch() *watcher {
	w := &watcher{root: e.folder.Dir(), folders: make(map[string]bool), paths: make(map[string]bool)}
	if !e.o.RealTime {
		return w
	}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		e.o.Log.Warn("no file notifications; changes are found by scanning", "error", err)
		return w
	}
	w.system, w.events, w.errors = system, system.Events, system.Errors
	w.add(".")
	return w
}

func (w *watcher) close() {
	if w.system != nil {
		_ = w.system.Close() // nothing to lose
	}
}

// add watches a folder and reports whether it was not watched before: then it
// is to be looked at once more, for what changed until now.
func (w *watcher) add(dir string) bool {
	if w.system == nil || w.folders[dir] || len(w.folders) >= maxWatched {
		return false
	}
	if w.system.Add(filepath.Join(w.root, filepath.FromSlash(dir))) != nil {
		return false
	}
	w.folders[dir] = true
	return true
}

// follow watches the folders that are there now and reports whether one is new.
func (w *watcher) follow(e *Engine) (more bool) {
	if w.system == nil {
		return false
	}
	e.mu.Lock()
	dirs := e.dirs
	e.mu.Unlock()
	there := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		there[dir] = true
		more = w.add(dir) || more
	}
	for dir := range w.folders {
		if !there[dir] {
			delete(w.folders, dir) // the system forgot it with the folder
		}
	}
	return more
}

// take notes what an event is about and reports whether that matters.
func (w *watcher) take(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	path, err := filepath.Rel(w.root, event.Name)
	if err != nil {
		return false
	}
	path = filepath.ToSlash(path)
	if tree.CheckPath(path) != "" {
		return false
	}
	w.paths[path] = true
	if event.Has(fsnotify.Create) {
		if info, err := os.Lstat(event.Name); err == nil && info.IsDir() {
			delete(w.folders, path) // one of that name may have been there before
			w.add(path)             // what was in it already is found when it is looked at
		}
	}
	return true
}

// changed returns what has changed since it was asked last.
func (w *watcher) changed() []string {
	list := make([]string, 0, len(w.paths))
	for path := range w.paths {
		list = append(list, path)
	}
	clear(w.paths)
	return list
}
