package shadow

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var desiredSet = commands.Spec{
	Name:    "state.desired.set",
	Summary: "Say what state a skill of an agent shall have, whether or not the agent is there.",
	Effect:  commands.Write,
	Action:  "state:desired.set",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.PermissionDenied, protocol.PayloadTooLarge, protocol.LimitReached, protocol.RevisionConflict,
	},
	Example: `{"agent_id":"thermostat-1","skill_id":"heating","state":{"celsius":21.5}}`,
}

// SetParams are the params of state.desired.set and of state.report.
type SetParams struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent"`
	SkillID protocol.SkillID `json:"skill_id" doc:"a skill that it provides"`
	State   json.RawMessage  `json:"state" type:"object" doc:"change, as a merge patch (RFC 7386): members are set, objects are merged, arrays replaced, and null removes; at most 16 KiB and 8 levels deep, with what is there already, too"`
	Replace bool             `json:"replace,omitempty" doc:"state takes the place of all that is there"`
	Version *uint64          `json:"version,omitempty" doc:"the version that the document must have, 0 if it was never set; else 3003 with the one it has as details.version"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p SetParams) Target() commands.Resource { return resource(p.Space, p.AgentID, p.SkillID) }

// resource is the state of a skill of an agent as policies see it.
func resource(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) commands.Resource {
	return commands.Resource{Type: "state", ID: string(agent) + "/" + string(skill), Space: space}
}

// SetResult is the result of state.desired.set and of state.report.
type SetResult struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	SkillID protocol.SkillID `json:"skill_id" doc:"id of the skill"`
	Version uint64           `json:"version" doc:"version of the document now; it counts the changes, and one that changes nothing is none"`
	State   json.RawMessage  `json:"state" type:"object" doc:"the whole document as it is now"`
	Delta   json.RawMessage  `json:"delta" type:"object" doc:"part of the desired state that the reported one lacks, as a merge patch for it; empty if none"`
}

// SetDesired changes the desired state of a skill.
func (s *Service) SetDesired(ctx context.Context, call *commands.Call, p SetParams) (SetResult, error) {
	a, err := s.find(call.Principal, p.Space, p.AgentID)
	if err != nil {
		return SetResult{}, err
	}
	return s.set(ctx, call, &place{a, p.SkillID, Desired}, &p)
}

// set changes one document as the params of a command say.
func (s *Service) set(ctx context.Context, call *commands.Call, at *place, p *SetParams) (SetResult, error) {
	skill, provided := s.Agents.StateOf(at.Space, at.ID, at.skill)
	if !provided {
		return SetResult{}, notProvided(at.ID, at.skill)
	}
	patch, err := parse(p.State)
	if err != nil {
		return SetResult{}, inState(err)
	}
	if at.side == Desired {
		if path := readOnly(skill.Schema, patch, "state"); path != "" {
			return SetResult{}, protocol.InvalidParam(path, "is read-only: the agent alone says what it is")
		}
	}
	r, wrong, err := s.change(ctx, at, skill, []step{{patch, p.Replace, p.Version, call.SenderID}})
	if err != nil {
		return SetResult{}, err
	}
	if wrong[0] != nil {
		return SetResult{}, wrong[0]
	}
	both := s.index.get(at.ref(), at.skill).standing(at.Born)
	return SetResult{at.ID, at.skill, r.Version, r.State, render(both.delta())}, nil
}

// find looks up an agent that a principal may know of.
func (s *Service) find(who *protocol.Principal, named protocol.SpaceID, id protocol.AgentID) (Agent, error) {
	space := named
	if space == "" {
		space = who.Home()
	}
	if space != who.Home() && !who.Unbounded() {
		return Agent{}, s.Agents.NotFound(who, named, id)
	}
	a, known := s.Agents.Shadowed(space, id)
	if !known {
		return Agent{}, s.Agents.NotFound(who, named, id)
	}
	return a, nil
}

func notProvided(agent protocol.AgentID, skill protocol.SkillID) error {
	return protocol.Errorf(protocol.NotFound, "agent %q does not provide the skill %q", agent, skill).
		With("agent_id", string(agent)).With("skill_id", string(skill))
}

// inState is the error for a document that cannot be read.
func inState(err error) error {
	if known, ok := err.(*protocol.Error); ok {
		return known
	}
	return protocol.InvalidParam("state", err.Error())
}
