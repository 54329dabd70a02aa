package cluster

import (
	"log/slog"
	"maps"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
)

// Options describe the node that joins. ID is required.
type Options struct {
	ID      string // of the bridge
	Version string // of the program
	Working Working
	Agree   map[string]string // settings in which all must agree, beside working
	Keys    map[string]string // fingerprints of secrets, by file, see [Record.Keys]
	// Rotating are the files of secrets that have versions.
	Rotating []string
	// NewSecrets has a node join with other secrets than the state was written with.
	NewSecrets bool
	Keeps      string // address under which the bridge keeps a copy of the state; "" for none
	Labels     map[string]string
	// Newer is added to [Wire] as the version of this node's protocol: 0, but for tests
	// that simulate a bridge of another release.
	Newer int
	// Waiting is called with the reason while the node may not work yet; optional.
	Waiting func(reason string)
	Log     *slog.Logger
	// Clock is told the time of the cluster; optional.
	Clock *clock.Clock

	epoch uint64        // no epoch is below; the time in Unix milliseconds by default
	every time.Duration // between renewals; tests make it small
}

func (o *Options) defaults() {
	if o.Working == "" {
		o.Working = One
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.epoch == 0 { // new even where the stream was lost
		o.epoch = uint64(max(time.Now().UnixMilli(), 1))
	}
	if o.every == 0 {
		o.every = RenewEvery
	}
	o.Agree = maps.Clone(o.Agree)
	if o.Agree == nil {
		o.Agree = make(map[string]string)
	}
	o.Agree["cluster.working"] = string(o.Working)
}
