package shadow

import (
	"encoding/json"
	"hash/maphash"

	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/protocol"
)

// told are the digests of the retained messages on an agent's topics, 0 for none,
// to publish only changes: reports seldom change the delta.
type told [3]uint64

// leaves are the topics of an agent's state, in the order of told.
var leaves = [3]string{string(Desired), string(Reported), "delta"}

var seed = maphash.MakeSeed()

// publish retains the changes of an agent's state on its topics. Every topic has a member
// for each skill.
func (s *Service) publish(of ref) {
	var now told
	payloads := s.payloads(of)
	for i, payload := range payloads {
		if payload != nil {
			now[i] = max(maphash.Bytes(seed, payload), 1)
		}
		if now[i] != s.told[of][i] {
			s.retain(of.space, s.Topics.AgentState(of.agent, leaves[i]), payload)
		}
	}
	if now == (told{}) {
		delete(s.told, of)
	} else {
		s.told[of] = now
	}
}

// payloads are the payloads on the topics of an agent, nil for nothing.
func (s *Service) payloads(of ref) (payloads [3][]byte) {
	a, known := s.Agents.Shadowed(of.space, of.agent)
	if !known {
		return payloads
	}
	var desired, reported, delta map[protocol.SkillID]json.RawMessage
	for skill, p := range s.index.of(of) {
		p = p.standing(a.Born)
		if p.desired != nil {
			put(&desired, skill, p.desired.State)
			put(&delta, skill, nil)
			if d := p.delta(); len(d) > 0 {
				put(&delta, skill, render(d))
			}
		}
		if p.reported != nil {
			put(&reported, skill, p.reported.State)
		}
	}
	for i, skills := range []map[protocol.SkillID]json.RawMessage{desired, reported, delta} {
		if skills != nil {
			payloads[i], _ = json.Marshal(skills) // of valid JSON
		}
	}
	return payloads
}

// put adds the state of a skill, nil only that there may be some.
func put(to *map[protocol.SkillID]json.RawMessage, skill protocol.SkillID, state json.RawMessage) {
	if *to == nil {
		*to = make(map[protocol.SkillID]json.RawMessage)
	}
	if state != nil {
		(*to)[skill] = state
	}
}

// retain keeps a message on a topic, or nothing without a payload, for the subscribers in
// the space.
func (s *Service) retain(space protocol.SpaceID, topic string, payload []byte) {
	m := protocol.Message{Topic: topic, Payload: payload, QoS: 1, Retain: true, View: true}
	if len(payload) > 0 {
		m.ContentType = protocol.ContentJSON
	}
	if _, err := s.Publish(protocol.Everybody(space), m); err != nil {
		s.Log.Warn("state of an agent not published", "topic", topic, "space", space, "error", err)
	}
}

// withdrawLeftovers removes the retained states of agents that have none any more.
func (s *Service) withdrawLeftovers() {
	known := func(yield func(string, protocol.SpaceID) bool) {
		for _, of := range s.index.all() {
			for i, payload := range s.payloads(of) {
				if payload != nil && !yield(s.Topics.AgentState(of.agent, leaves[i]), of.space) {
					return
				}
			}
		}
	}
	for topic, space := range announce.Leftovers(s.Retained(s.Topics.AgentState("+", "+")), known) {
		s.retain(space, topic, nil)
	}
}
