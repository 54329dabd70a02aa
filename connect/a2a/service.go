package a2a

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// mostAgents bounds the agents of a space.
const mostAgents = 64

// A Sealer encrypts values, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
	// Reseal seals anew a value that an older key has sealed; changed is false for a
	// value sealed by the newest.
	Reseal(sealed []byte, purpose string) (out []byte, changed bool, err error)
}

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// Options configure a [Service]. Table, Sealer, Router and Owned are needed.
type Options struct {
	On     bool // agents elsewhere may be added and used
	Guard  egress.Guard
	Table  records.Table[Agent]
	Sealer Sealer
	Router func() Router
	// Owned is the party that registered an agent of a space, if it is registered.
	Owned func(space protocol.SpaceID, id protocol.AgentID) (owner protocol.Party, ok bool)
	// Bus reaches agents on MQTT; it yields nil if A2A over MQTT is off.
	Bus func() Bus
	Log *slog.Logger
	Now func() time.Time
}

// bus reaches agents on MQTT, nil if they cannot be.
func (s *Service) bus() Bus {
	if s.opts.Bus == nil {
		return nil
	}
	return s.opts.Bus()
}

func noBus() *protocol.Error {
	return protocol.Errorf(protocol.InvalidState, "A2A over MQTT is off: a2a.mqtt is not set")
}

// Look has news of agents on MQTT taken up. It does not block.
func (s *Service) Look() { s.stir() }

// Knows reports whether a skill is that of an agent elsewhere.
func (s *Service) Knows(space protocol.SpaceID, skill protocol.SkillID) bool {
	a, _, ok := s.opts.Table.Get(key(space, protocol.AgentID(skill)))
	return ok && a.state() == StateApproved
}

// A Service knows the agents elsewhere.
type Service struct {
	opts      Options
	transport *http.Transport
	client    *http.Client
	wake      chan struct{} // has the keeper look
	adding    sync.Mutex    // held while an agent is counted and stored
}

// New makes the service.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{opts: o, transport: newTransport(o.Guard), wake: make(chan struct{}, 1)}
	s.client = newClient(s.transport)
	o.Table.OnChange(func(string, *Agent, *Agent) { s.stir() })
	return s
}

// stir wakes the keeper. It does not block.
func (s *Service) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(agentAdd, s.Add),
		commands.New(agentApprove, s.Approve),
		commands.New(agentGet, s.Get),
		commands.New(agentList, s.List),
		commands.New(agentRefresh, s.Refresh),
		commands.New(agentRemove, s.Remove),
	}
}

// principal acts for the agents elsewhere of a space. No credential authenticates as it.
func principal(space protocol.SpaceID) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindBridge, ID: "a2a", Space: space, Method: protocol.MethodBridge}
}

// on fails unless agents elsewhere may be used.
func (s *Service) on() error {
	if s.opts.On {
		return nil
	}
	return protocol.Errorf(protocol.InvalidState, "agents elsewhere are not used by this bridge: a2a.remote is off")
}

// in is the space that a call is about.
func in(call *commands.Call, named protocol.SpaceID) (protocol.SpaceID, error) {
	home := call.Principal.Home()
	if named == "" || named == home {
		return home, nil
	}
	if call.Principal.Unbounded() {
		return named, nil
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no space %q", named).With("space_id", named)
}

// Named are the params of commands about one agent.
type Named struct {
	ID    protocol.AgentID `json:"agent_id" doc:"the agent"`
	Space protocol.SpaceID `json:"space_id,omitempty" doc:"the space it is used in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p Named) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.ID), Space: p.Space}
}

// find is an agent that a call names.
func (s *Service) find(call *commands.Call, named Named) (*Agent, error) {
	space, err := in(call, named.Space)
	if err != nil {
		return nil, err
	}
	a, _, ok := s.opts.Table.Get(key(space, named.ID))
	if !ok {
		return nil, noAgent(named.ID)
	}
	return a, nil
}

func noAgent(id protocol.AgentID) error {
	return protocol.Errorf(protocol.NotFound, "there is no agent elsewhere %q", id).With("agent_id", string(id))
}

// change changes the record of an agent.
func (s *Service) change(ctx context.Context, a *Agent, edit func(*Agent) error) (*Agent, error) {
	changed, _, err := records.Change(ctx, s.opts.Table, key(a.Space, a.ID), func(old *Agent, _ uint64) (*Agent, error) {
		if old == nil {
			return nil, noAgent(a.ID)
		}
		now := *old
		return &now, edit(&now)
	})
	return changed, err
}

// timeout is the longest time that a call of the agent may take.
func (a *Agent) timeout() time.Duration {
	if a.TimeoutMS > 0 {
		return time.Duration(a.TimeoutMS) * time.Millisecond
	}
	return protocol.MaxTimeout
}

// credential is the agent's, "" for none.
func (s *Service) credential(a *Agent) (string, error) {
	if len(a.Credential) == 0 {
		return "", nil
	}
	plain, err := s.opts.Sealer.Open(a.Credential, purpose(a.Space, a.ID, a.URL))
	if err != nil {
		return "", protocol.Wrap(protocol.TargetUnavailable, err, "the credential for the agent cannot be read")
	}
	return string(plain), nil
}

// way is the way to an agent that has the card, and its interface there.
func (s *Service) way(a *Agent, c *Card) (way, *Interface, *protocol.Error) {
	id, mqtt := busAgent(a.URL)
	at, err := c.usable(mqtt)
	if err != nil {
		return nil, nil, protocol.Errorf(protocol.TargetUnavailable, "%s", err)
	}
	if mqtt {
		bus := s.bus()
		if bus == nil {
			return nil, nil, noBus()
		}
		return &busWay{bus: bus, space: a.Space, id: id, owner: a.Publisher, first: replyFirst, idle: streamIdle, delay: firstDelay}, at, nil
	}
	credential, err := s.credential(a)
	if err != nil {
		return nil, nil, protocol.AsError(err)
	}
	if credential != "" && origin(at.URL) != origin(a.URL) {
		return nil, nil, protocol.Errorf(protocol.TargetUnavailable, "the agent is elsewhere than its card: the credential for %s is not sent to %s", origin(a.URL), line(origin(at.URL), 200))
	}
	if refused := s.refuses(at.URL, credential != ""); refused != "" {
		return nil, nil, protocol.Errorf(protocol.TargetUnavailable, "the address of the agent may not be called: %s", refused)
	}
	return &httpWay{client: s.client, at: *at, credential: credential}, at, nil
}

// refuses is the reason why a URL may not be called, or "".
func (s *Service) refuses(text string, credential bool) string {
	u, fault := address(text)
	if fault != "" {
		return fault
	}
	if credential {
		if exposed := cleartext.Exposes(u); exposed != "" {
			return exposed
		}
	}
	return s.opts.Guard.RefusesURL(text)
}

// do runs a command as the principal of the agents of a space.
func (s *Service) do(ctx context.Context, space protocol.SpaceID, command string, params any, over commands.Line) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	request := protocol.Request{Version: protocol.Version, ID: protocol.NewID(), Command: command, Params: raw}
	if answer := s.opts.Router().Handle(ctx, commands.Inbound{Principal: principal(space), Request: &request, Door: "bridge", Line: over}); answer.Err != nil {
		return answer.Err
	}
	return nil
}
