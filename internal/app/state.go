package app

import (
	"context"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security/quota"
)

// The state is the common ground of all domains and doors of a bridge: storage, guard,
// quotas, clients.
type state struct {
	*base
	*entrance
	*storage.Storage
	*guard
	disk     *diskspace.Watch
	quotas   *quota.Keeper
	clients  *mqttdoor.Clients
	promised *promises
}

// openState opens the parts below the domains: storage, guard, quotas, clients. Acquired
// resources are noted in the lifecycle at once.
func openState(ctx context.Context, config Config, o options, life *lifecycle.Lifecycle, leaving context.Context) (*state, error) {
	base, err := newBase(ctx, config, o, life, leaving)
	if err != nil {
		return nil, err
	}
	entrance, err := openEntrance(ctx, base)
	if err != nil {
		return nil, err
	}
	disk := watchDisk(base)
	quotas, err := newQuotas(base)
	if err != nil {
		return nil, err
	}
	stored, err := storage.Open(ctx, storage.Options{
		Config: config, Version: base.version, Newer: base.newer, Clock: base.clock, Log: base.log, Metrics: base.metrics, Life: life,
		Full: disk.Check, Budget: quotas.Records(), Waiting: entrance.waits, Serving: entrance.sockets.Resume,
	})
	if err != nil {
		return nil, err
	}
	clients, promised := mqttdoor.NewClients(base.topics, base.log), new(promises)
	guard, err := openGuard(ctx, base, stored, clients, promised)
	if err != nil {
		return nil, err
	}
	return &state{
		base: base, entrance: entrance, Storage: stored, guard: guard,
		disk: disk, quotas: quotas, clients: clients, promised: promised,
	}, nil
}
