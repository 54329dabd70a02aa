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
	// perhaps when others do. "" means that the VFS cannot tell.
	Revision(ctx context.Context, group, prefix string) (string, error)
}

// A Changer is implemented by [Files] that can tell where something has
// changed, for callers that follow many folders.
type Changer interface {
	// Changes lists the folders at the top of a group in which something has
	// changed since a revision of the whole group, and returns the revision
	// that it has now. whole says that anything may have changed: the revision
	// is none of this VFS, or it cannot tell.
	Changes(ctx context.Context, group, since string) (folders []string, revision string, whole bool, err error)
}

// Changes implements [Changer].
func (s *Space) Changes(ctx context.Context, group, since string) (folders []string, revision string, whole bool, err error) {
	if err := ended(ctx); err != nil {
		return nil, "", false, err
	}
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.byGroup[groupID{s.space, group}]
	if g == nil {
		return nil, x.revision(0), true, nil
	}
	revision = x.revision(g.changes[""])
	era, text, _ := strings.Cut(since, ".")
	last, err := strconv.ParseUint(text, 10, 64)
	if now, _, _ := strings.Cut(revision, "."); err != nil || era != now {
		return nil, revision, true, nil
	}
	if last == g.changes[""] {
		return nil, revision, false, nil
	}
	for folder, change := range g.changes {
		if change > last && folder != "" {
			folders = append(folders, folder)
		}
	}
	return folders, revision, false, nil
}

// revision is the text for a number of changes. The index is locked.
func (x *index) revision(changes uint64) string {
	return strconv.FormatInt(x.since, 36) + "." + strconv.FormatUint(changes, 10)
}

// changes asks files that can tell.
func changes(ctx context.Context, files Files, group, since string) (folders []string, revision string, whole bool, err error) {
	if c, ok := files.(Changer); ok {
		return c.Changes(ctx, group, since)
	}
	if r, ok := files.(Reviser); ok {
		revision, err = r.Revision(ctx, group, "")
	}
	return nil, revision, revision == "" || revision != since, err
}

// Changes implements [Changer].
func (m mirror) Changes(ctx context.Context, group, since string) (folders []string, revision string, whole bool, err error) {
	files, err := m.files()
	if err != nil {
		return nil, "", false, err
	}
	return changes(ctx, files, group, since)
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
	if g := x.byGroup[groupID{s.space, group}]; g != nil {
		if top, _, inside := strings.Cut(prefix, "/"); inside {
			changes = g.changes[top]
		} else {
			changes = g.changes[""]
		}
	}
	return x.revision(changes), nil
}

// count notes that a file has changed.
func (x *index) count(s *groupIndex, path string) {
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
