package model

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A File configures a service by a file, and again after each change of the file or of
// the providers' key files. Every configuration is kept with its revision.
type File struct {
	service *Service
	path    string
	history history
	log     *slog.Logger

	anyway time.Duration // between looks without a notification

	seen   [sha256.Size]byte // of the working version
	keys   []string          // files with keys that the last version which could be read names
	failed string            // last error, which was logged
}

const (
	settleFor  = 200 * time.Millisecond // after a change, for editors that write a file in pieces
	lookAnyway = 30 * time.Second       // for file systems without notifications
)

// OpenFile configures a service by a file; revisions are kept in the folder of the
// history. A faulty configuration is an error, since there is no earlier one at the
// start.
func OpenFile(s *Service, path, historyDir string) (*File, error) {
	f := &File{service: s, path: path, history: history{historyDir}, log: s.opts.Log, anyway: lookAnyway}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Run follows changes of the file until ctx ends.
func (f *File) Run(ctx context.Context) error {
	var changed chan fsnotify.Event
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("the configuration of models is looked at from time to time only", "error", err)
	} else {
		defer func() { _ = watcher.Close() }()
		changed = watcher.Events
	}
	watched := make(map[string]bool)
	look := func() {
		f.watch(watcher, watched)
		f.Reload()
		if f.watch(watcher, watched) { // something there may have changed before
			f.Reload()
		}
	}
	anyway := time.NewTicker(f.anyway)
	defer anyway.Stop()
	settled := time.NewTimer(0) // for changes before the watch
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			settled.Reset(settleFor)
		case <-settled.C:
			look()
		case <-anyway.C:
			look()
		}
	}
}

// watch has a watcher notify of the folders of the file and of the keys, but for those that
// are watched already, and reports whether there was any: files are often replaced by
// others. There may be no watcher.
func (f *File) watch(w *fsnotify.Watcher, watched map[string]bool) (added bool) {
	if w == nil {
		return false
	}
	for _, path := range append([]string{f.path}, f.keys...) {
		folder := filepath.Dir(path)
		if watched[folder] {
			continue
		}
		watched[folder], added = true, true
		if err := w.Add(folder); err != nil {
			f.log.Warn("a folder of the configuration of models is looked at from time to time only", "folder", folder, "error", err)
		}
	}
	return added
}

// Reload configures the service by the current contents of the file. A fault is logged,
// and changes nothing.
func (f *File) Reload() {
	err := f.load()
	switch {
	case err == nil:
		f.failed = ""
	case f.failed != err.Error():
		f.failed = err.Error()
		f.log.Error("the configuration of models is wrong, the one before stays", "error", err)
		f.service.notify(Configured{Err: err})
	}
}

// load reads the file, and applies it if it has changed.
func (f *File) load() error {
	text, err := readFile(f.path)
	if err != nil {
		return fmt.Errorf("llm.file: %w", err)
	}
	sum := sha256.New()
	_, _ = sum.Write(text)
	config, err := ParseConfig(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.keys = nil
	for _, p := range config.Providers {
		if p.KeyFile != "" {
			f.keys = append(f.keys, p.KeyFile)
			key, _ := readFile(p.KeyFile) // an error appears when the key is used
			_, _ = fmt.Fprintf(sum, "\x00%x", sha256.Sum256(key))
		}
	}
	now := [sha256.Size]byte(sum.Sum(nil))
	if now == f.seen {
		return nil
	}
	if err := f.apply(config, text); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.seen = now
	return nil
}

func (f *File) apply(c Config, text []byte) (err error) {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Revision, err = f.history.revision(text); err != nil {
		return fmt.Errorf("history of configurations: %w", err)
	}
	_, err = f.service.Configure(c)
	return err
}

// readFile reads at most maxConfig bytes of a file and one more, by which the caller
// detects a longer one.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxConfig+1))
}
