package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/direct"
	"github.com/aibridge/aibridge/cluster/estate"
	"github.com/aibridge/aibridge/cluster/exclusive"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/cluster/routes"
	"github.com/aibridge/aibridge/cluster/sessions"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
)

// relayNote is the part of a bridge's record that says that it takes relayed
// messages.
const relayNote = "relay"

// A relaying bridge shares its clients' messages with the other bridges of its
// cluster, and serves the sessions of those that have ended.
type relaying struct {
	*relay.Relay
	errands *errands
	claims  commands.Digester // whose key all bridges have
	members *cluster.Membership
	records *store.Table[estate.Record]
	estates *estate.Estates
	store   *store.Store
	key     *routes.Key
	line    *store.RelayLine
	lines   *direct.Switch // nil for a bridge that is to have none
	log     *slog.Logger
	server  *broker.Broker
	changed chan struct{} // holds a token when a bridge has come or gone
	unwatch func()        // ends the watch of bridges that come and go
	stop    func()        // ends the taking up of that

	settings cluster.Settings

	reconciling sync.Mutex

	// directory knows which bridge has which session.
	directory *sessions.Directory
	secret    sessions.Secret

	// holders are the sessions here that have topics alone.
	holders    *exclusive.Holders
	exclusives *store.Table[exclusive.Record]
}

// newRelaying returns the bridge's relay, nil for a bridge that works alone.
func newRelaying(s *state, ring *security.Keyring) (*relaying, error) {
	if !s.Members.Shared() || s.Members.Working() != cluster.All {
		return nil, nil
	}
	key := routes.Key(ring.Derive("cluster", "routes", "")) // which all bridges share
	self := s.Members.Self()
	r := &relaying{
		members: s.Members, store: s.Store, key: &key, line: s.Store.Relay(self.ID), log: s.log, changed: make(chan struct{}, 1),
		claims: commands.NewDigester(ring.Derive("cluster", "claims", "")),
		secret: sessions.Secret(ring.Derive("cluster", "sessions", "")), settings: s.config.Cluster,
	}
	var transport relay.Transport = r.line
	lines, err := r.newLines(s, ring)
	if err != nil {
		return nil, err
	}
	if r.lines = lines; lines != nil {
		transport = lines
	}
	r.Relay = relay.New(relay.Options{
		Self: relay.Node(self), Key: r.key, Transport: transport, Wire: s.Members.Wire(), Log: s.log, Registerer: s.metrics,
	})
	r.records = store.NewTable[estate.Record](s.Store, "estate").Essential()
	r.records.OnChange(func(string, *estate.Record, *estate.Record) { r.change() })
	r.estates = estate.New(estate.Options{
		Records: r.records, Members: s.Members, Serve: r.serve, Ready: takesRelayed, Log: s.log, Registerer: s.metrics,
	})
	r.exclusives = store.NewTable[exclusive.Record](s.Store, "exclusive")
	r.errands = newErrands(r.Relay)
	return r, nil
}

// catchUp waits until the tables show what other bridges have stored; nil for a bridge that
// works alone, whose tables always do.
func (r *relaying) catchUp() func(context.Context) error {
	if r == nil {
		return nil
	}
	return func(ctx context.Context) error {
		_, err := r.store.CatchUp(ctx)
		return err
	}
}

func takesRelayed(m cluster.Member) bool { return m.Notes[relayNote] != "" }

// change has the arrival or departure of a bridge taken up soon.
func (r *relaying) change() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// begin carries messages of a broker's clients from now on.
func (r *relaying) begin(server *broker.Broker) error {
	r.server = server
	r.directory.Start(server)
	r.holders.Start(server)
	r.Start(relay.Of(server))
	r.unwatch = r.members.Watch(func(cluster.Change) { r.change() })
	watch, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { r.follow(watch) })
	r.stop = func() {
		cancel()
		watching.Wait()
	}
	if err := r.openLines(); err != nil {
		return err
	}
	r.change()
	return r.members.Note(relayNote, "1")
}

