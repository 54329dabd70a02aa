package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A Card is the public description of an agent. It is retained on the agent's card topic
// (docs/protocol.md#presence) and follows every change.
type Card struct {
	Version   string           `json:"version"` // of the protocol
	AgentID   protocol.AgentID `json:"agent_id"`
	Space     protocol.SpaceID `json:"space_id"`
	Type      AgentType        `json:"type"`
	Name      string           `json:"name,omitempty"`
	Endpoints []string         `json:"endpoints,omitempty"`
	Status    Status           `json:"status"`
	Since     int64            `json:"since,omitempty"` // when status last changed, Unix milliseconds

	Skills       []CardSkill             `json:"skills"` // the first 100 by id
	SkillCount   int                     `json:"skill_count"`
	Capabilities []protocol.CapabilityID `json:"capabilities"` // of these skills, sorted
	Models       []CardModel             `json:"models,omitempty"`

	UpdatedAt int64 `json:"updated_at"` // Unix milliseconds
}

// A CardSkill is a skill on a card.
type CardSkill struct {
	ID           protocol.SkillID        `json:"skill_id"`
	Name         string                  `json:"name"`
	Version      string                  `json:"version"`
	Capabilities []protocol.CapabilityID `json:"capabilities"`

	EncryptionKeys []EncryptionKey `json:"encryption_keys,omitempty"` // without their chains
}

// maxCardSkills bounds the size of a card.
const maxCardSkills = 100

func newCard(a *Agent, seen sighting, skills []*SkillRecord) *Card {
	c := &Card{
		Version:      protocol.Version,
		AgentID:      a.ID,
		Space:        a.Space,
		Type:         a.Type,
		Name:         a.Name,
		Endpoints:    a.Endpoints,
		Status:       statusOf(seen.online),
		Skills:       []CardSkill{},
		SkillCount:   len(skills),
		Capabilities: []protocol.CapabilityID{},
		UpdatedAt:    time.Now().UnixMilli(),
	}
	if !seen.since.IsZero() {
		c.Since = seen.since.UnixMilli()
	}
	for _, r := range skills[:min(len(skills), maxCardSkills)] {
		s := CardSkill{ID: r.ID, Name: r.Name, Version: r.Version, EncryptionKeys: withoutChains(r.EncryptionKeys)}
		for i := range r.Capabilities {
			s.Capabilities = append(s.Capabilities, r.Capabilities[i].ID)
		}
		c.Skills = append(c.Skills, s)
		c.Capabilities = append(c.Capabilities, s.Capabilities...)
	}
	slices.Sort(c.Capabilities)
	c.Capabilities = slices.Compact(c.Capabilities)
	return c
}

// renderCard is the card of an agent as it is now, nil if there is none or it
// is withdrawn.
func (s *Service) renderCard(key ask.AgentKey) []byte {
	a, _, ok := s.opts.Agents.Get(tableKey(key.Space, key.ID))
	if !ok {
		return nil
	}
	seen := s.board.see(key)
	if seen.suspended {
		return nil
	}
	shown := newCard(a, seen, s.index.skillsOf(key))
	if s.opts.Models != nil {
		shown.Models = s.opts.Models(key.Space, key.ID)
	}
	card, err := json.Marshal(shown)
	if err != nil { // a Card holds nothing that cannot be marshalled
		s.log.Error("card not rendered", "agent", key.ID, "error", err)
	}
	return card
}

// publishCard publishes the card of an agent. Without a card it removes the retained one.
func (s *Service) publishCard(key ask.AgentKey, card []byte) {
	m := protocol.Message{Topic: s.opts.Topics.AgentCard(key.ID), Payload: card, QoS: 1, Retain: true, View: true}
	if len(card) > 0 {
		m.ContentType = protocol.ContentJSON
	}
	if _, err := s.opts.Publisher.Publish(protocol.Everybody(key.Space), m); err != nil {
		s.log.Warn("card not published", "agent", key.ID, "space", key.Space, "error", err)
	}
}
