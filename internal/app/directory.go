package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/exclusive"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/cluster/sessions"
)

// own has the bridge know which bridge owns which session, before it loads its own.
func (r *relaying) own(ctx context.Context, s *state) (err error) {
	r.directory, err = r.openDirectory(ctx, r.Relay, relay.Node(s.Members.Self()), s.metrics)
	if r.directory == nil {
		return err
	}
	s.life.Add("directory of sessions", func(context.Context) error { r.directory.Close(); return nil })
	r.holders = r.newHolders(s.Members.Self(), r.directory)
	s.life.Add("exclusive subscriptions", func(context.Context) error { r.holders.Close(); return nil })
	return err
}

// newHolders makes the holders of the exclusive subscriptions that a bridge has, or had.
func (r *relaying) newHolders(self cluster.Node, owners exclusive.Owners) *exclusive.Holders {
	return exclusive.New(exclusive.Options{
		Self: self, Records: r.exclusives, Members: r.members, Owners: owners, Log: r.log,
		CatchUp: r.catchUp(),
	})
}

// openDirectory makes the directory of sessions that a bridge has, or had, with a
// relay of its own.
func (r *relaying) openDirectory(ctx context.Context, by *relay.Relay, self relay.Node, metrics prometheus.Registerer) (*sessions.Directory, error) {
	log, err := r.store.OpenSessions(ctx)
	if err != nil {
		return nil, err
	}
	part := new(sessionsPart)
	part.voice = by.Join(partSessions, part)
	part.directory = sessions.New(sessions.Options{
		Self: sessions.Node(self), Secret: &r.secret, Log: log, Oldest: r.members.Oldest, Logger: r.log, Registerer: metrics,
		Say: part.say,
	})
	return part.directory, part.directory.Begin(ctx)
}

// partSessions is the number of the directory of sessions among the parts of bridges
// that speak with each other.
const partSessions = 4

// A sessionsPart is a directory as a part of a relay.
type sessionsPart struct {
	directory *sessions.Directory
	voice     *relay.Voice
}

// say sends a word of the directory, see [sessions.Options].
func (p *sessionsPart) say(to sessions.Node, word []byte, behind bool) bool {
	if behind {
		return p.voice.SayBehind(relay.Node(to), word)
	}
	return p.voice.Say(relay.Node(to), word)
}

// Everything implements [relay.Part]: the directory has no statements for all bridges.
func (p *sessionsPart) Everything(func([]byte)) {}

// Told implements [relay.Part].
func (p *sessionsPart) Told(relay.Node, []byte) {}

// Began implements [relay.Part].
func (p *sessionsPart) Began(from relay.Node) { p.directory.Joined(sessions.Node(from)) }

// Ended implements [relay.Part].
func (p *sessionsPart) Ended(relay.Node) {}

// Said implements [relay.Part].
func (p *sessionsPart) Said(from relay.Node, word []byte) {
	p.directory.Heard(sessions.Node(from), word)
}

// Gone implements [relay.Part].
func (p *sessionsPart) Gone(from relay.Node) { p.directory.Ended(sessions.Node(from)) }
