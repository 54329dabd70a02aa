package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// An announcement is an event on its way to the operators' topic of a family.
type announcement struct {
	family, name string
	data         announced
	view         bool // every bridge of a cluster sees it for itself
}

// An announced thing is the data of an event, which is published in its space.
type announced interface{ space() protocol.SpaceID }

// maxAnnouncements bounds the events that wait.
const maxAnnouncements = 4096

// announce publishes cards and events until ctx ends.
func (s *Service) announce(ctx context.Context) {
	s.news.Run(ctx, announce.Publisher[announcement, ask.AgentKey]{
		Event: s.publishEvent,
		Value: func(key ask.AgentKey) { s.publishCard(key, s.renderCard(key)) },
		Lost:  func(events int) { s.log.Warn("events dropped", "count", events) },
	})
}

// event has an event published: family "agent", name "agent.online".
func (s *Service) event(family, name string, data announced) {
	s.news.Event(announcement{family, name, data, false})
}

// change is event for a change that every bridge of a cluster sees, in a table or
// by a message of another bridge: each tells its own clients.
func (s *Service) change(family, name string, data announced) {
	s.news.Event(announcement{family, name, data, true})
}

// card has the card of an agent published anew.
func (s *Service) card(key ask.AgentKey) { s.news.Value(key) }

func (s *Service) publishEvent(e announcement) {
	data, err := json.Marshal(e.data)
	if err != nil { // announcements hold plain structs
		s.log.Error("event not rendered", "event", e.name, "error", err)
		return
	}
	s.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        s.newID(),
		Timestamp: time.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.seq,
		Data:      data,
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	to := protocol.Everybody(e.data.space())
	m := protocol.Message{Topic: s.opts.Topics.Event(e.family), Payload: event.Append(nil), ContentType: protocol.ContentJSON, View: e.view}
	if _, err := s.opts.Publisher.Publish(to, m); err != nil {
		s.log.Warn("event not published", "event", e.name, "error", err)
	}
}

// The data of the events of the registry.
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
		s.card(new.Key())
		s.change("agent", "agent.registered", agentEvent{new.ID, new.Space, new.Type, statusOf(s.board.isOnline(new.Key())), ""})
	case old != nil:
		s.card(old.Key())
		s.change("agent", "agent.unregistered", agentEvent{old.ID, old.Space, old.Type, Offline, ""})
	}
}

// agentRemoved ends the calls of an agent that was unregistered, after the board
// has made sure that it gets no new ones.
func (s *Service) agentRemoved(_ string, old, new *Agent) {
	if new == nil && old != nil {
		s.asking.Unregistered(old.Key())
	}
}

// agentTold notifies the followers of agents, once all parts of the registry know of the
// change.
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
			s.card(ask.AgentKey{Space: r.Space, ID: p.AgentID})
		}
	}
	if new != nil {
		s.change("skill", "skill.registered", skillEvent{new.ID, new.Space})
	} else if old != nil {
		s.change("skill", "skill.unregistered", skillEvent{old.ID, old.Space})
	}
}

// resourceAnnounced follows the table of resources.
func (s *Service) resourceAnnounced(_ string, old, new *ResourceRecord) {
	if new != nil {
		s.change("resource", "resource.registered", resourceEvent{new.ID, new.Space})
	} else if old != nil {
		s.change("resource", "resource.removed", resourceEvent{old.ID, old.Space})
	}
}
