package app

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// newMirror makes the part that mirrors Caps to the VFS.
func (a *App) newMirror(channels *cap.Service) {
	origin, err := os.Hostname()
	if err != nil {
		origin = a.config.ID
	}
	a.mirror = caps.New(caps.Options{
		Dir:       filepath.Join(a.config.Data, "caps"),
		Channels:  mirroredCaps{channels},
		Files:     func(space protocol.SpaceID) vfs.Files { return a.files.Mirror(space) },
		Publish:   channels.Announce,
		Metrics:   mirror.NewMetrics(a.metrics),
		Origin:    origin,
		Mirrors:   a.config.VFS.Sync.Mirrors,
		Open:      a.config.VFS.Sync.Open,
		Turns:     a.config.VFS.Sync.Turns,
		Watches:   a.config.VFS.Sync.Watches,
		Scan:      time.Duration(a.config.VFS.Sync.Scan) * time.Second,
		KeepAge:   time.Duration(a.config.VFS.Sync.KeepDays) * 24 * time.Hour,
		KeepBytes: int64(a.config.VFS.Sync.KeepBytes),
		Log:       a.log,
	})
}

// followCaps tells the mirror of every change of a Cap.
func (a *App) followCaps(tables *capTables) {
	changed := func(space protocol.SpaceID, id protocol.CapID) {
		if a.mirror != nil {
			a.mirror.Changed(space, id)
		}
	}
	tables.caps.OnChange(func(_ string, old, new *cap.Cap) {
		c := either(new, old)
		changed(c.Space, c.ID)
	})
	tables.groups.OnChange(func(_ string, old, new *cap.Group) {
		g := either(new, old)
		changed(g.Space, g.Cap)
	})
	tables.data.OnChange(func(_ string, old, new *cap.Datum) {
		d := either(new, old)
		changed(d.Space, d.Cap)
	})
}

// either is the one of two that there is.
func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// runMirror mirrors the Caps there are, and those that come.
func (a *App) runMirror(channels *cap.Service) {
	a.run("mirror of Caps", func(ctx context.Context) error { return a.mirror.Run(ctx, allCaps(channels)) })
}

func allCaps(channels *cap.Service) iter.Seq2[protocol.SpaceID, protocol.CapID] {
	return func(yield func(protocol.SpaceID, protocol.CapID) bool) {
		for c := range channels.All() {
			if !yield(c.Space, c.ID) {
				return
			}
		}
	}
}

// mirroredCaps shows Caps to the mirror.
type mirroredCaps struct{ *cap.Service }

// Settings implements [caps.Channels].
func (m mirroredCaps) Settings(space protocol.SpaceID, id protocol.CapID) (caps.Settings, bool) {
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
func (m mirroredCaps) Documents(space protocol.SpaceID, id protocol.CapID) (map[string][]byte, bool) {
	p, ok := m.Snapshot(space, id)
	if !ok {
		return nil, false
	}
	return p.Files(), true
}

// MayRestore implements [caps.Channels].
func (m mirroredCaps) MayRestore(who *protocol.Principal, id protocol.CapID, documents map[string][]byte) error {
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
func (m mirroredCaps) Check(space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error {
	_, err := cap.ReadSnapshot(space, id, documents)
	return err
}

// Restore implements [caps.Channels].
func (m mirroredCaps) Restore(ctx context.Context, space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error {
	p, err := cap.ReadSnapshot(space, id, documents)
	if err != nil {
		return err
	}
	return m.Service.Restore(ctx, p)
}
