package app

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/cluster"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/security/quota"
)

// The entrance is the listeners by which clients come in.
type entrance struct {
	gate      *gate.Gate
	sockets   *listen.Sockets
	addresses listen.Addresses
	lobby     *listen.Lobby
}

// openEntrance listens, so that ports in use show before anything else is
// started, and answers by HTTP that the bridge is starting.
func openEntrance(ctx context.Context, b *base) (*entrance, error) {
	limits := b.config.Limits.ForConnections()
	e := &entrance{gate: gate.New(limits, b.clock, b.log), lobby: listen.NewLobby("the bridge is starting")}
	b.metrics.MustRegister(e.gate.Metrics()...)
	b.log.Debug("connections are limited", "most", limits.Connections, "unauthenticated", limits.Strangers, "unauthenticated_per_address", limits.PerAddress)
	sockets, err := listen.Open(ctx, b.config.Listeners())
	if err != nil {
		return nil, err
	}
	b.life.Add("sockets", func(context.Context) error { return sockets.Close() })
	e.sockets = sockets
	e.addresses = listen.Addresses{
		MQTT: sockets.Address("mqtt"), MQTTS: sockets.Address("mqtts"), HTTP: sockets.Address("http"), WS: sockets.Address("ws"), Unix: sockets.Address("unix"),
		TLSOnly: b.config.TLS.Only,
	}
	if !b.config.TLS.Only { // there is no certificate to show yet
		e.lobby.Open(sockets, "http", httpdoor.NewServer(httpdoor.Lobby(b.version, e.lobby.Why), b.log))
	}
	b.life.Add("lobby", e.lobby.Close)
	return e, nil
}

// waits closes all doors except HTTP, which answers with the reason why the bridge does
// not serve.
func (e *entrance) waits(reason string) {
	e.sockets.StandBy("http")
	e.lobby.Waits(reason)
}

// watchDisk begins to watch the room of the data.
func watchDisk(b *base) *diskspace.Watch {
	folders := []string{b.config.Data}
	if !b.config.InNATS() {
		folders = append(folders, b.config.VFSDir())
	}
	disk := diskspace.New(diskspace.Options{
		Folders: folders, Reserve: b.config.Disk.Reserve(), Look: b.look, Log: b.log, Registerer: b.metrics,
	})
	b.life.Run("room on the disk", disk.Run)
	return disk
}

// newQuotas makes the keeper of all principals' use.
func newQuotas(b *base) (*quota.Keeper, error) {
	options := b.config.Quotas.Options(b.config.Dev)
	options.Registerer, options.Shared = b.metrics, b.config.Cluster.Working == string(cluster.All)
	quotas, err := quota.New(options)
	if err != nil {
		return nil, fmt.Errorf("quotas: %w", err)
	}
	return quotas, nil
}
