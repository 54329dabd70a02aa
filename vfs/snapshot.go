package vfs

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Snapshot implements [Snapshots]. It costs nothing but a number: versions
// name points in time.
func (s *Space) Snapshot(ctx context.Context, group string) (uint64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	if err := CheckGroup(group); err != nil {
		return 0, err
	}
	x := s.store.index
	stop := context.AfterFunc(ctx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.settled.Broadcast()
	})
	defer stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	snapshot := x.number(s.store.opts.Now())
	// Changes that have a lower number already either come to be or fail.
	for x.underWay(s.space, group, snapshot) {
		if err := ended(ctx); err != nil {
			return 0, err
		}
		x.settled.Wait()
	}
	return snapshot, nil
}

// underWay reports whether a version of a group with a lower number is being
// written.
func (x *index) underWay(space protocol.SpaceID, group string, below uint64) bool {
	g := x.byGroup[groupID{space, group}]
	if g == nil {
		return false
	}
	for number := range g.inFlight {
		if number < below {
			return true
		}
	}
	return false
}

// ListAt implements [Snapshots].
func (s *Space) ListAt(ctx context.Context, group, prefix string, snapshot uint64, cursor string, limit int) ([]File, string, error) {
	o := &s.store.opts
	if oldest := o.Now().Add(-o.Remember); snapshot < uint64(max(0, oldest.UnixMicro())) {
		return nil, "", protocol.Errorf(protocol.FileNotFound, "snapshot %d is older than %s, after which deleted files are forgotten",
			snapshot, o.Remember.Round(time.Hour)).With("snapshot_id", snapshot)
	}
	return s.list(ctx, group, prefix, cursor, limit, func(r *Record) (*Version, error) {
		v, ok := r.asOf(snapshot)
		if !ok {
			return nil, protocol.Errorf(protocol.FileNotFound, "file %q has changed so often that its version at snapshot %d is not kept", r.Path, snapshot).
				With("path", r.Path).With("snapshot_id", snapshot)
		}
		if v == nil || v.Deleted {
			return nil, nil
		}
		return v, nil
	})
}
