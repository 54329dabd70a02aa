package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files are policies kept in a file, or in the *.cedar files of a folder.
type Files struct {
	engine *Engine
	path   string
	anyway time.Duration // between looks that nothing gave cause for
	lost   bool          // the folder cannot be read, which was said
}

// Bounds of the files that are read again at every change.
const mostFiles = 500

const (
	settleFor   = 200 * time.Millisecond // after a change, for writers of files in pieces
	lookAnyway  = 30 * time.Second       // for file systems that tell of no changes
	fileSuffix  = ".cedar"
	hiddenStart = "."
)

// OpenFiles puts the policies at a path in force. At the start there is no
// older policy that could stay, so that one that is broken is an error.
func OpenFiles(e *Engine, path string) (*Files, error) {
	f := &Files{engine: e, path: filepath.Clean(path), anyway: lookAnyway}
	texts, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	for name, text := range texts {
		if err := e.set(Source{File, name}, text, "", e.opts.Now()); err != nil {
			return nil, fmt.Errorf("policies: %s: %w", name, err)
		}
	}
	return f, nil
}

// Run follows changes of the files until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	var changed chan fsnotify.Event
	var failed chan error
	watch := func() {}
	if watcher, err := fsnotify.NewWatcher(); err != nil {
		f.engine.opts.Log.Warn("policies are looked at from time to time only", "error", err)
	} else {
		defer func() { _ = watcher.Close() }()
		watch = func() { f.watch(watcher) }
		watch()
		changed, failed = watcher.Events, watcher.Errors
	}
	anyway := time.NewTicker(f.anyway)
	defer anyway.Stop()
	settled := time.NewTimer(0) // for changes before we watched
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			if f.concerns(event.Name) {
				settled.Reset(settleFor)
			}
		case err, ok := <-failed:
			if !ok {
				failed = nil
				continue
			}
			f.engine.opts.Log.Warn("changes of policies may have been missed", "error", err)
			settled.Reset(settleFor)
		case <-settled.C:
			watch() // first, so that no change is missed
			f.Reload()
		case <-anyway.C:
			watch()
			f.Reload()
		}
	}
}

// watch follows the folder, and the one it is in: a file is often replaced by another,
// and a folder sometimes. A watched file may have been renamed since, so each is looked
// up anew.
func (f *Files) watch(watcher *fsnotify.Watcher) {
	folders := []string{filepath.Dir(f.path)}
	if info, err := os.Stat(f.path); err == nil && info.IsDir() {
		folders = append(folders, f.path)
	}
	for _, folder := range folders {
		_ = watcher.Remove(folder) // it may not be watched
		if err := watcher.Add(folder); err != nil {
			f.engine.opts.Log.Warn("policies are looked at from time to time only", "error", err)
		}
	}
}

// concerns reports whether a file of that name is about the policies: the policies
// themselves, a file in their folder, or a link that a mounted volume swaps.
func (f *Files) concerns(name string) bool {
	return name == f.path || filepath.Dir(name) == f.path || strings.HasPrefix(filepath.Base(name), "..")
}

// Reload puts the present policies of the files in force. A text that is broken
// or cannot be read changes nothing.
func (f *Files) Reload() {
	e := f.engine
	texts, err := f.read()
	if err != nil {
		if !f.lost {
			e.opts.Log.Error("the policies cannot be read; the former ones stay in force", "error", err)
			e.metrics.reloads.WithLabelValues("broken").Inc()
			e.opts.Notify(Event{Name: "policy.broken", From: File, Reason: "the files cannot be read"})
		}
		f.lost = true
		return
	}
	f.lost = false
	for name, text := range texts {
		if !e.hasText(Source{File, name}, text) {
			_ = e.set(Source{File, name}, text, "", e.opts.Now()) // is reported there
		}
	}
	for _, from := range e.sources(File) {
		if _, ok := texts[from.Name]; !ok {
			e.remove(from)
		}
	}
}

// read reads the files, by name.
func (f *Files) read() (map[string]string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		text, err := readText(f.path)
		return map[string]string{filepath.Base(f.path): text}, err
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, fileSuffix) || strings.HasPrefix(name, hiddenStart) || entry.IsDir() {
			continue
		}
		if len(texts) == mostFiles {
			return nil, fmt.Errorf("there are more than %d files", mostFiles)
		}
		text, err := readText(filepath.Join(f.path, name))
		if errors.Is(err, fs.ErrNotExist) { // went meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

// readText reads no more than a text may have, and a byte to tell.
func readText(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxText+1))
	return string(text), err
}

// hasText reports whether a source was given this text last, for better or
// worse.
func (e *Engine) hasText(from Source, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.texts[from]
	return l != nil && l.last == text
}

func (e *Engine) sources(of Kind) (list []Source) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for from := range e.texts {
		if from.Kind == of {
			list = append(list, from)
		}
	}
	return list
}
