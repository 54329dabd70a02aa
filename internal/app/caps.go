package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
	"github.com/aibridge/aibridge/vfs/mirror/caps/channels"
)

// newCaps makes the part that keeps Caps and groups.
func newCaps(s *state, agents *registry.Service, groups *dispatch.Engine, rollouts *rollout.Engine) (*cap.Service, *capTables) {
	tables := &capTables{
		store:  s.Store,
		caps:   store.NewTable[cap.Cap](s.Store, "cap"),
		groups: store.NewTable[cap.Group](s.Store, "group"),
		data:   store.NewTable[cap.Datum](s.Store, "data"),
	}
	channels := cap.New(cap.Options{
		Caps:       tables.caps,
		Groups:     tables.groups,
		Data:       tables.data,
		RemoveAll:  tables.removeAll,
		Publish:    s.clients.Publish,
		Retained:   s.clients.Retained,
		Skills:     agents,
		Dispatcher: groups,
		Rollouts:   rollouts,
		MayName:    site.Names(s.config.Sites.Have).Check,
		MayBind:    site.Names(s.config.Sites.Have).CheckSkill,
		MembershipLost: func(space protocol.SpaceID, id protocol.CapID) {
			s.policies.FactsChanged() // decisions by membership are made again
			s.clients.ReviewCap(id)
			s.promised.scenes.value().CapChanged(space, id)
		},
		Topics:   s.topics,
		BridgeID: s.config.ID,
		Log:      s.log,
	})
	s.promised.channels.keep(channels)
	channels.OnFactsChange(s.policies.FactsChanged)
	return channels, tables
}

// capTables are the tables of package cap.
type capTables struct {
	store  *store.Store
	caps   *store.Table[cap.Cap]
	groups *store.Table[cap.Group]
	data   *store.Table[cap.Datum]
}

// removeAll removes records of several tables in one atomic change.
func (t *capTables) removeAll(ctx context.Context, list []cap.Removal) error {
	ops := make([]store.Op, len(list))
	for i, r := range list {
		switch r.Kind {
		case cap.Caps:
			ops[i] = t.caps.DeleteOp(r.Key, r.Revision)
		case cap.Groups:
			ops[i] = t.groups.DeleteOp(r.Key, r.Revision)
		case cap.Data:
			ops[i] = t.data.DeleteOp(r.Key, r.Revision)
		default:
			return fmt.Errorf("no table of kind %d", r.Kind)
		}
	}
	return t.store.Atomic(ctx, ops...)
}

// newMirror makes the part that mirrors Caps to the VFS. It follows every change of
// a Cap.
func newMirror(s *state, all *cap.Service, tables *capTables, files *fileParts, shared *relaying) *caps.Service {
	origin, err := os.Hostname()
	if err != nil {
		origin = s.config.ID
	}
	sync := &s.config.VFS.Sync
	options := caps.Options{
		Dir:       s.config.Places().Caps,
		Channels:  channels.Of(all),
		Files:     func(space protocol.SpaceID) vfs.Files { return files.Mirror(space) },
		Publish:   all.Announce,
		Metrics:   mirror.NewMetrics(s.metrics),
		Origin:    origin,
		Mirrors:   sync.Mirrors,
		Open:      sync.Open,
		Turns:     sync.Turns,
		Watches:   sync.Watches,
		Scan:      time.Duration(sync.Scan) * time.Second,
		KeepAge:   time.Duration(sync.KeepDays) * 24 * time.Hour,
		KeepBytes: sync.KeepBytes,
		Log:       s.log,
	}
	if shared != nil {
		options.Elsewhere = shared.mirrors(s)
	}
	mirror := caps.New(options)
	if shared != nil {
		for name, do := range mirror.Errands() {
			shared.errands.does[name] = func(ctx context.Context, with json.RawMessage) (any, error) {
				_, _ = s.Store.CatchUp(ctx) // the bridge that was asked may have seen more; without it, the present knowledge has to do
				return do(ctx, with)
			}
		}
	}
	tables.caps.OnChange(func(_ string, old, new *cap.Cap) {
		c := either(new, old)
		mirror.Changed(c.Space, c.ID)
	})
	tables.groups.OnChange(func(_ string, old, new *cap.Group) {
		g := either(new, old)
		mirror.Changed(g.Space, g.Cap)
	})
	tables.data.OnChange(func(_ string, old, new *cap.Datum) {
		d := either(new, old)
		mirror.Changed(d.Space, d.Cap)
	})
	return mirror
}

// mirrors has commands about mirrors carried out by the oldest bridge, which mirrors
// Caps.
func (r *relaying) mirrors(s *state) func(context.Context, string, any, any) (bool, error) {
	return func(ctx context.Context, do string, with, result any) (elsewhere bool, err error) {
		n, elsewhere := s.carrier("")
		if elsewhere {
			err = r.errands.have(ctx, n, do, with, result)
		}
		return elsewhere, err
	}
}

// either is the one of two that there is.
func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}
