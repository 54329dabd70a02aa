package registry

import (
	"context"
	"maps"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

var agentTag = commands.Spec{
	Name:    "agent.tag",
	Summary: "Change the tags that selectors choose an agent by.",
	Effect:  commands.Write,
	Action:  "agent:tag",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"agent_id":"lamp-1","tags":{"site":"hall","model":"x2"},"remove":["spare"]}`,
}

// TagAgentParams are the params of agent.tag.
type TagAgentParams struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
	Tags    selector.Tags    `json:"tags,omitempty" len:"0-32" each:"0-128" text:"line" doc:"tags to set, by name: up to 63 letters, digits, _ and -; others stay"`
	Remove  []string         `json:"remove,omitempty" len:"1-32" each:"1-63" doc:"names of tags to remove; a name that it does not have is left out"`
}

// Target implements [commands.Targeter].
func (p TagAgentParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.AgentID), Space: p.Space}
}

// Validate checks the rules that the tags of the fields cannot express.
func (p TagAgentParams) Validate() error {
	if len(p.Tags) == 0 && len(p.Remove) == 0 {
		return protocol.InvalidParam("tags", "or remove is needed")
	}
	for _, name := range p.Remove {
		if _, both := p.Tags[name]; both {
			return protocol.InvalidParam("remove", "has a name that tags sets")
		}
	}
	return p.Tags.Check("tags")
}

// TagAgentResult is the result of agent.tag.
type TagAgentResult struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	Tags    selector.Tags    `json:"tags" doc:"all tags it has now"`
}

// TagAgent changes the tags of an agent. Its owner and operators may.
func (s *Service) TagAgent(ctx context.Context, call *commands.Call, p TagAgentParams) (TagAgentResult, error) {
	agent, err := s.ownAgent(call, p.Space, p.AgentID)
	if err != nil {
		return TagAgentResult{}, err
	}
	changed, _, err := records.Change(ctx, s.opts.Agents, tableKey(agent.Space, agent.ID), func(old *Agent, _ uint64) (*Agent, error) {
		if old == nil {
			return nil, notFound("agent", p.AgentID)
		}
		return retagged(old, p)
	})
	if err != nil {
		return TagAgentResult{}, err
	}
	result := TagAgentResult{AgentID: p.AgentID, Tags: changed.Tags}
	if result.Tags == nil {
		result.Tags = selector.Tags{}
	}
	return result, nil
}

// retagged is an agent after a change of its tags.
func retagged(old *Agent, p TagAgentParams) (*Agent, error) {
	a := *old
	a.Tags = maps.Clone(old.Tags)
	if a.Tags == nil {
		a.Tags = make(selector.Tags, len(p.Tags))
	}
	maps.Copy(a.Tags, p.Tags)
	for _, name := range p.Remove {
		delete(a.Tags, name)
	}
	if maps.Equal(a.Tags, old.Tags) {
		return old, nil
	}
	if err := a.Tags.Check("tags"); err != nil {
		return nil, err
	}
	a.UpdatedAt = time.Now().UnixMilli()
	return &a, nil
}
