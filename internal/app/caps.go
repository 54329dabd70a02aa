package app

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/cap"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// newCaps makes the part that keeps Caps and groups.
func (a *App) newCaps(agents *registry.Service, skills *store.Table[registry.SkillRecord], groups cap.Dispatcher, mqtt *mqttdoor.Clients) *cap.Service {
	tables := &capTables{
		store:  a.store,
		caps:   store.NewTable[cap.Cap](a.store, "cap"),
		groups: store.NewTable[cap.Group](a.store, "group"),
		data:   store.NewTable[cap.Datum](a.store, "data"),
	}
	channels := cap.New(cap.Options{
		Caps:       tables.caps,
		Groups:     tables.groups,
		Data:       tables.data,
		RemoveAll:  tables.removeAll,
		Publish:    mqtt.Publish,
		Retained:   mqtt.Retained,
		Skills:     agents,
		Dispatcher: groups,
		MembershipLost: func(space protocol.SpaceID, id protocol.CapID) {
			a.policy.engine.FactsChanged() // what was decided by membership is decided again
			mqtt.ReviewCap(id)
			a.scenes.CapChanged(space, id)
		},
		Topics:   mqtt.Topics(),
		BridgeID: a.config.ID,
		Log:      a.log,
	})
	a.channels = channels
	a.followCaps(tables)
	skills.OnChange(func(_ string, old, _ *registry.SkillRecord) {
		if old != nil { // a new one was nobody's before
			channels.SkillChanged(old.Space, old.ID)
			a.scenes.SkillChanged(old.Space, old.ID)
		}
	})
	return channels
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
