package entities

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
)

// readAll has the states of all skills read that are there.
func (s *Publisher) readAll() {
	s.mu.Lock()
	var there []protocol.SkillID
	for id, d := range s.skills {
		if d.status == online {
			there = append(there, id)
		}
	}
	s.mu.Unlock()
	for _, id := range there {
		s.read(id)
	}
}

// read has the state of a skill read. It does not block.
func (s *Publisher) read(id protocol.SkillID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.skills[id]
	if d == nil || d.queued || len(d.reads) == 0 {
		return
	}
	select {
	case s.reading <- id:
		d.queued = true
	default: // everything is read again
	}
}

// readStates reads states until ctx ends.
func (s *Publisher) readStates(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.reading:
			s.mu.Lock()
			d := s.skills[id]
			if d != nil {
				d.queued = false
			}
			s.mu.Unlock()
			if d != nil {
				s.tellState(ctx, d)
			}
		}
	}
}

// tellState reads a state and publishes it if it has changed. Values that cannot be
// read are unknown.
func (s *Publisher) tellState(ctx context.Context, d *shown) {
	answers := map[protocol.CapabilityID]any{}
	for _, id := range d.reads {
		if answer, err := s.ask(ctx, d.Skill, id); err == nil {
			answers[id] = answer
		} else {
			s.Metrics.read(err)
			s.Log.Debug("a state for Home Assistant cannot be read", "skill", d.Skill, "capability", id, "space", s.Space, "error", err)
		}
	}
	state := d.Device.state(answers)
	s.mu.Lock()
	changed := s.skills[d.Skill] == d && !bytes.Equal(state, d.told)
	if changed {
		d.told = state
	}
	s.mu.Unlock()
	if changed {
		s.publish(s.space(), d.place.state(), state)
	}
}

// ask calls a capability that reads.
func (s *Publisher) ask(ctx context.Context, skill protocol.SkillID, capability protocol.CapabilityID) (any, error) {
	params, err := json.Marshal(map[string]any{"skill_id": skill, "capability_id": capability})
	if err != nil {
		return nil, err
	}
	request := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Command: "skill.invoke", Params: params,
		Timestamp: time.Now().UnixMilli(), Metadata: protocol.Metadata{Timeout: readWithin},
	}
	answer := s.Router.Handle(ctx, commands.Inbound{Principal: device.Principal(Origin, s.space()), Request: &request, Door: "bridge"})
	if answer.Err != nil {
		return nil, answer.Err
	}
	var result struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(result.Data))
	d.UseNumber()
	var v any
	return v, d.Decode(&v)
}
