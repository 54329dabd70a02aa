package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A Watcher hears of changes in the folders of any number of mirrors from the
// system. A process needs one: systems allow few of them, but many folders
// each. It only makes mirrors quick: scans find every change without it.
type Watcher struct {
	system *fsnotify.Watcher
	limit  int
	log    *slog.Logger
	done   chan struct{}

	mu      sync.Mutex
	folders map[string]*Watch // by where they are
	why     error             // why a folder is not watched; nil again when one could be
	told    time.Time         // when that was logged
}

// NewWatcher begins to listen, to at most so many folders; 0 is as many as the
// system allows.
func NewWatcher(limit int, log *slog.Logger) (*Watcher, error) {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("no file notifications (fs.inotify.max_user_instances or open files): %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{system: system, limit: limit, log: log, done: make(chan struct{}), folders: make(map[string]*Watch)}
	go w.listen()
	return w, nil
}

// Close stops listening.
func (w *Watcher) Close() error {
	err := w.system.Close()
	<-w.done
	return err
}

// Watched is the number of folders that are watched.
func (w *Watcher) Watched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.folders)
}

func (w *Watcher) listen() {
	defer close(w.done)
	for {
		select {
		case event, ok := <-w.system.Events:
			if !ok {
				return
			}
			w.take(event)
		case err, ok := <-w.system.Errors:
			if !ok {
				return
			}
			w.lost(err)
		}
	}
}

// take gives an event to the watch of the folder it is about.
func (w *Watcher) take(event fsnotify.Event) {
	if event.Op == fsnotify.Chmod || event.Name == "" {
		return
	}
	w.mu.Lock()
	watch := w.folders[filepath.Dir(event.Name)]
	if watch == nil {
		watch = w.folders[event.Name]
	}
	w.mu.Unlock()
	if watch != nil {
		watch.take(event)
	}
}

// lost has everything scanned: notifications were lost, of unknown files.
func (w *Watcher) lost(err error) {
	w.log.Debug("file notifications were lost; folders are looked at as a whole", "error", err)
	w.mu.Lock()
	all := make(map[*Watch]bool)
	for _, watch := range w.folders {
		all[watch] = true
	}
	w.mu.Unlock()
	for watch := range all {
		watch.note("", true)
	}
}

