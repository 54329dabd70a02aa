package app

import (
	"context"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/estate"
	"github.com/aibridge/aibridge/cluster/exclusive"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/cluster/sessions"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
)

// An adopted estate is the sessions of a bridge that has ended, as this one serves
// them: a broker without listeners on that bridge's journal, with a relay of its
// own under that bridge's name.
type adopted struct {
	r       *relaying
	journal *store.Journal
	broker  *broker.Broker
	relay   *relay.Relay
	line    *store.RelayLine
	// directory knows which of the sessions are still that bridge's.
	directory *sessions.Directory
	holders   *exclusive.Holders // of topics that sessions have alone
}

// serve serves the sessions of a bridge that has ended, see [estate.Options].
func (r *relaying) serve(ctx context.Context, bridge string, run uint64) (estate.Server, error) {
	of := bridge
	if bridge == whoWorkedAlone {
		of = ""
	}
	journal, err := r.store.OpenJournalOf(ctx, of)
	if err != nil {
		return nil, err
	}
	a := &adopted{r: r, journal: journal, line: r.store.Relay(bridge)}
	a.relay = relay.New(relay.Options{
		Self: relay.Node{ID: bridge, Epoch: run}, Key: r.key, Transport: a.line, Wire: r.members.Wire(), Log: r.log.With("of", bridge),
	})
	if a.directory, err = r.openDirectory(ctx, a.relay, relay.Node{ID: bridge, Epoch: run}, nil); err == nil {
		a.holders = r.newHolders(cluster.Node{ID: bridge, Epoch: run}, a.directory)
		a.broker, err = r.server.Adopt(bridge, journal, a.relay, a.directory, a.holders)
	}
	if err != nil {
		journal.Close()
		if a.directory != nil {
			a.directory.Close()
		}
		return nil, err
	}
	a.directory.Start(a.broker)
	a.holders.Start(a.broker)
	a.relay.Start(relay.Of(a.broker))
	return a, nil
}

// whoWorkedAlone is the name for the bridges of a time when one was active at a
// time. No bridge has such an id. Their sessions are an estate like others.
const whoWorkedAlone = "<who worked alone>"

// inherit has the sessions served that clients had while one bridge worked at a
// time, if there are any.
func (r *relaying) inherit(ctx context.Context) error {
	there, err := r.store.HasJournalOf(ctx, "")
	if err != nil || !there {
		return err
	}
	record, revision, known := r.records.Get(whoWorkedAlone)
	switch {
	case !known:
		_, err = r.records.Create(ctx, whoWorkedAlone, &estate.Record{Run: 1})
	case record.Vacant: // it may have been in use again
		_, err = r.records.Update(ctx, whoWorkedAlone, &estate.Record{Run: record.Run}, revision)
	}
	if code := protocol.CodeOf(err); code == protocol.AlreadyExists || code == protocol.RevisionConflict {
		return nil // another bridge did it
	}
	return err
}

// Reconcile implements [estate.Server].
func (a *adopted) Reconcile(members []relay.Member) {
	join(a.directory, members) // whose parts send nothing to a dead one
	connect(a.line, a.relay, members, a.r.log)
}

// Vacant implements [estate.Server].
func (a *adopted) Vacant() bool { return a.broker.Vacant() }

// Count implements [estate.Server].
func (a *adopted) Count() int { return a.broker.Count() }

// Close implements [estate.Server].
func (a *adopted) Close(ctx context.Context) (vacant bool) {
	a.broker.GiveUpWills(ctx)
	a.relay.Close()
	if err := a.line.Listen(nil, nil); err != nil {
		a.r.log.Warn("the bridge still hears what others relay to one that has ended", "error", err)
	}
	if err := a.broker.Close(ctx); err != nil {
		a.r.log.Warn("the sessions of a bridge that has ended are not closed", "error", err)
	}
	a.holders.Close()
	a.directory.Close()
	a.journal.Close()
	return a.broker.Vacant()
}
