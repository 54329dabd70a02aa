package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/protocol"
)

// readyEvery is the interval at which a bridge checks whether it is ready, for its
// record in the cluster.
const readyEvery = time.Second

// introduce keeps this bridge's record in the cluster: that it serves, where, and
// whether it is ready, until ctx ends.
func introduce(ctx context.Context, s *state, d *doors) error {
	keys, err := storage.Fingerprints(&s.config, s.seals.File, s.caKey)
	if err != nil {
		return err
	}
	addresses := s.addresses.ByListener()
	s.Members.Tell(func(r *cluster.Record) { r.State, r.Keys, r.Addresses = cluster.Serving, keys, addresses })
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for was := ""; ; {
		now := "ready"
		if err := d.ready.Check(ctx); err != nil {
			now = protocol.AsError(err).Message
		}
		if now != was {
			was = now
			s.Members.Tell(func(r *cluster.Record) {
				if r.Ready, r.Why = now == "ready", now; r.Ready {
					r.Why = ""
				}
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// withdraw records for the other bridges that this one stops.
func withdraw(s *state) {
	s.Members.Tell(func(r *cluster.Record) {
		r.State, r.Ready, r.Why = cluster.Draining, false, "the bridge is stopping"
	})
}
