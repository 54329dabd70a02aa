package a2a

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Intervals of the work on agents.
const (
	beatEvery  = 15 * time.Second // heartbeats, and attempts
	readEvery  = 5 * time.Minute  // cards are read
	retryEvery = 30 * time.Second // those of agents that cannot be reached
	mostReads  = 8                // at a time
)

// Agents are the registry, as far as a way to agents needs it.
type Agents interface {
	// AnswerOver takes an answer that came over a line.
	AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool
	// HungUp is called when a line has ended.
	HungUp(line commands.Line, reason string)
}

// A keeper keeps the approved agents registered and online, and reads their cards.
type keeper struct {
	*Service
	sealer Sealer
	agents Agents

	members map[string]*member // by key
	places  chan struct{}      // of cards that are read
	working sync.WaitGroup
}

// A member is an agent that is registered.
type member struct {
	of   string // fingerprint of the registration
	link *link
	next time.Time   // when its card is read again
	away atomic.Bool // its card could not be read at the last attempt, or on MQTT it is not connected
}

func newKeeper(s *Service, agents Agents) *keeper {
	return &keeper{Service: s, sealer: s.opts.Sealer, agents: agents, members: map[string]*member{}, places: make(chan struct{}, mostReads)}
}

// Keep keeps the agents at work until ctx ends. Of several bridges one does.
func (s *Service) Keep(ctx context.Context, agents Agents) error {
	if !s.opts.On {
		return nil
	}
	k := newKeeper(s, agents)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	beats := true
	for {
		k.settle(ctx, beats)
		select {
		case <-ctx.Done():
			for _, m := range k.members {
				k.hangUp(m, "the bridge stops")
			}
			k.working.Wait()
			s.transport.CloseIdleConnections()
			return nil
		case <-s.wake:
			beats = false
		case <-beat.C:
			beats = true
		}
	}
}

// settle brings registrations and presence in line with the records.
func (k *keeper) settle(ctx context.Context, beats bool) {
	there := map[string]bool{}
	for id, a := range k.opts.Table.All() {
		there[id] = true
		k.attend(ctx, id, a, beats)
	}
	for id, m := range k.members {
		if there[id] {
			continue
		}
		k.hangUp(m, "it was removed")
		delete(k.members, id)
		space, agent, _ := strings.Cut(id, "/")
		if err := k.unregister(ctx, protocol.SpaceID(space), protocol.AgentID(agent)); err != nil {
			k.opts.Log.Warn("an agent elsewhere is not withdrawn", "agent", agent, "space", space, "error", err)
		}
	}
}

// attend does all due work on one agent.
func (k *keeper) attend(ctx context.Context, id string, a *Agent, beats bool) {
	m := k.members[id]
	if m == nil {
		m = &member{}
		k.members[id] = m
	}
	if name, mqtt := busAgent(a.URL); mqtt {
		a = k.onBus(ctx, name, a, m)
	} else {
		k.due(ctx, a, m)
	}
	c := a.card()
	if a.state() != StateApproved || c == nil {
		if m.of != "" || m.link != nil || beats {
			k.hangUp(m, "its card is not approved")
			if k.unregister(ctx, a.Space, a.ID) == nil {
				m.of = ""
			}
		}
		return
	}
	if err := k.register(ctx, a, c, m); err != nil {
		if beats {
			k.blame(ctx, a, err)
		}
		return
	}
	switch {
	case m.away.Load():
		k.hangUp(m, "it cannot be reached")
	case m.link == nil:
		m.link = &link{keeper: k, agent: a, card: c, calls: map[string]context.CancelFunc{}}
		k.heartbeat(ctx, a, m)
	case beats:
		k.heartbeat(ctx, a, m)
	}
}

func (k *keeper) heartbeat(ctx context.Context, a *Agent, m *member) {
	if err := k.do(ctx, a.Space, "agent.heartbeat", map[string]any{"agent_id": a.ID}, m.link); err != nil {
		k.hangUp(m, "the heartbeat failed")
		if protocol.CodeOf(err) == protocol.NotFound { // it was unregistered meanwhile
			m.of = ""
		}
	}
}

// register registers an agent as its approved card has it.
func (k *keeper) register(ctx context.Context, a *Agent, c *Card, m *member) error {
	of := a.Approved + a.Risk + a.URL
	if m.of == of {
		return nil
	}
	k.hangUp(m, "it is registered anew")
	params, err := a.registration(c)
	if err == nil { // skills that it has no more would stay
		err = k.unregister(ctx, a.Space, a.ID)
	}
	if err == nil {
		err = k.do(ctx, a.Space, "agent.register", jsonText(params), nil)
	}
	if err == nil {
		m.of = of
	}
	return err
}

// jsonText is written as it is.
type jsonText []byte

// MarshalJSON implements [json.Marshaler].
func (t jsonText) MarshalJSON() ([]byte, error) { return t, nil }

// blame stores why an agent cannot be used.
func (k *keeper) blame(ctx context.Context, a *Agent, why error) {
	problem := line("it is not registered: "+protocol.AsError(why).Message, maxSaid)
	if a.Problem == problem {
		return
	}
	if _, err := k.change(ctx, a, func(a *Agent) error { a.Problem = problem; return nil }); err != nil {
		k.opts.Log.Warn("what is wrong with an agent elsewhere is not stored", "agent", a.ID, "space", a.Space, "error", err)
	}
}

// due has the card of an agent read if it is time.
func (k *keeper) due(ctx context.Context, a *Agent, m *member) {
	now := time.Now()
	if m.next.IsZero() && a.Problem == "" {
		m.next = now.Add(rand.N(readEvery)) // not those of all agents at once
	}
	if now.Before(m.next) {
		return
	}
	select {
	case k.places <- struct{}{}:
	default:
		return
	}
	m.next = now.Add(readEvery)
	if m.away.Load() {
		m.next = now.Add(retryEvery)
	}
	k.working.Go(func() {
		defer func() { <-k.places }()
		_, err := k.read(ctx, a)
		if m.away.Swap(err != nil) != (err != nil) {
			k.stir()
		}
	})
}

// onBus is an agent on MQTT with its card as it is now.
func (k *keeper) onBus(ctx context.Context, name string, a *Agent, m *member) *Agent {
	online := false
	if bus := k.bus(); bus != nil {
		card, _ := bus.Card(a.Space, name)
		online = card.Online
	}
	if now, err := k.read(ctx, a); err == nil {
		a = now
	} else {
		online = false
	}
	m.away.Store(!online)
	return a
}

// hangUp ends the presence of an agent, and the calls of it that are under way.
func (k *keeper) hangUp(m *member, reason string) {
	l := m.link
	if l == nil {
		return
	}
	m.link = nil
	k.working.Go(func() {
		l.end()
		k.agents.HungUp(l, reason)
	})
}
