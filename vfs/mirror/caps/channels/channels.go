// Package channels shows Caps to their mirror.
package channels

import (
	"context"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// All yields the Caps that there are.
func All(all *cap.Service) iter.Seq2[protocol.SpaceID, protocol.CapID] {
	return func(yield func(protocol.SpaceID, protocol.CapID) bool) {
		for c := range all.All() {
			if !yield(c.Space, c.ID) {
				return
			}
		}
	}
}

// Of shows Caps to the mirror.
func Of(all *cap.Service) caps.Channels { return channels{all} }

type channels struct{ *cap.Service }

// Settings implements [caps.Channels].
func (m channels) Settings(space protocol.SpaceID, id protocol.CapID) (caps.Settings, bool) {
	c, ok := m.Lookup(space, id)
	if !ok {
		return caps.Settings{}, false
	}
	return caps.Settings{
		Enabled:  c.Sync,
		RealTime: c.SyncType != "SCHEDULED",
		Interval: time.Duration(max(c.SyncEvery, 1)) * time.Second,
		Rule:     mirror.Rule(c.Conflict),
	}, true
}

// Documents implements [caps.Channels].
func (m channels) Documents(space protocol.SpaceID, id protocol.CapID) (map[string][]byte, bool) {
	p, ok := m.Snapshot(space, id)
	if !ok {
		return nil, false
	}
	return p.Files(), true
}

// MayRestore implements [caps.Channels].
func (m channels) MayRestore(who *protocol.Principal, id protocol.CapID, documents map[string][]byte) error {
	p, err := cap.ReadSnapshot(who.Space, id, documents)
	if err != nil {
		return err
	}
	if !cap.Owns(who, p.Cap) {
		return protocol.Errorf(protocol.PermissionDenied, "the lost Cap %q was not yours", id).With("cap_id", string(id))
	}
	return nil
}

// Check implements [caps.Channels].
func (m channels) Check(space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error {
	_, err := cap.ReadSnapshot(space, id, documents)
	return err
}

// Restore implements [caps.Channels].
func (m channels) Restore(ctx context.Context, space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error {
	p, err := cap.ReadSnapshot(space, id, documents)
	if err != nil {
		return err
	}
	return m.Service.Restore(ctx, p)
}
