package caps

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// poll asks the VFS of a space for changes by others, for all its Caps that are
// mirrored in real time, until ctx ends.
func (s *Service) poll(ctx context.Context, space protocol.SpaceID, files vfs.Files, breaker *mirror.Breaker) {
	back := make(chan struct{}, 1)
	defer breaker.OnReturn(func() {
		select {
		case back <- struct{}{}:
		default:
		}
	})()
	tick := time.NewTicker(s.o.Poll)
	defer tick.Stop()
	last := ""
	for {
		returned := false
		select {
		case <-ctx.Done():
			return
		case <-back:
			returned = true
		case <-tick.C:
		}
		if circuit, _ := breaker.Circuit(); circuit != mirror.CircuitClosed {
			continue
		}
		folders, revision, whole, err := changes(ctx, files, last)
		if err == nil && s.suspect(ctx, space, files, folders, whole, returned) {
			last = revision
		}
	}
}

// suspect has those mirrors look at the VFS for which something has changed
// there, and after an outage those for which something waits. It reports
// whether it came to an end.
func (s *Service) suspect(ctx context.Context, space protocol.SpaceID, files vfs.Files, folders []string, whole, returned bool) bool {
	if len(folders) == 0 && !whole && !returned {
		return true
	}
	changed := make(map[string]bool, len(folders))
	for _, folder := range folders {
		changed[folder] = true
	}
	for _, m := range s.of(space) {
		look := m.settings.RealTime && (whole || changed[vfs.MirrorFolder(m.id)])
		revision := ""
		if look {
			var err error
			if revision, err = revisionOf(ctx, files, vfs.MirrorFolder(m.id)+"/"); err != nil {
				return false
			}
		}
		m.suspect(s, look, revision, returned)
	}
	return true
}

// suspect has a mirror look at the VFS if that has another revision than it
// knows.
func (m *capMirror) suspect(s *Service, changed bool, revision string, returned bool) {
	m.mu.Lock()
	engine, rest := m.engine, m.rest
	switch {
	case engine != nil:
		changed = changed && (revision == "" || revision != engine.Revision())
	case rest != nil:
		changed = changed && (revision == "" || revision != rest.Revision())
		if changed {
			rest.Suspect()
		}
		changed = changed || returned && rest.Waits()
	default:
		changed = false // is yet to look at everything
	}
	m.mu.Unlock()
	switch {
	case !changed:
	case engine != nil:
		engine.Suspect()
	default:
		s.ask(m, 0)
	}
}

// of lists the mirrors of a space.
func (s *Service) of(space protocol.SpaceID) []*capMirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*capMirror, 0, len(s.mirrors))
	for at, m := range s.mirrors {
		if at.space == space {
			list = append(list, m)
		}
	}
	return list
}

// changes asks where something has changed.
func changes(ctx context.Context, files vfs.Files, since string) (folders []string, revision string, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c, ok := files.(vfs.Changer); ok {
		return c.Changes(ctx, vfs.MirrorGroup, since)
	}
	if r, ok := files.(vfs.Reviser); ok {
		revision, err = r.Revision(ctx, vfs.MirrorGroup, "")
	}
	return nil, revision, revision == "" || revision != since, err
}

// revisionOf asks whether anything has changed in a folder, "" if the VFS
// cannot tell.
func revisionOf(ctx context.Context, files vfs.Files, folder string) (string, error) {
	r, ok := files.(vfs.Reviser)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Revision(ctx, vfs.MirrorGroup, folder)
}

// patience bounds the time of the VFS's answer whether it has changed.
const patience = 2 * time.Second
