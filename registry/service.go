package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/effects"
	"github.com/aibridge/aibridge/registry/schema"
)

// Options configure a [Service]. Tables and Publisher are needed; other zero
// fields mean the defaults.
type Options struct {
	Agents    records.Table[Agent]
	Skills    records.Table[SkillRecord]
	Resources records.Table[ResourceRecord]
	Joins     records.Table[JoinRecord] // join tokens; nil makes none
	Effects   effects.Options           // of capabilities with effect keys; without records none can be registered
	Names     records.Table[NameRecord] // of skills that are gone; nil keeps none
	Publisher ask.Publisher

	Topics    protocol.Topics
	BridgeID  string          // sender_id of messages to agents, default "aibridge"
	Limits    protocol.Limits // of agents' answers
	Heartbeat time.Duration   // between heartbeats of an agent, default 30 s
	// AllowPrivate lets skills be called over HTTP at loopback and private
	// addresses. Link-local addresses and cloud metadata stay out of reach.
	AllowPrivate bool
	// Routes decides which agents may be route agents. Without it none may.
	Routes RouteAuthorizer
	// CertifiedFor reports whether a certificate, of whose key the client has proved
	// possession, is valid and for a skill. Nil says that none is.
	CertifiedFor func(protocol.Serial, protocol.SpaceID, protocol.SkillID) bool
	// CapOwners are the owners of the Caps that know a skill, which need not be
	// registered, as their own or as a member of a group. Nil says that none does.
	CapOwners func(protocol.SpaceID, protocol.SkillID) []protocol.Party
	// CapsKnowing lists the Caps that know a skill, as CapOwners has it. Nil says
	// that none does.
	CapsKnowing func(protocol.SpaceID, protocol.SkillID) []protocol.CapID
	// TellsCaller reports whether an agent is told the caller of a request. Nil: none is.
	TellsCaller func(space protocol.SpaceID, id protocol.AgentID) bool
	// MayName is the reason why a principal may not register an agent or a skill of a
	// name, nil if it may. A nil func permits every name.
	MayName func(space protocol.SpaceID, id string, who *protocol.Principal) error
	// Reported is the state that an agent reported last of one of its skills, as
	// a JSON object; ok is false for none. It does not block. Nil: no agent
	// reports.
	Reported func(protocol.SpaceID, protocol.AgentID, protocol.SkillID) (document json.RawMessage, ok bool)
	// Stamp is the keyed hash that join tokens are recognised by, which Stamped
	// does. Nil makes none.
	Stamp   func(id, secret string) []byte
	Stamped func(stamp []byte, id, secret string) bool
	// AgentChanged is called after an agent was registered or unregistered,
	// connected or disconnected, or went online or offline. It must not block. It
	// may be nil.
	AgentChanged func(space protocol.SpaceID, agent protocol.AgentID)
	// Models are the language models that an agent answers for, for its card.
	// Nil knows of none.
	Models func(space protocol.SpaceID, agent protocol.AgentID) []CardModel
	// Inside reports whether an agent is a part of the bridge, which is online
	// while it is alive though it gets no requests. Nil: none is.
	Inside func(*Agent) bool
	// Certified fails if a certificate is no longer valid. Agents that were
	// registered with one are suspended when it ends. Nil: all are valid.
	Certified func(protocol.Serial) error
	// Mistaken is called with the mistakes of agents with requests, and the reason
	// in words. It must not block. It may be nil.
	Mistaken func(agent ask.AgentKey, what ask.Mistake, reason string)
	// Cluster connects the service with the registries of the other bridges of a
	// cluster. Nil for a bridge that is alone.
	Cluster func(*Service) Voice
	// Owner is the bridge that waits for the answer to an invocation which outlives
	// processes, by its id. Nil: there is none.
	Owner func(invocation string) (ask.Bridge, bool)
	// Disconnect ends an MQTT connection, named as in [Service.Connected],
	// whose agent was registered again by another client of the same
	// principal. It must not block. Nil leaves such connections alone.
	Disconnect func(conn any, reason string)

	Log        *slog.Logger
	Tracer     trace.Tracer          // nil records no spans
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

func (o *Options) setDefaults() {
	if o.BridgeID == "" {
		o.BridgeID = "aibridge"
	}
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 30 * time.Second
	}
	if o.Inside == nil {
		o.Inside = func(*Agent) bool { return false }
	}
	if o.Mistaken == nil {
		o.Mistaken = func(ask.AgentKey, ask.Mistake, string) {}
	}
	if o.AgentChanged == nil {
		o.AgentChanged = func(protocol.SpaceID, protocol.AgentID) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// A Service keeps the registry and calls skills. Its methods may be called at
// the same time by many goroutines.
type Service struct {
	opts Options
	log  *slog.Logger

	index   *index
	board   *board
	asking  *ask.Service
	news    *announce.Queue[announcement, ask.AgentKey]
	seq     uint64 // of events, counted by their publisher
	schemas *schema.Cache
	metrics *metrics
	effects *effects.Keeper // nil without records
	inDoubt chan struct{}   // a caller waits for an unknown outcome, or an agent is back

	voice       Voice // nil for a bridge that is alone
	askers      askers
	skillsEpoch atomic.Uint64 // moves before a change of a skill is acknowledged

	ids   *ask.IDs
	newID func() string // of envelopes, made of ids
}

// compiledSchemas is the number of compiled schemas that are kept.
const compiledSchemas = 4096

// New makes a service. It follows its tables from then on, so it comes before
// they are loaded; [Service.Run] comes after.
func New(o Options) (*Service, error) {
	o.setDefaults()
	s := &Service{
		opts:    o,
		log:     o.Log,
		index:   newIndex(),
		news:    announce.New[announcement, ask.AgentKey](maxAnnouncements),
		schemas: schema.NewCache(compiledSchemas),
		ids:     ask.NewIDs(),
		inDoubt: make(chan struct{}, 1),
	}
	if o.Effects.Records != nil {
		o.Effects.Settled = s.effectSettled
		s.effects = effects.New(o.Effects)
	}
	s.newID = s.ids.New
	s.board = newBoard(o.Topics, o.Heartbeat, s.presenceChanged)
	s.board.left = func(a *Agent, at ask.Bridge, reason string) { s.asking.Departed(a.Key(), at, reason) }
	if o.Disconnect != nil {
		s.board.displaced = o.Disconnect
	}
	s.board.stirred = func(a *Agent) { s.opts.AgentChanged(a.Space, a.ID) }
	s.board.certified, s.board.callable, s.board.inside = s.certified, s.callable, o.Inside
	if o.Cluster != nil {
		s.voice = o.Cluster(s)
		s.board.tell = s.tellSign
	}
	var err error
	if s.asking, err = ask.New(s.askOptions()); err == nil {
		s.metrics, err = newMetrics(o.Registerer, s)
	}
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	o.Agents.OnChange(s.index.agentChanged)
	o.Agents.OnChange(s.agentAnnounced)
	o.Agents.OnChange(s.board.agentChanged)
	o.Agents.OnChange(s.agentRemoved)
	o.Agents.OnChange(s.agentTold)
	o.Skills.OnChange(func(string, *SkillRecord, *SkillRecord) { s.skillsEpoch.Add(1) })
	o.Skills.OnChange(s.index.skillChanged)
	o.Skills.OnChange(s.skillAnnounced)
	o.Resources.OnChange(s.index.resourceChanged)
	o.Resources.OnChange(s.resourceAnnounced)
	return s, nil
}

func (s *Service) askOptions() ask.Options {
	o := &s.opts
	var others ask.Others
	if s.voice != nil {
		others = s
	}
	var tells func(ask.AgentKey) bool
	if o.TellsCaller != nil {
		tells = func(key ask.AgentKey) bool { return o.TellsCaller(key.Space, key.ID) }
	}
	return ask.Options{
		Tells:     tells,
		Others:    others,
		Directory: directory{s}, Publisher: o.Publisher, Topics: o.Topics, BridgeID: o.BridgeID, Limits: o.Limits, AllowPrivate: o.AllowPrivate,
		NewID: func() string { return s.newID() }, Made: s.ids.Made, IDs: s.ids, Log: o.Log, Tracer: o.Tracer, Registerer: o.Registerer,
	}
}

// Run publishes every agent's card, and then what changes, and watches
// leases, until ctx ends. Events before Run are not published.
func (s *Service) Run(ctx context.Context) error {
	s.suspendEnded()
	s.news.Begin()
	for a := range s.index.allAgents() {
		s.card(a.Key())
	}
	var running sync.WaitGroup
	running.Go(func() { s.announce(ctx) })
	running.Go(func() { s.watchLeases(ctx) })
	running.Go(func() { s.reconcile(ctx) })
	running.Wait()
	s.asking.Close()
	return nil
}

func (s *Service) watchLeases(ctx context.Context) {
	ticker := time.NewTicker(tickOf(s.opts.Heartbeat))
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.board.expire(now)
		case <-ctx.Done():
			return
		}
	}
}

