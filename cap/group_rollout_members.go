package cap

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var rolloutMembers = commands.Spec{
	Name:    "group.rollout.members",
	Summary: "List the members of a rollout and how far each has come.",
	Effect:  commands.Read,
	Action:  "group:rollout.members",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","state":"failed","limit":100}`,
}

// RolloutMembersParams are the params of group.rollout.members.
type RolloutMembersParams struct {
	RolloutParams
	State rollout.State `json:"state,omitempty" enum:"queued,in_progress,succeeded,failed,rejected,timed_out,removed,cancelled" doc:"only members in this state"`
	listing.Page
}

// RolloutMembersResult is one page of the members of a rollout.
type RolloutMembersResult struct {
	Members    []RolloutMember `json:"members" doc:"members of this page, in the order of the roster; empty if none fits"`
	NextCursor string          `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A RolloutMember is a member of a rollout.
type RolloutMember struct {
	Skill     protocol.SkillID `json:"skill_id" doc:"the skill"`
	Agent     protocol.AgentID `json:"agent_id,omitempty" doc:"the agent that is to be asked, or was asked last; absent before that where any agent of the skill will do"`
	State     rollout.State    `json:"state" enum:"queued,in_progress,succeeded,failed,rejected,timed_out,removed,cancelled" doc:"state of the work; queued: to be asked, again perhaps; removed: it was unregistered before"`
	At        int64            `json:"at,omitempty" doc:"since when, Unix milliseconds; absent if it waits since the beginning"`
	Attempts  int              `json:"attempts,omitempty" doc:"number of questions to it"`
	NotBefore int64            `json:"not_before,omitempty" doc:"time from which it may be asked again, Unix milliseconds"`
	Data      json.RawMessage  `json:"data,omitempty" doc:"its result"`
	Dropped   bool             `json:"data_dropped,omitempty" doc:"its result was more than is kept: 1 KiB"`
	Error     *RolloutFailure  `json:"error,omitempty" doc:"reason why the last attempt did not succeed"`
}

// A RolloutFailure is why a member of a rollout did not succeed.
type RolloutFailure struct {
	Code    protocol.Code `json:"code" doc:"error code"`
	Message string        `json:"message" doc:"fault, up to 256 bytes"`
}

// ListRolloutMembers lists members of a rollout.
func (s *Service) ListRolloutMembers(_ context.Context, call *commands.Call, p RolloutMembersParams) (RolloutMembersResult, error) {
	r, err := s.rolloutOf(call, p.TaskID)
	if err != nil {
		return RolloutMembersResult{}, err
	}
	behind := 0
	if p.Cursor != "" {
		if behind, err = strconv.Atoi(p.Cursor); err != nil || behind < 0 {
			return RolloutMembersResult{}, protocol.InvalidParam("cursor", "is not one that a list gave")
		}
	}
	result := RolloutMembersResult{Members: []RolloutMember{}}
	last := 0
	for place, m := range s.opts.Rollouts.Members(r, behind) {
		if p.State != "" && m.State != p.State {
			continue
		}
		if len(result.Members) == p.Size() {
			result.NextCursor = strconv.Itoa(last)
			break
		}
		result.Members, last = append(result.Members, rolloutMember(m)), place
	}
	return result, nil
}

func rolloutMember(m *rollout.Member) RolloutMember {
	v := RolloutMember{Skill: m.Skill, Agent: m.Agent, State: m.State, At: m.At, Attempts: m.Attempts, NotBefore: m.NotBefore, Data: m.Data, Dropped: m.Dropped}
	if m.Asked != "" {
		v.Agent = m.Asked
	}
	if m.Error != nil {
		v.Error = &RolloutFailure{m.Error.Code, m.Error.Message}
	}
	return v
}