// add watches one folder more.
func (w *Watcher) add(at string, watch *Watch) error {
	w.mu.Lock()
	full := w.limit > 0 && len(w.folders) >= w.limit
	w.mu.Unlock()
	err := errTooManyFolders
	if !full {
		if err = w.system.Add(at); errors.Is(err, syscall.ENOSPC) {
			err = errSystemLimit
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.folders[at] = watch
		return nil
	}
	if limited := errors.Is(err, errTooManyFolders) || errors.Is(err, errSystemLimit); limited && time.Since(w.told) > time.Minute {
		w.told = time.Now()
		w.log.Warn("not all folders can be watched; the others are scanned instead", "error", err, "watched", len(w.folders))
	}
	return err
}

// The limits of how many folders are watched.
var (
	errTooManyFolders = errors.New("the limit of watched folders is reached (vfs.sync.watches)")
	errSystemLimit    = errors.New("the system watches no more folders (fs.inotify.max_user_watches)")
)

// remove forgets a folder, if it is the watch's.
func (w *Watcher) remove(at string, watch *Watch) {
	w.mu.Lock()
	mine := w.folders[at] == watch
	if mine {
		delete(w.folders, at)
	}
	w.mu.Unlock()
	if mine {
		_ = w.system.Remove(at) // it may be gone already
	}
}

// The time that a file must have been left alone before it is carried over in real
// time, and the longest that a busy folder waits.
const (
	settleDown   = 50 * time.Millisecond
	settleDownAt = time.Second
)

// maxNoticed bounds the changed paths that are remembered; beyond, the folder
// is scanned.
const maxNoticed = 10_000

// A Watch is a [Watcher]'s work for one mirror. It goes on while the
// mirror rests.
type Watch struct {
	watcher *Watcher // nil if there is none
	root    string
	tell    func()

	mu      sync.Mutex
	folders map[string]bool // relative, that are watched
	paths   map[string]bool // relative, that have changed
	scan    bool            // more may have changed
	first   time.Time       // change that was not dealt with
	last    time.Time
	why     error // why some folder is not watched
}

// Watch begins to watch for the mirror of a folder, which adds its folders later.
// tell is called after changes, and must not block. A nil watcher hears nothing;
// why is the reason that the mirror's status shows for that.
func (w *Watcher) Watch(root string, why error, tell func()) *Watch {
	if w == nil && why == nil {
		why = errors.New("there are no file notifications")
	}
	return &Watch{watcher: w, root: root, why: why, tell: tell, folders: make(map[string]bool), paths: make(map[string]bool)}
}

// Close ends the watch.
func (w *Watch) Close() {
	w.mu.Lock()
	folders := w.folders
	w.folders = make(map[string]bool)
	w.mu.Unlock()
	for folder := range folders {
		w.watcher.remove(w.at(folder), w)
	}
}

func (w *Watch) at(folder string) string { return filepath.Join(w.root, filepath.FromSlash(folder)) }

// add watches a folder and reports whether it was not watched before: then it is to
// be scanned once more, for changes until now.
func (w *Watch) add(folder string) bool {
	if w.watcher == nil {
		return false
	}
	w.mu.Lock()
	known := w.folders[folder]
	w.mu.Unlock()
	if known {
		return false
	}
	err := w.watcher.add(w.at(folder), w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.why = err
		return false
	}
	w.folders[folder] = true
	return true
}

// follow watches exactly the folders that are there now and reports whether
// one is new.
func (w *Watch) follow(folders []string) (more bool) {
	w.mu.Lock()
	gone := make([]string, 0, len(w.folders))
	there := make(map[string]bool, len(folders))
	for _, folder := range folders {
		there[folder] = true
	}
	for folder := range w.folders {
		if !there[folder] {
			gone = append(gone, folder)
			delete(w.folders, folder)
		}
	}
	if w.watcher != nil {
		w.why = nil
	}
	w.mu.Unlock()
	for _, folder := range gone {
		w.watcher.remove(w.at(folder), w)
	}
	slices.Sort(folders)
	for _, folder := range folders {
		more = w.add(folder) || more
	}
	return more
}

// Trouble says why some folder is not watched, nil if all are.
func (w *Watch) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// take notes what an event is about.
func (w *Watch) take(event fsnotify.Event) {
	path, err := filepath.Rel(w.root, event.Name)
	if err != nil {
		return
	}
	if path = filepath.ToSlash(path); path == "." {
		w.note("", true)
		return
	}
	if tree.CheckPath(path) != "" {
		return
	}
	if event.Has(fsnotify.Create) {
		if info, err := os.Lstat(event.Name); err == nil && info.IsDir() {
			w.mu.Lock()
			delete(w.folders, path) // one of that name may have been there before
			w.mu.Unlock()
			w.add(path) // its earlier entries are found when it is looked at
		}
	}
	w.note(path, false)
}

// note notes a changed path, or that anything may have changed.
func (w *Watch) note(path string, scan bool) {
	now := time.Now()
	w.mu.Lock()
	if w.scan = w.scan || scan || len(w.paths) >= maxNoticed; w.scan {
		clear(w.paths)
	} else {
		w.paths[path] = true
	}
	fresh := w.first.IsZero()
	if fresh {
		w.first = now
	}
	w.last = now
	w.mu.Unlock()
	if fresh {
		w.tell()
	}
}

// due is the time when changes have settled down, zero if there are none.
func (w *Watch) due() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first.IsZero() {
		return time.Time{}
	}
	due := w.last.Add(settleDown)
	if latest := w.first.Add(settleDownAt); due.After(latest) {
		due = latest
	}
	return due
}

// changed returns the changes since the last call, and whether
// anything may have.
func (w *Watch) changed() (paths []string, scan bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path := range w.paths {
		paths = append(paths, path)
	}
	if w.scan || len(w.paths) > 1000 {
		w.paths = make(map[string]bool) // a large map never shrinks
	}
	scan = w.scan
	clear(w.paths)
	w.scan, w.first, w.last = false, time.Time{}, time.Time{}
	return paths, scan
}
