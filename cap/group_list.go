package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var groupList = commands.Spec{
	Name:    "group.list",
	Summary: "List the groups that the caller takes part in, or whose Cap it owns.",
	Effect:  commands.Read,
	Action:  "group:list",
	Example: `{"cap_id":"climate","sort":"-members"}`,
}

// GroupListParams are the params of group.list.
type GroupListParams struct {
	Cap  protocol.CapID `json:"cap_id,omitempty" doc:"only groups of this Cap"`
	Find string         `json:"find,omitempty" len:"1-128" doc:"only groups with this text in their id or the id of their Cap, whatever its case"`
	Sort string         `json:"sort,omitempty" enum:"id,-id,members,-members,born_at,-born_at" doc:"field to sort by, the highest first behind a minus; by Cap and id if absent"`
	listing.Page
}

// GroupListResult is one page of groups.
type GroupListResult struct {
	Groups     []GroupSummary `json:"groups" doc:"the groups of this page; empty if none fits"`
	Total      int            `json:"total" doc:"number on all pages"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A GroupSummary is a group in a list: group.query shows the rest.
type GroupSummary struct {
	Group   protocol.GroupID `json:"group_id" doc:"id of the group"`
	Cap     protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Members int              `json:"members" doc:"number of its members; 0 if a selector chooses them, which group.query counts"`
	Chosen  string           `json:"selector,omitempty" doc:"selector of the members; absent if they are added one by one"`
	Online  int              `json:"online" doc:"number of them that are there now"`
	Links   int              `json:"links" doc:"number of its links; in a bidirectional Cap each direction counts"`
	Data    int              `json:"data" doc:"number of its values"`
	BornAt  int64            `json:"born_at" doc:"Unix milliseconds"`
}

// groupOrder holds the columns that lists of groups can be sorted by.
var groupOrder = listing.Order[*Group]{
	ID: func(g *Group) string { return string(g.Cap) + "/" + string(g.ID) },
	Keys: map[string]func(*Group) listing.Key{
		"members": func(g *Group) listing.Key { return listing.Number(int64(len(g.Members))) },
		"born_at": func(g *Group) listing.Key { return listing.Number(g.BornAt) },
	},
}

// ListGroups lists the groups of the caller's space that it may see, as
// group.query does. None is an empty list.
func (s *Service) ListGroups(_ context.Context, call *commands.Call, p GroupListParams) (GroupListResult, error) {
	space, named := call.Principal.Home(), listing.Find(p.Find)
	visible := func(yield func(*Group) bool) {
		for _, g := range s.opts.Groups.All() {
			if g.Space != space || p.Cap != "" && g.Cap != p.Cap || !named.In(string(g.ID), string(g.Cap)) {
				continue
			}
			c, _, ok := s.opts.Caps.Get(capKey(space, g.Cap))
			if ok && s.takesPart(call.Principal, c, g) && !yield(g) {
				return
			}
		}
	}
	found, err := groupOrder.Select(visible, p.Sort, p.Page)
	if err != nil {
		return GroupListResult{}, err
	}
	result := GroupListResult{Groups: make([]GroupSummary, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, g := range found.Items {
		result.Groups[i] = s.summary(g)
	}
	return result, nil
}

func (s *Service) summary(g *Group) GroupSummary {
	online := 0
	for i := range g.Members {
		if s.opts.Skills.SkillOnline(g.Space, g.Members[i].Skill) {
			online++
		}
	}
	return GroupSummary{
		Group: g.ID, Cap: g.Cap, Members: len(g.Members), Chosen: g.Selector, Online: online, Links: len(g.Links),
		Data: s.index.dataCount(g.Space, g.Cap, g.ID), BornAt: g.BornAt,
	}
}
