package registry

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An announcer publishes cards and events. Those who cause them must not wait
// and often hold locks, so it does that on its own: events in order, cards
// whenever something changed, several changes at once as one.
type announcer struct {
	mu     sync.Mutex
	begun  bool
	stale  map[agentKey]bool // agents whose card is out of date
	events []announcement
	seq    uint64
	lost   int
	wake   chan struct{}
}

// An announcement is an event on its way to the operators' topic of a family.
type announcement struct {
	family, name string
	data         any
}

// maxAnnouncements bounds the events that wait; more are dropped and counted.
const maxAnnouncements = 4096

func newAnnouncer() *announcer {
	return &announcer{stale: make(map[agentKey]bool), wake: make(chan struct{}, 1)}
}

// begin lets cards and events through: while the tables are loaded nothing
// happens, it only becomes known.
func (a *announcer) begin() {
	a.mu.Lock()
	a.begun = true
	a.mu.Unlock()
}

// card has the card of an agent published anew.
func (a *announcer) card(key agentKey) {
	a.mu.Lock()
	if a.begun {
		a.stale[key] = true
	}
	a.mu.Unlock()
	a.signal()
}

// event has an event published: family "agent", name "agent.online".
func (a *announcer) event(family, name string, data any) {
	a.mu.Lock()
	switch {
	case !a.begun:
	case len(a.events) < maxAnnouncements:
		a.events = append(a.events, announcement{family, name, data})
	default:
		a.lost++
	}
	a.mu.Unlock()
	a.signal()
}

func (a *announcer) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// announce publishes until ctx ends, and then what was left.
func (s *Service) announce(ctx context.Context) {
	for {
		select {
		case <-s.announcer.wake:
			s.flush()
		case <-ctx.Done():
			s.flush()
			return
		}
	}
}

func (s *Service) flush() {
	a := s.announcer
	a.mu.Lock()
	stale, events, lost := a.stale, a.events, a.lost
	a.stale, a.events, a.lost = make(map[agentKey]bool), nil, 0
	a.mu.Unlock()
	if lost > 0 {
		s.log.Warn("events dropped", "count", lost)
	}
	for _, e := range events {
		s.publishEvent(e)
	}
	for key := range stale {
		s.publishCard(key, s.renderCard(key))
	}
}

func (s *Service) publishEvent(e announcement) {
	data, err := json.Marshal(e.data)
	if err != nil { // announcements hold plain structs
		s.log.Error("event not rendered", "event", e.name, "error", err)
		return
	}
	s.announcer.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        s.newID(),
		Timestamp: time.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.announcer.seq,
		Data:      data,
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	o := PublishOptions{ContentType: jsonType}
	if about, ok := e.data.(interface{ space() protocol.SpaceID }); ok {
		o.Space = about.space()
	}
	if _, err := s.opts.Publisher.Publish(s.opts.Topics.Event(e.family), event.Append(nil), o); err != nil {
		s.log.Warn("event not published", "event", e.name, "error", err)
	}
}

// What the events of the registry tell.
type (
	agentEvent struct {
		AgentID protocol.AgentID `json:"agent_id"`
		Space   protocol.SpaceID `json:"space_id"`
		Type    AgentType        `json:"type"`
		Status  Status           `json:"status"`
		Reason  string           `json:"reason,omitempty"`
	}
	skillEvent struct {
		SkillID protocol.SkillID `json:"skill_id"`
		Space   protocol.SpaceID `json:"space_id"`
	}
	resourceEvent struct {
		ResourceID protocol.ResourceID `json:"resource_id"`
		Space      protocol.SpaceID    `json:"space_id"`
	}
)

func (e agentEvent) space() protocol.SpaceID    { return e.Space }
func (e skillEvent) space() protocol.SpaceID    { return e.Space }
func (e resourceEvent) space() protocol.SpaceID { return e.Space }

// agentAnnounced follows the table of agents.
func (s *Service) agentAnnounced(_ string, old, new *Agent) {
	switch {
	case new != nil:
		s.announcer.card(new.key())
		s.announcer.event("agent", "agent.registered", agentEvent{new.ID, new.Space, new.Type, statusOf(s.board.isOnline(new.key())), ""})
	case old != nil:
		s.announcer.card(old.key())
		s.announcer.event("agent", "agent.unregistered", agentEvent{old.ID, old.Space, old.Type, Offline, ""})
	}
}

// agentRemoved ends what an agent was at when it was unregistered, after the
// board has made sure that it is asked nothing more.
func (s *Service) agentRemoved(_ string, old, new *Agent) {
	if new == nil && old != nil {
		s.exchanges.endAll(old.key(), outcome{kind: gone, reason: "unregistered"})
	}
}

// agentTold tells those who follow agents, when everybody here knows.
func (s *Service) agentTold(_ string, old, new *Agent) {
	if new == nil {
		new = old
	}
	s.opts.AgentChanged(new.Space, new.ID)
}

// skillAnnounced follows the table of skills.
func (s *Service) skillAnnounced(_ string, old, new *SkillRecord) {
	for _, r := range []*SkillRecord{old, new} {
		if r == nil {
			continue
		}
		for _, p := range r.Providers {
			s.announcer.card(agentKey{r.Space, p.AgentID})
		}
	}
	if new != nil {
		s.announcer.event("skill", "skill.registered", skillEvent{new.ID, new.Space})
	} else if old != nil {
		s.announcer.event("skill", "skill.unregistered", skillEvent{old.ID, old.Space})
	}
}

// resourceAnnounced follows the table of resources.
func (s *Service) resourceAnnounced(_ string, old, new *ResourceRecord) {
	if new != nil {
		s.announcer.event("resource", "resource.registered", resourceEvent{new.ID, new.Space})
	} else if old != nil {
		s.announcer.event("resource", "resource.removed", resourceEvent{old.ID, old.Space})
	}
}
