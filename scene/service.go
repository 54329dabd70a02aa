package scene

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. Everything before Retained is needed; other
// zero values mean the defaults.
type Options struct {
	Scenes       records.Table[Scene]
	Skills       Skills
	Channels     Channels
	Certificates Certificates
	Publish      func(protocol.Recipients, protocol.Message) (receivers int, err error)

	// Retained yields the topics, covered by a filter, that a message is
	// retained on.
	Retained func(filter string) iter.Seq2[string, protocol.SpaceID]
	// MembershipLost is called when a principal may have lost the right to hear a
	// scene. It must not block.
	MembershipLost func(protocol.SceneType, protocol.CapID)

	// Strict asks every declaring skill for a certificate, in any role.
	Strict bool
	// Patience is the time that a RouteAgent that declared itself, or was in charge
	// when the bridge stopped, counts as being there before its agent is
	// online: three heartbeats, 90 s, by default.
	Patience time.Duration
	// InCharge is closed once this process looks after the scenes: decides which member
	// leads, and notices departures. Nil: from the start.
	InCharge <-chan struct{}

	// Declared notifies the process that looks after the scenes of a RouteAgent's
	// declaration here, if that is another one. Nil if it is always this one.
	Declared func(context.Context, Declaration)

	Topics   protocol.Topics
	BridgeID string // sender_id of events, default "aibridge"
	Log      *slog.Logger
	Now      func() time.Time
}

func (o *Options) setDefaults() {
	if o.Retained == nil {
		o.Retained = func(string) iter.Seq2[string, protocol.SpaceID] {
			return func(func(string, protocol.SpaceID) bool) {}
		}
	}
	if o.InCharge == nil {
		from := make(chan struct{})
		close(from)
		o.InCharge = from
	}
	if o.MembershipLost == nil {
		o.MembershipLost = func(protocol.SceneType, protocol.CapID) {}
	}
	if o.Patience == 0 {
		o.Patience = 90 * time.Second
	}
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.BridgeID == "" {
		o.BridgeID = "aibridge"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// A Service keeps scenes. Its methods may be called at the same time by many
// goroutines.
type Service struct {
	opts   Options
	index  *index
	leases *leases
	notes  *notes
	news   *news
	seq    uint64 // of events, counted by their publisher
}

// New makes a service. It follows its table from then on, so it comes before
// it is loaded; [Service.Run] comes after.
func New(o Options) *Service {
	o.setDefaults()
	s := &Service{opts: o, index: newIndex(), leases: newLeases(), notes: newNotes(), news: announce.New[announcement, struct{}](maxAnnouncements)}
	o.Scenes.OnChange(s.sceneChanged)
	return s
}

// Run publishes the state of every scene, and then every change, and follows
// agents, Caps and certificates, until ctx ends. Events before Run are not
// published.
func (s *Service) Run(ctx context.Context) error {
	s.begin()
	var running sync.WaitGroup
	running.Go(func() {
		s.withdrawLeftovers()
		s.announce(ctx)
	})
	running.Go(func() {
		select {
		case <-s.opts.InCharge:
		case <-ctx.Done():
			return
		}
		s.takeCharge()
		s.watch(ctx)
	})
	running.Wait()
	return nil
}

// takeCharge gives the RouteAgents in charge time to come back, and has every scene
// checked.
func (s *Service) takeCharge() {
	until := s.opts.Now().Add(s.opts.Patience)
	for key, scene := range s.opts.Scenes.All() {
		if !scene.suspended() {
			s.leases.grant(seat{key, scene.Acting}, lease{until: until})
		}
		s.notes.leave(func() { s.notes.scenes[key] = true })
	}
}

// begin has the state of every scene published.
func (s *Service) begin() {
	s.news.Begin()
	for key, scene := range s.opts.Scenes.All() {
		_, revision, _ := s.opts.Scenes.Get(key)
		s.tell(scene, stateEvent, Event{Reason: scene.Reason, Status: scene.status(), Acting: scene.Acting, Revision: revision})
	}
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(declare, s.Declare),
		commands.New(declareCancel, s.Cancel),
		commands.New(query, s.Query),
		commands.New(join, s.Join),
		commands.New(leave, s.Leave),
	}
}

// MayHearScene reports whether a principal may hear the events of a scene.
// Members may, by the identity of their connection - a skill, or an agent that
// serves one -, and principals that declared a member.
func (s *Service) MayHearScene(who *protocol.Principal, t protocol.SceneType, c protocol.CapID) bool {
	space := who.Home()
	scene, _, ok := s.opts.Scenes.Get(sceneKey(space, t, c))
	if !ok {
		return false
	}
	if who.Kind == protocol.KindAgent {
		for _, skill := range s.opts.Skills.ServedBy(space, protocol.AgentID(who.ID)) {
			if scene.member(skill) >= 0 {
				return true
			}
		}
	}
	for i := range scene.Members {
		if m := &scene.Members[i]; m.Principal.Is(who) || is(who, m.Skill) {
			return true
		}
	}
	return false
}
