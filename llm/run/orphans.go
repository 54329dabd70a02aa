package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// prunesAtOnce is the greatest number of folders that one round removes, so that a stop
// need not wait for long.
const prunesAtOnce = 1000

// removeOrphans removes the folders of runs that another bridge has removed: that
// bridge deleted the shared records of the run, and only its own folder. A folder is an
// orphan if it has no record and has not been written to for the retention time. A
// folder with later writes is kept, even without a record.
func (s *Service) removeOrphans() {
	if s.opts.Current != nil && !s.opts.Current() {
		return
	}
	entries, err := os.ReadDir(filepath.Join(s.opts.Dir, "runs"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.opts.Log.Warn("the folders of runs cannot be listed", "error", err)
		}
		return
	}
	removed := 0
	for _, e := range entries {
		if removed == prunesAtOnce || s.ctx.Err() != nil {
			return
		}
		if !e.IsDir() || !s.isOrphan(e.Name()) {
			continue
		}
		if err := os.RemoveAll(s.folder(e.Name())); err != nil {
			s.opts.Log.Warn("the folder of a forgotten run cannot be removed", "run", e.Name(), "error", err)
			continue
		}
		removed++
	}
}

// isOrphan reports whether a folder is that of a removed run.
func (s *Service) isOrphan(id string) bool {
	if _, _, known := s.opts.Runs.Get(id); known || s.find(id) != nil {
		return false
	}
	before := s.opts.Now().Add(-s.opts.Keep)
	return writtenBefore(s.folder(id), before) && writtenBefore(filepath.Join(s.folder(id), "diary"), before)
}

// writtenBefore reports whether a file was last written to before t, or does not exist.
func writtenBefore(path string, t time.Time) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return info.ModTime().Before(t)
}
