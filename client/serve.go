package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// A ServedSkill is a skill that is registered and answered for.
type ServedSkill struct {
	server *server
	skill  Skill
}

// ServeSkill registers a skill and runs its handlers for its callers, until
// [ServedSkill.Withdraw] or the end of the client. The first skill also registers the
// agent and starts its heartbeat. A skill that is served already is replaced. ctx bounds
// the registration only.
//
// An agent with several skills serves them with [Client.ServeSkills].
func (c *Client) ServeSkill(ctx context.Context, skill Skill) (*ServedSkill, error) {
	served, err := c.ServeSkills(ctx, skill)
	if err != nil {
		return nil, err
	}
	return served[0], nil
}

// ServeSkills is [Client.ServeSkill] for several skills, with all of them ready
// before the agent can be reached: a call that waited for the agent may come at
// once, for any of them. Skills that cannot be registered are nil in the list,
// which is as long as that of the skills; the error joins the reasons. With a skill
// that is not well formed nothing is done.
func (c *Client) ServeSkills(ctx context.Context, skills ...Skill) ([]*ServedSkill, error) {
	if c.server == nil {
		return nil, protocol.Errorf(protocol.InvalidState, "only agents serve skills: dial with client.WithAgent")
	}
	served := make([]*ServedSkill, len(skills))
	for i := range skills {
		if err := skills[i].check(); err != nil {
			return nil, err
		}
		served[i] = &ServedSkill{server: c.server, skill: skills[i]}
	}
	if len(served) == 0 {
		return nil, nil
	}
	return served, c.server.serve(ctx, served)
}

// ID is the skill's id.
func (s *ServedSkill) ID() protocol.SkillID { return s.skill.ID }

// Withdraw unregisters the skill; other agents may go on to provide it. Invocations at work are finished.
func (s *ServedSkill) Withdraw(ctx context.Context) error {
	if !s.server.remove(s) {
		return nil // replaced, or withdrawn before
	}
	_, err := Call[struct{}](ctx, s.server.client, "skill.unregister", s.server.about(map[string]any{"skill_id": s.skill.ID}))
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil
	}
	return err
}

// A server answers for the skills of an agent.
type server struct {
	client *Client
	agent  Agent
	jobs   *jobs

	registering sync.Mutex // one registration at a time
	following   sync.Mutex // guards follows
	follows     bool       // it listens to the delta of the agent's state
	guest       bool       // it is one of several at a client, whose connection is its presence

	mu       sync.Mutex
	skills   map[protocol.SkillID]*ServedSkill
	begun    bool
	interval time.Duration // between heartbeats
}

// defaultHeartbeat is the interval until the bridge has named one.
const defaultHeartbeat = 30 * time.Second

func newServer(c *Client, agent Agent) *server {
	s := &server{client: c, agent: agent, skills: make(map[protocol.SkillID]*ServedSkill), interval: defaultHeartbeat}
	s.jobs = newJobs(s)
	return s
}

// started reports whether the client is an agent already.
func (s *server) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// serve answers for the skills, and registers them. Those for which that fails are
// nil afterwards.
func (s *server) serve(ctx context.Context, served []*ServedSkill) error {
	previous := make([]*ServedSkill, len(served))
	for i := range served {
		previous[i] = s.put(served[i])
	}
	unbegun := s.begin(ctx)
	s.registering.Lock()
	defer s.registering.Unlock()
	var failed error
	for i := range served {
		err := unbegun
		if err == nil {
			err = s.offer(ctx, served[i])
			failed = errors.Join(failed, err)
		}
		if err != nil {
			s.restore(served[i], previous[i])
			served[i] = nil
		}
	}
	if unbegun == nil && s.guest {
		unbegun = s.listen(ctx)
	}
	return cmp.Or(unbegun, failed)
}

// listen has the requests of one of several agents of a client come: their topic is
// the client's only once the agent is registered.
func (s *server) listen(ctx context.Context) error {
	return failed(subscribe(ctx, s.client.mqtt, s.client.Topics().AgentRequest(s.agent.ID), 1))
}

// begin makes the client an agent: it listens, is registered and is alive.
func (s *server) begin(ctx context.Context) error {
	s.registering.Lock()
	defer s.registering.Unlock()
	if s.started() {
		return nil
	}
	c := s.client
	l, err := c.online(ctx)
	if err != nil {
		return err
	}
	if s.guest { // it is listened for when its skills are registered
		s.start(true)
		if err := s.registerAgent(ctx); err != nil {
			s.start(false)
			return err
		}
		return nil
	}
	topic := c.Topics().AgentRequest(s.agent.ID)
	s.start(true) // from here on a reconnect subscribes as well
	if err := subscribe(ctx, c.mqtt, topic, 1); err != nil && l.ctx.Err() == nil {
		s.start(false)
		return failed(err)
	}
	if err := s.registerAgent(ctx); err != nil {
		s.start(false)
		_ = c.unsubscribe(ctx, topic)
		return err
	}
	c.spawn(s.beat)
	return nil
}

func (s *server) start(begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = begun
}

func (s *server) put(served *ServedSkill) (previous *ServedSkill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	previous = s.skills[served.skill.ID]
	s.skills[served.skill.ID] = served
	return previous
}

// restore undoes put.
func (s *server) restore(served, previous *ServedSkill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skills[served.skill.ID] != served {
		return
	}
	if previous == nil {
		delete(s.skills, served.skill.ID)
		return
	}
	s.skills[served.skill.ID] = previous
}

func (s *server) remove(served *ServedSkill) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skills[served.skill.ID] != served {
		return false
	}
	delete(s.skills, served.skill.ID)
	return true
}

