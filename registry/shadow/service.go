package shadow

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure a [Service]. Table, Agents and Publish are needed; other
// zero fields mean the defaults.
type Options struct {
	Table   records.Table[Record]
	Agents  Agents
	Publish func(protocol.Recipients, protocol.Message) (receivers int, err error)
	// Retained yields the topics, covered by a filter, that a message is retained
	// on.
	Retained func(filter string) iter.Seq2[string, protocol.SpaceID]
	// Authorize decides whether a principal may do something by a publication. Nil
	// refuses.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
	// Grants judges the credentials of publishers. Nil: they hold.
	Grants grant.Authority
	// Refused is called with the reason why a published report is not taken. It
	// must not block. It may be nil.
	Refused func(who protocol.Party, agent protocol.AgentID, why *protocol.Error)

	Topics protocol.Topics
	Log    *slog.Logger
	Now    func() time.Time
}

func (o *Options) setDefaults() {
	if o.Retained == nil {
		o.Retained = func(string) iter.Seq2[string, protocol.SpaceID] {
			return func(func(string, protocol.SpaceID) bool) {}
		}
	}
	if o.Authorize == nil {
		o.Authorize = func(context.Context, *protocol.Principal, string, commands.Resource) error {
			return protocol.Errorf(protocol.PermissionDenied, "nobody may")
		}
	}
	if o.Refused == nil {
		o.Refused = func(protocol.Party, protocol.AgentID, *protocol.Error) {}
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// A Service keeps the state of agents. Its methods may be called at the same
// time by many goroutines.
type Service struct {
	Options
	index   *index
	news    *announce.Queue[struct{}, ref]
	stirred *announce.Queue[struct{}, ref] // agents that may have lost skills, or ended
	told    map[ref]told                   // used by the publishing goroutine alone
	intake  intake
}

// New makes a service. It follows its table from then on, so it comes before
// that is loaded; [Service.Run] comes after.
func New(o Options) *Service {
	o.setDefaults()
	s := &Service{
		Options: o, index: newIndex(), told: make(map[ref]told),
		news: announce.New[struct{}, ref](0), stirred: announce.New[struct{}, ref](0),
	}
	s.intake.lines = make(map[ref]*line)
	o.Table.OnChange(s.index.changed)
	o.Table.OnChange(func(_ string, old, new *Record) {
		if new == nil {
			new = old
		}
		s.news.Value(new.ref())
	})
	return s
}

// Run publishes the state of all agents, and then its changes, and removes the
// state of agents that are gone, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.news.Begin()
	s.stirred.Begin()
	s.withdrawLeftovers()
	for _, agent := range s.index.all() {
		s.stirred.Value(agent)
		s.news.Value(agent)
	}
	var running sync.WaitGroup
	running.Go(func() {
		s.stirred.Run(ctx, announce.Publisher[struct{}, ref]{Value: func(agent ref) { s.sweep(ctx, agent) }})
	})
	s.news.Run(ctx, announce.Publisher[struct{}, ref]{Value: s.publish})
	running.Wait()
	s.intake.close()
	return nil
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(stateGet, s.Get),
		commands.New(desiredSet, s.SetDesired),
		commands.New(stateReport, s.Report),
	}
}

// Stirred notes that an agent was registered or unregistered, or provides other
// skills than before. It does not block.
func (s *Service) Stirred(space protocol.SpaceID, agent protocol.AgentID) {
	s.stirred.Value(ref{space, agent})
}

// sweep removes the documents of an agent that is gone, and those of skills that
// it provides no longer.
func (s *Service) sweep(ctx context.Context, of ref) {
	if ctx.Err() != nil { // the next process looks at all
		return
	}
	a, known := s.Agents.Shadowed(of.space, of.agent)
	for skill, p := range s.index.of(of) {
		_, provided := s.Agents.StateOf(of.space, of.agent, skill)
		for _, r := range []*Record{p.desired, p.reported} {
			if r == nil || known && provided && r.Born == a.Born {
				continue
			}
			at := place{Agent{Space: r.Space, ID: r.Agent}, r.Skill, r.Side}
			key := at.key()
			if held, revision, ok := s.Table.Get(key); !ok || held.Born != r.Born {
				continue
			} else if err := s.Table.Delete(ctx, key, revision); err != nil && !records.Raced(err) {
				s.Log.Warn("state of an agent that is gone not removed", "agent", of.agent, "space", of.space, "error", err)
			}
		}
	}
}

// Reported is the last report of an agent of one of its skills, as a JSON object
// that must not be changed; ok is false if it reported nothing. It reads memory
// only.
func (s *Service) Reported(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) (document json.RawMessage, ok bool) {
	a, known := s.Agents.Shadowed(space, agent)
	if !known {
		return nil, false
	}
	r := s.index.get(a.ref(), skill).standing(a.Born).reported
	if r == nil {
		return nil, false
	}
	return r.State, true
}
