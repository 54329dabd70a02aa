package vfs

import (
	"context"
	"strconv"
	"strings"
)

// A Reviser is implemented by [Files] that can tell without a list whether
// anything has changed.
type Reviser interface {
	// Revision changes whenever a file does whose path begins with prefix, and
	// perhaps when others do. "" says nothing.
	Revision(ctx context.Context, group, prefix string) (string, error)
}

// Revision implements [Reviser], for every folder at the top of a group.
func (s *Space) Revision(ctx context.Context, group, prefix string) (string, error) {
	if err := ended(ctx); err != nil {
		return "", err
	}
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	var changes uint64
	if shelf := x.shelves[shelfKey{s.space, group}]; shelf != nil {
		if top, _, inside := strings.Cut(prefix, "/"); inside {
			changes = shelf.changes[top]
		} else {
			changes = shelf.changes[""]
		}
	}
	return strconv.FormatInt(x.since, 36) + "." + strconv.FormatUint(changes, 10), nil
}

// count notes that a file has changed.
func (x *index) count(s *shelf, path string) {
	x.changes++
	s.changes[""] = x.changes
	if top, _, inside := strings.Cut(path, "/"); inside {
		s.changes[top] = x.changes
	}
}

// revision asks files that can tell.
func revision(ctx context.Context, files Files, group, prefix string) (string, error) {
	if r, ok := files.(Reviser); ok {
		return r.Revision(ctx, group, prefix)
	}
	return "", nil
}

// Revision implements [Reviser].
func (m *mirrorReader) Revision(ctx context.Context, group, prefix string) (string, error) {
	if err := m.may(prefix); err != nil {
		return "", err
	}
	return revision(ctx, m.Files, group, prefix)
}

// Revision implements [Reviser].
func (m mirror) Revision(ctx context.Context, group, prefix string) (string, error) {
	files, err := m.files()
	if err != nil {
		return "", err
	}
	return revision(ctx, files, group, prefix)
}