func (s *server) find(id protocol.SkillID) *ServedSkill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.skills[id]
}

// announce registers the agent and all skills again, on a fresh connection:
// the bridge may not be the one it was. The error is one that may pass; refusals of
// the bridge are logged.
func (s *server) announce(ctx context.Context) error {
	s.registering.Lock()
	defer s.registering.Unlock()
	if !s.started() {
		return nil // the first registration failed
	}
	if err := s.registerAgent(ctx); err != nil {
		return s.complain(ctx, "agent not registered again", err)
	}
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.skills))
	s.mu.Unlock()
	var failed error
	for _, served := range all {
		if s.find(served.skill.ID) != served {
			continue // withdrawn meanwhile
		}
		if err := s.registerSkill(ctx, served); err != nil {
			failed = errors.Join(failed, s.complain(ctx, "skill not registered again", err, "skill", served.skill.ID))
		}
	}
	if s.guest {
		failed = errors.Join(failed, s.listen(ctx))
	}
	return failed
}

// complain logs an error that callers do not see, unless the connection was lost with it,
// and returns it only if it is transient.
func (s *server) complain(ctx context.Context, what string, err error, args ...any) error {
	if ctx.Err() != nil {
		return err
	}
	s.client.log.Error(what, append(args, "agent", s.agent.ID, "error", err)...)
	if code := protocol.CodeOf(err); code < protocol.VFSUnavailable {
		return nil // 1xxx to 3xxx stay as they are
	}
	return err
}

type agentParams struct {
	ID    protocol.AgentID `json:"agent_id"`
	Type  AgentType        `json:"type"`
	Name  string           `json:"name,omitempty"`
	Space protocol.SpaceID `json:"space_id,omitempty"`
	Tags  selector.Tags    `json:"tags,omitempty"`
}

func (s *server) registerAgent(ctx context.Context) error {
	registered, err := Call[struct {
		Heartbeat float64 `json:"heartbeat_interval"` // seconds
	}](ctx, s.client, "agent.register", agentParams{s.agent.ID, s.agent.Type, s.agent.Name, s.agent.Space, s.agent.Tags})
	if err != nil {
		return err
	}
	if registered.Heartbeat > 0 {
		s.mu.Lock()
		s.interval = time.Duration(min(registered.Heartbeat, 3600) * float64(time.Second))
		s.mu.Unlock()
	}
	return nil
}

func (s *server) registerSkill(ctx context.Context, served *ServedSkill) error {
	skill, err := served.skill.params()
	if err != nil {
		return err
	}
	params := s.about(map[string]any{"skill": skill})
	if served.skill.Join != "" {
		params["join"] = served.skill.Join
	}
	_, err = Call[struct{}](ctx, s.client, "skill.register", params)
	return err
}

// about adds to params which agent they are about.
func (s *server) about(params map[string]any) map[string]any {
	params["agent_id"] = s.agent.ID
	if s.agent.Space != "" {
		params["space_id"] = s.agent.Space
	}
	return params
}

// beat sends heartbeats of the agent until the client ends. An agent that the
// bridge has forgotten is registered again.
func (s *server) beat() {
	ctx := s.client.ctx
	for {
		s.mu.Lock()
		interval := s.interval
		s.mu.Unlock()
		if sleep(ctx, interval) != nil {
			return
		}
		_, err := Call[struct{}](ctx, s.client, "agent.heartbeat", s.about(map[string]any{}), WithTimeout(interval))
		switch {
		case protocol.CodeOf(err) == protocol.NotFound:
			_ = s.announce(ctx) // logged; the next heartbeat tries again
		case err != nil:
			_ = s.complain(ctx, "heartbeat failed", err)
		}
	}
}

// errStopping is the reason why invocations end when the client does.
var errStopping = protocol.Errorf(protocol.ShuttingDown, "the agent is shutting down")

// close cancels the calls in progress and waits for their answers to leave.
func (s *server) close() { s.jobs.close(closeTimeout) }

// receive takes a message on the agent's request topic. It waits for nothing but a
// place among the answers on their way (see jobs.post).
func (s *server) receive(m *Message) {
	request, err := protocol.DecodeRequest(m.Payload, protocol.Limits{MaxBytes: max(len(m.Payload), 1)})
	if err != nil {
		if request.ID != "" {
			s.jobs.refuse(request, m, protocol.AsError(err))
		}
		return
	}
	switch request.Command {
	case "task.cancel":
		s.jobs.cancel(request)
	case "task.get":
		s.jobs.recall(request, m)
	case "skill.invoke":
		s.invoke(request, m)
	default:
		s.jobs.refuse(request, m, protocol.Errorf(protocol.UnknownCommand, "this agent does not know the command %s", request.Command))
	}
}

func (s *server) invoke(request *protocol.Request, m *Message) {
	in, err := newInvocation(request, m)
	if err != nil {
		s.jobs.refuse(request, m, protocol.AsError(err))
		return
	}
	served := s.find(in.SkillID)
	if served == nil {
		s.jobs.refuse(request, m, protocol.Errorf(protocol.NotFound, "this agent does not serve the skill %s", in.SkillID))
		return
	}
	for i := range served.skill.Capabilities {
		if c := &served.skill.Capabilities[i]; c.ID == in.CapabilityID {
			s.jobs.start(in, m, served.skill.handler(c))
			return
		}
	}
	s.jobs.refuse(request, m, protocol.Errorf(protocol.NotFound, "skill %s has no capability %s", in.SkillID, in.CapabilityID))
}
