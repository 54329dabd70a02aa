package model

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// keptRevisions is the number of earlier configurations that can be looked up.
const keptRevisions = 100

// A history keeps the latest working configurations, one file each, so that operators
// can see which one was in force, and restore it.
type history struct{ dir string }

const historySuffix = ".yaml"

// revision returns the number of a configuration: that of the newest kept one if it is
// equal, and else the next, under which it stores the configuration.
func (h history) revision(text []byte) (uint64, error) {
	kept, err := h.list()
	if err != nil {
		return 0, err
	}
	newest := uint64(0)
	if len(kept) > 0 {
		newest = kept[len(kept)-1]
		if before, err := os.ReadFile(h.path(newest)); err == nil && bytes.Equal(before, text) {
			return newest, nil
		}
	}
	if err := h.write(newest+1, text); err != nil {
		return 0, err
	}
	for _, old := range kept[:max(len(kept)+1-keptRevisions, 0)] {
		if err := os.Remove(h.path(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return newest + 1, nil
}

// list returns the kept revisions, the oldest first.
func (h history) list() (kept []uint64, err error) {
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), historySuffix)
		if n, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			kept = append(kept, n)
		}
	}
	slices.Sort(kept)
	return kept, err
}

func (h history) path(revision uint64) string {
	return filepath.Join(h.dir, fmt.Sprintf("%06d%s", revision, historySuffix))
}

// write stores a configuration atomically.
func (h history) write(revision uint64, text []byte) error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	path := h.path(revision)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