// follow takes up arrivals and departures of bridges, until ctx ends.
func (r *relaying) follow(ctx context.Context) {
	for {
		select {
		case <-r.changed:
			r.reconcile()
			r.estates.Wake()
			r.holders.Look()
		case <-ctx.Done():
			return
		}
	}
}

// reconcile takes up which bridges are alive, and which sessions they have.
func (r *relaying) reconcile() {
	r.reconciling.Lock()
	defer r.reconciling.Unlock()
	peers := r.estates.Peers()
	join(r.directory, peers)
	connect(r.line, r.Relay, peers, r.log)
	r.draw(peers)
}

// join has a directory know all bridges that may publish before it hears of any:
// a session that moves waits for the messages that each of them has on its way.
func join(d *sessions.Directory, members []relay.Member) {
	var nodes []sessions.Node
	for _, m := range members {
		if m.Ready && !m.Adopted && !m.Waits {
			nodes = append(nodes, sessions.Node(m.Node))
		}
	}
	d.Joined(nodes...)
}

// connect has a relay work with the bridges that there are.
func connect(line *store.RelayLine, r *relay.Relay, members []relay.Member, log *slog.Logger) {
	others := make([]string, 0, len(members))
	for _, m := range members {
		others = append(others, m.ID)
	}
	if err := line.Listen(others, r.Take); err != nil {
		log.Warn("the bridge does not hear what others relay", "error", err)
	}
	r.Reconcile(members)
}

// await returns when this bridge knows the subscriptions and retained messages of
// the clients of all others, and sessions of ended bridges are served: then it may
// serve, and no subscriber elsewhere misses messages published here.
func (r *relaying) await(ctx context.Context, life *lifecycle.Lifecycle) error {
	select {
	case <-r.server.RetainedCurrent():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.members.Catchup(ctx); err != nil {
		return err
	}
	r.reconcile()
	if err := r.until(ctx, r.Met); err != nil {
		return err
	}
	if err := r.inherit(ctx); err != nil {
		return err
	}
	r.reconcile()
	life.Run("sessions of bridges that ended", r.estates.Run)
	return r.until(ctx, r.Ready)
}

// until returns when something holds.
func (r *relaying) until(ctx context.Context, holds func() bool) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	slow := time.After(5 * time.Second)
	for !holds() {
		select {
		case <-look.C:
		case <-slow:
			r.log.Warn("this bridge waits for what the clients of others subscribe to, and for sessions of bridges that have ended to be served", "bridges", r.Peers())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// unheardAfter is the age of an announcement that another bridge has not accepted from
// which on this one counts as unable to take clients: three times what a verdict takes.
const unheardAfter = 3 * cluster.SilentAfter

// heard fails if a bridge does not hear what this one tells it: clients that subscribe or
// connect here wait for that.
func heard(peers []relay.PeerStatus) error {
	for _, p := range peers {
		if p.Unheard > unheardAfter {
			return protocol.Errorf(protocol.TargetUnavailable, "bridge %q does not take what this one tells it: clients that subscribe or connect here wait for it", p.ID).With("bridge_id", p.ID)
		}
	}
	return nil
}

// owes reports whether a bridge that listens has not accepted all it was sent.
func (r *relaying) owes() bool {
	return slices.ContainsFunc(r.Peers(), func(p relay.PeerStatus) bool { return p.Queued > 0 && !p.Waits && !r.estates.Holds(p.ID) })
}

// owedPatience is the time that a bridge that stops waits for the others to accept
// the messages sent to them. Their publishers have no acknowledgement yet, and the
// parts that stop after the relay need time too.
const owedPatience = 5 * time.Second

// close ends the work, once the other bridges have accepted the messages sent to
// them or have had time for it. A bridge that ends meanwhile is not waited for.
func (r *relaying) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, owedPatience)
	defer cancel()
	r.stop()
	defer r.unwatch()
	r.reconcile() // this bridge has given back the sessions of others
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for r.owes() && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-r.changed:
			r.reconcile()
		case <-ctx.Done():
		}
	}
	r.closeLines()
	r.Close()
	return r.line.Listen(nil, nil)
}