// Commands are the commands of the registry.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(agentRegister, s.RegisterAgent),
		commands.New(agentUnregister, s.UnregisterAgent),
		commands.New(agentHeartbeat, s.Heartbeat),
		commands.New(agentGet, s.GetAgent),
		commands.New(agentList, s.ListAgents),
		commands.New(agentTag, s.TagAgent),
		commands.New(skillRegister, s.RegisterSkill),
		commands.New(skillUnregister, s.UnregisterSkill),
		commands.New(skillDiscover, s.DiscoverSkills),
		commands.New(skillProviderAdd, s.AddProvider),
		commands.New(skillProviderRemove, s.RemoveProvider),
		commands.New(skillJoinCreate, s.CreateJoin),
		commands.New(skillJoinList, s.ListJoins),
		commands.New(skillJoinRevoke, s.RevokeJoin),
		commands.New(skillEffectList, s.ListEffects),
		commands.New(skillEffectSettle, s.SettleEffect),
		commands.NewPrepared(skillInvoke, s.startInvoke, s.prepareInvoke),
		commands.New(resourceRegister, s.RegisterResource),
		commands.New(resourceRemove, s.RemoveResource),
		commands.New(resourceList, s.ListResources),
		commands.New(resourceGet, s.GetResource),
	}
}

// Connected notes that an MQTT client is there. conn tells connections apart:
// any comparable value that a later connection of the same client does not
// share.
func (s *Service) Connected(conn any, clientID string, who *protocol.Principal) {
	s.board.connected(conn, clientID, who)
}

// Disconnected notes that a connection and its subscriptions ended.
func (s *Service) Disconnected(conn any, reason string) { s.board.disconnected(conn, reason) }

// Subscribed notes a subscription of a connection, with the filter of SUBSCRIBE.
func (s *Service) Subscribed(conn any, filter string) { s.board.subscribed(conn, filter) }

// Unsubscribed notes the end of a subscription.
func (s *Service) Unsubscribed(conn any, filter string) { s.board.unsubscribed(conn, filter) }

// presenceChanged is called by the board, which is locked.
func (s *Service) presenceChanged(a *Agent, online bool, reason string) {
	s.metrics.transition(online)
	s.opts.AgentChanged(a.Space, a.ID)
	s.card(a.Key())
	name := "agent.offline"
	if online {
		name = "agent.online"
		s.stirDoubts()
	} else {
		s.asking.Offline(a.Key(), reason)
	}
	s.change("agent", name, agentEvent{a.ID, a.Space, a.Type, statusOf(online), reason})
}
