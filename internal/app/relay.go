package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/cluster/routes"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
)

// relayNote is the part of a bridge's record that says that it takes what others
// relay to it.
const relayNote = "relay"

// A relaying bridge shares its clients' messages with the other bridges of its
// cluster.
type relaying struct {
	*relay.Relay
	members *cluster.Membership
	line    *store.RelayLine
	warn    func(msg string, args ...any)
	server  *broker.Broker
	stop    func() // watching the members
}

// newRelaying returns the bridge's relay, nil for a bridge that works alone.
func newRelaying(s *state, ring *security.Keyring) *relaying {
	if !s.Members.Shared() || s.Members.Working() != cluster.All {
		return nil
	}
	key := routes.Key(ring.MAC("cluster", "routes", "")) // which all bridges share
	self := s.Members.Self()
	line := s.Store.Relay(self.ID)
	r := &relaying{members: s.Members, line: line, warn: s.log.Warn}
	r.Relay = relay.New(relay.Options{
		Self: relay.Node(self), Key: &key, Transport: line, Log: s.log, Registerer: s.metrics,
	})
	return r
}

// begin carries messages of a broker's clients from now on.
func (r *relaying) begin(server *broker.Broker) error {
	r.server = server
	r.Start(relay.Of(server))
	r.stop = r.members.Watch(func(cluster.Change) { r.reconcile() })
	r.reconcile()
	return r.members.Note(relayNote, "1")
}

// reconcile takes up who is alive.
func (r *relaying) reconcile() {
	living := r.members.Members()
	self := r.members.Self()
	members := make([]relay.Member, 0, len(living))
	others := make([]string, 0, len(living))
	for _, m := range living {
		if m.ID == self.ID {
			continue
		}
		members = append(members, relay.Member{Node: relay.Node(m.Node), Ready: m.Notes[relayNote] != ""})
		others = append(others, m.ID)
	}
	if err := r.line.Listen(others, r.Take); err != nil {
		r.warn("the bridge does not hear what others relay", "error", err)
	}
	r.Reconcile(members)
}

// await returns when this bridge knows what the clients of all others subscribe
// to and have retained: it may serve then, and nothing that is published at it is
// missed by them.
func (r *relaying) await(ctx context.Context) error {
	select {
	case <-r.server.RetainedCurrent():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.members.Catchup(ctx); err != nil {
		return err
	}
	r.reconcile()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	slow := time.After(5 * time.Second)
	for !r.Ready() {
		select {
		case <-look.C:
		case <-slow:
			r.warn("this bridge waits for what the clients of others subscribe to", "bridges", r.Peers())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close ends the work, once the others have what they were sent or ctx ends.
func (r *relaying) close(ctx context.Context) error {
	r.stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for r.Queued() > 0 && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	r.Close()
	return r.line.Listen(nil, nil)
}
