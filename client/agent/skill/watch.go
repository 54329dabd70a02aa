package skill

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions pace [Library.Watch]. Zero values are the defaults.
type WatchOptions struct {
	Debounce time.Duration // quiet time after a change before it is read; 200 ms
	Rescan   time.Duration // how often everything is read again in any case; 10 s
}

// Watch scans the library now and whenever something changes in it, and passes the
// changes to apply, until ctx ends. apply is called from one goroutine and should return
// soon. The first scan must succeed; later failures are logged and the skills stay as
// they were.
//
// The file system's notifications only make it quick. The truth is the
// scan, which is repeated now and then, because notifications get lost, stop
// at links and do not exist everywhere.
func (l *Library) Watch(ctx context.Context, o WatchOptions, apply func(Changes)) error {
	if o.Debounce <= 0 {
		o.Debounce = 200 * time.Millisecond
	}
	if o.Rescan <= 0 {
		o.Rescan = 10 * time.Second
	}
	changes, err := l.Scan()
	if err != nil {
		return err
	}
	apply(changes)

	n := l.notifications()
	defer n.close()
	n.follow(l.dir, l.names)
	timer := time.NewTimer(o.Debounce) // earlier changes are found then
	defer timer.Stop()
	var waiting time.Time // since when a change waits for quiet
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-n.events:
			if !n.matters(l.dir, event) {
				continue
			}
			if waiting.IsZero() {
				waiting = time.Now()
			}
			if time.Since(waiting) < 10*o.Debounce { // a folder never quiet is read all the same
				timer.Reset(o.Debounce)
			}
		case err := <-n.errors:
			l.log.Warn("file notifications failed; changes are found by rescanning", "error", err)
			timer.Reset(o.Debounce)
		case <-timer.C:
			waiting = time.Time{}
			if changes, err := l.Scan(); err != nil {
				l.complain(&l.trouble, l.dir, err.Error())
			} else if !changes.Empty() {
				apply(changes)
			}
			next := o.Rescan
			if n.follow(l.dir, l.names) {
				next = o.Debounce // see above
			}
			timer.Reset(next)
		}
	}
}

// notifications are those of the file system, if it has any.
type notifications struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
	folders []string // that are watched
}

func (l *Library) notifications() *notifications {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		l.log.Warn("no file notifications; changes are found by rescanning", "error", err)
		return &notifications{}
	}
	return &notifications{watcher: w, events: w.Events, errors: w.Errors}
}

func (n *notifications) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // nothing to lose
	}
}

// follow watches the directory and its folders and reports whether one is new.
// Watching a folder again is cheap, and heals the watch of one that was replaced.
func (n *notifications) follow(dir string, names []string) (more bool) {
	if n.watcher == nil {
		return false
	}
	_ = n.watcher.Add(dir) // unwatched folders are rescanned
	for _, name := range names {
		_ = n.watcher.Add(filepath.Join(dir, name)) // see above
		if _, known := slices.BinarySearch(n.folders, name); !known {
			more = true
		}
	}
	n.folders = names
	return more
}

// matters distinguishes changes of the directory and of level 1 (or of the "..data"
// link that a mounted volume swaps) from files that scripts write into their
// folders.
func (n *notifications) matters(dir string, e fsnotify.Event) bool {
	if e.Has(fsnotify.Chmod) && e.Op == fsnotify.Chmod {
		return false
	}
	if filepath.Dir(e.Name) == filepath.Clean(dir) {
		return true
	}
	base := filepath.Base(e.Name)
	return base == ManifestFile || base == DocumentFile || strings.HasPrefix(base, "..")
}
