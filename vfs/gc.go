package vfs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Run tidies up until ctx ends: it forgets files deleted long ago, and removes blobs
// without references.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.opts.GCInterval)
	defer ticker.Stop()
	for {
		s.CollectGarbage(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// CollectGarbage does one of the rounds of [Store.Run]. At most one round may be under
// way.
func (s *Store) CollectGarbage(ctx context.Context) {
	forgotten, given := s.forget(ctx), s.giveUp(ctx)
	orphans, err := s.findOrphans(ctx)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("blobs cannot be listed", "error", err)
	}
	removed := s.collect(ctx)
	s.sweep(ctx)
	if forgotten+given+removed > 0 {
		s.opts.Log.Info("tidied files", "forgotten", forgotten, "uploads", given, "orphans", orphans, "blobs", removed)
	}
}

// A blob to which nothing was added for stale will never be committed. The
// slowest uploads that are let go on have a part of it in hours.
const (
	stale      = 24 * time.Hour
	sweepEvery = time.Hour
)

// sweep removes now and then the parts of unfinished blobs that a crash has left.
func (s *Store) sweep(ctx context.Context) {
	sweeper, ok := s.opts.Blobs.(Sweeper)
	if !ok || time.Since(s.swept) < sweepEvery {
		return
	}
	s.swept = time.Now()
	n, err := sweeper.Sweep(ctx, s.swept.Add(-stale))
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("parts of blobs that were never written whole cannot be removed", "error", err)
	}
	if n > 0 {
		s.opts.Log.Info("removed parts of blobs that were never written whole", "blobs", n)
	}
}

// forget removes the records of files that were deleted long ago.
func (s *Store) forget(ctx context.Context) (n int) {
	deadline := s.opts.Now().Add(-s.opts.Remember).UnixMilli()
	for key, r := range s.opts.Records.All() {
		if r.live() || r.current().Modified > deadline || ctx.Err() != nil {
			continue
		}
		now, revision, ok := s.opts.Records.Get(key)
		if !ok || now != r {
			continue
		}
		if err := s.opts.Records.Delete(ctx, key, revision); err == nil {
			n++
		}
	}
	return n
}

// findOrphans notes blobs that no record names, so that they are collected once
// they are too old to belong to a write in progress: a crash left them.
func (s *Store) findOrphans(ctx context.Context) (n int, err error) {
	x := s.index
	err = s.opts.Blobs.All(ctx, func(key string, modified time.Time) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.blobs[key] == nil {
			x.blobs[key] = &blobUse{idle: modified}
			n++
		}
		return true
	})
	return n, err
}

// collect removes the blobs that were not needed for a while.
func (s *Store) collect(ctx context.Context) (n int) {
	for _, key := range s.doomed(time.Now().Add(-s.opts.Grace)) {
		if ctx.Err() != nil {
			return n
		}
		if s.remove(ctx, key) {
			n++
		}
	}
	return n
}

// Hold keeps every blob, needed or not, until release is called: for a backup,
// which copies the blobs some time after the records that name them. A second
// release does nothing.
func (s *Store) Hold() (release func()) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holds++
	return sync.OnceFunc(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.holds--
	})
}

func (s *Store) doomed(before time.Time) (keys []string) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.holds > 0 {
		return nil
	}
	for key, b := range x.blobs {
		if b.unneeded(before) {
			keys = append(keys, key)
		}
	}
	return keys
}

// unneeded reports whether a blob was not needed since a moment.
func (b *blobUse) unneeded(since time.Time) bool {
	return b.refs == 0 && b.pins == 0 && !b.dying && b.idle.Before(since)
}

// remove removes a blob, unless it is needed after all. A writer of the same blob
// waits meanwhile.
func (s *Store) remove(ctx context.Context, key string) bool {
	x := s.index
	x.mu.Lock()
	b := x.blobs[key]
	if b == nil || x.holds > 0 || !b.unneeded(time.Now().Add(-s.opts.Grace)) {
		x.mu.Unlock()
		return false
	}
	b.dying = true
	x.mu.Unlock()
	err := s.opts.Blobs.Remove(ctx, key)
	x.mu.Lock()
	defer x.mu.Unlock()
	b.dying = false
	if err == nil {
		delete(x.blobs, key)
	} else {
		s.opts.Log.Warn("a blob cannot be removed", "error", err)
	}
	x.settled.Broadcast()
	return err == nil
}

// makeRoom gives up old versions of a group, the oldest first, until there is room for so
// many bytes, and then of all groups that have room together with it. It reports whether
// there is.
func (s *Store) makeRoom(ctx context.Context, space protocol.SpaceID, group string, need int64) bool {
	x := s.index
	x.mu.Lock()
	g := x.group(space, group)
	own := oldVersions([]*groupIndex{g})
	missing := g.used + g.pending + need - s.opts.Quota
	x.mu.Unlock()
	if !s.giveUpVersions(ctx, own, missing) {
		return false
	}
	x.mu.Lock()
	missing = g.shared.missing(need)
	var all []oldVersion
	if missing > 0 {
		all = oldVersions(x.sharing(g.shared))
	}
	x.mu.Unlock()
	return s.giveUpVersions(ctx, all, missing)
}

// An oldVersion is one that is not the newest of its file.
type oldVersion struct {
	record *Record
	number uint64
	size   int64
}

// oldVersions are those of some groups, the oldest first. The index is locked.
func oldVersions(groups []*groupIndex) (found []oldVersion) {
	for _, g := range groups {
		for _, r := range g.files {
			for i := range len(r.Versions) - 1 {
				if r.Versions[i].Size > 0 {
					found = append(found, oldVersion{r, r.Versions[i].Number, r.Versions[i].Size})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b oldVersion) int { return cmp.Compare(a.number, b.number) })
	return found
}

// giveUpVersions gives up as many of some versions as free so many bytes. It reports whether
// they do; else none is given up.
func (s *Store) giveUpVersions(ctx context.Context, candidates []oldVersion, missing int64) bool {
	upTo := make(map[*Record]uint64)
	for _, c := range candidates {
		if missing <= 0 {
			break
		}
		upTo[c.record] = c.number
		missing -= c.size
	}
	if missing > 0 {
		return false
	}
	for r, number := range upTo {
		s.trim(ctx, r, number)
	}
	return true
}

// trim drops the versions of a file up to a number.
func (s *Store) trim(ctx context.Context, r *Record, upTo uint64) {
	now, revision, ok := s.opts.Records.Get(r.key())
	if !ok || now != r {
		return // it changed meanwhile; the next attempt sees the new record
	}
	next := *r
	next.Versions = slices.Clone(slices.DeleteFunc(slices.Clone(r.Versions), func(v Version) bool { return v.Number <= upTo }))
	if _, err := s.opts.Records.Update(ctx, r.key(), &next, revision); err != nil && !records.Raced(err) {
		s.opts.Log.Warn("old versions cannot be dropped", "error", err)
	}
}
