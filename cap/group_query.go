package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var groupQuery = commands.Spec{
	Name:    "group.query",
	Summary: "Show a group: its members and whether they are there, its links, the names of its data.",
	Effect:  commands.Read,
	Action:  "group:query",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"group_id":"upstairs","cap_id":"climate"}`,
}

// GroupQueryParams are the params of group.query.
type GroupQueryParams struct {
	Group protocol.GroupID `json:"group_id" doc:"the group"`
	Cap   protocol.CapID   `json:"cap_id" doc:"the Cap it belongs to"`
}

// Target implements [commands.Targeter].
func (p GroupQueryParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// GroupQueryResult is the result of group.query.
type GroupQueryResult struct {
	Group    protocol.GroupID `json:"group_id" doc:"id of the group"`
	Cap      protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Members  []MemberView     `json:"members" doc:"in the order in which they joined; empty if a selector chooses them"`
	Selector string           `json:"selector,omitempty" doc:"selector of the members; agent.list with it shows their agents"`
	Selected *int             `json:"selected,omitempty" doc:"number of those that the selector chooses now: each skill of an agent counts"`
	Links    []Link           `json:"links" doc:"links between members, in the order in which they were added; in a bidirectional Cap each direction is an entry"`
	Data     []DataView       `json:"data" doc:"names of the data of which group.data.get returns the values"`
	Revision uint64           `json:"revision" doc:"number of this version of members and links; values have revisions of their own"`
	BornAt   int64            `json:"born_at" doc:"Unix milliseconds"`
}

// A MemberView is a member as callers see it.
type MemberView struct {
	Member
	Status string `json:"status" enum:"online,offline" doc:"true if it is there now"`
}

// A DataView is a value without the value.
type DataView struct {
	Key       protocol.DataKey `json:"data_key" doc:"name of the value, unique in the group"`
	Type      DataType         `json:"data_type" doc:"type of the value as its writer declared it"`
	Revision  uint64           `json:"revision" doc:"number of this version of the value; rises with every write"`
	UpdatedAt int64            `json:"updated_at" doc:"Unix milliseconds"`
}

// QueryGroup shows a group to the owner of the Cap and to members.
func (s *Service) QueryGroup(_ context.Context, call *commands.Call, p GroupQueryParams) (GroupQueryResult, error) {
	c, _, err := s.find(call, p.Cap)
	if err != nil {
		return GroupQueryResult{}, err
	}
	g, revision, err := s.findGroup(c, p.Group)
	if err != nil {
		return GroupQueryResult{}, err
	}
	if !s.takesPart(call.Principal, c, g) {
		return GroupQueryResult{}, notMember(c, p.Group)
	}
	result := GroupQueryResult{Group: g.ID, Cap: c.ID, Members: make([]MemberView, len(g.Members)),
		Links: append([]Link{}, g.Links...), Data: []DataView{}, Revision: revision, BornAt: g.BornAt}
	if g.dynamic() {
		chosen, err := g.selector()
		if err != nil {
			return GroupQueryResult{}, err
		}
		n := s.countSelected(c.Space, chosen, "")
		result.Selector, result.Selected = g.Selector, &n
	}
	for i, m := range g.Members {
		result.Members[i] = MemberView{m, s.presence(c.Space, m.Skill)}
	}
	for _, key := range s.index.dataOf(c.Space, c.ID, g.ID) {
		if d, revision, ok := s.opts.Data.Get(dataKey(c.Space, c.ID, g.ID, key)); ok {
			result.Data = append(result.Data, DataView{key, d.Type, revision, d.UpdatedAt})
		}
	}
	return result, nil
}

func (s *Service) presence(space protocol.SpaceID, skill protocol.SkillID) string {
	if s.opts.Skills.SkillOnline(space, skill) {
		return "online"
	}
	return "offline"
}
