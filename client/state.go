package client

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A DesiredHandler brings a device to its desired state. delta is the part of the
// desired state that the reported one lacks, a JSON object. The result is
// marshalled with encoding/json and reported, as a merge patch; nil reports
// nothing. An error is not reported to the bridge: the delta stays. See
// docs/protocol.md#desired-and-reported-state.
type DesiredHandler func(ctx context.Context, delta json.RawMessage) (reported any, err error)

// Desire makes a [DesiredHandler] of a function that takes the delta as D, in which
// unchanged members keep their zero value, and returns the state to report.
func Desire[D, R any](run func(ctx context.Context, delta D) (R, error)) DesiredHandler {
	return func(ctx context.Context, delta json.RawMessage) (any, error) {
		var wanted D
		if err := json.Unmarshal(delta, &wanted); err != nil {
			return nil, err
		}
		return run(ctx, wanted)
	}
}

// Report reports the state of the skill, as a merge patch (RFC 7386) of the state
// reported before: members are set, objects are merged, null removes. It returns when the
// state is stored.
func (s *ServedSkill) Report(ctx context.Context, state any) error {
	_, err := Call[struct{}](ctx, s.server.client, "state.report", s.server.about(map[string]any{"skill_id": s.skill.ID, "state": state}))
	return err
}

// offer registers a skill, and has its desired state followed if it takes one.
func (s *server) offer(ctx context.Context, served *ServedSkill) error {
	err := s.registerSkill(ctx, served)
	if err == nil && served.skill.Desired != nil {
		err = s.followDesired(ctx)
	}
	return err
}

// followDesired has the handlers of desired states called from now on, until the
// client ends.
func (s *server) followDesired(ctx context.Context) error {
	s.following.Lock()
	defer s.following.Unlock()
	if s.follows {
		return nil
	}
	c := s.client
	_, err := c.Subscribe(ctx, c.Topics().AgentState(s.agent.ID, "delta"), func(ctx context.Context, m Message) { s.desired(ctx, m.Payload) })
	s.follows = err == nil
	return err
}

// desired calls the skills' handlers with a message on the topic of the delta.
func (s *server) desired(ctx context.Context, payload []byte) {
	var delta map[protocol.SkillID]json.RawMessage
	if len(payload) == 0 {
		return // the state is gone
	}
	if err := json.Unmarshal(payload, &delta); err != nil {
		s.client.log.Error("desired state not understood", "agent", s.agent.ID, "error", err)
		return
	}
	for id, wanted := range delta {
		served := s.find(id)
		if served == nil || served.skill.Desired == nil {
			continue
		}
		reported, err := served.skill.Desired(ctx, wanted)
		if err == nil && reported != nil {
			err = served.Report(ctx, reported)
		}
		if err != nil && ctx.Err() == nil {
			s.client.log.Error("desired state not taken over", "agent", s.agent.ID, "skill", id, "error", err)
		}
	}
}
