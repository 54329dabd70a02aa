package cap

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var query = commands.Spec{
	Name:    "cap.query",
	Summary: "List Caps.",
	Effect:  commands.Read,
	Action:  "cap:query",
	Example: `{"skill_id":"heating"}`,
}

// QueryParams are the params of cap.query.
type QueryParams struct {
	Skill  protocol.SkillID `json:"skill_id,omitempty" doc:"only Caps of this skill"`
	ID     protocol.CapID   `json:"cap_id,omitempty" doc:"only this Cap"`
	Limit  int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many to return at most"`
	Cursor string           `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// QueryResult is the result of cap.query.
type QueryResult struct {
	Caps       []View `json:"caps" doc:"the Caps of this page, by id; empty if none fits"`
	Total      int    `json:"total" doc:"how many there are on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// Query lists the Caps of the caller's space by id. None is an empty list.
func (s *Service) Query(_ context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	space := call.Principal.Home()
	var found []*Cap
	take := func(c *Cap) {
		if c.Space == space && (p.Skill == "" || c.Skill == p.Skill) {
			found = append(found, c)
		}
	}
	if p.ID != "" {
		if c, _, ok := s.opts.Caps.Get(capKey(space, p.ID)); ok {
			take(c)
		}
	} else {
		for _, c := range s.opts.Caps.All() {
			take(c)
		}
	}
	slices.SortFunc(found, func(a, b *Cap) int { return strings.Compare(string(a.ID), string(b.ID)) })
	result := QueryResult{Caps: []View{}, Total: len(found)}
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	for _, c := range found {
		if string(c.ID) <= p.Cursor {
			continue
		}
		if len(result.Caps) == limit {
			result.NextCursor = string(result.Caps[limit-1].ID)
			break
		}
		result.Caps = append(result.Caps, s.view(c))
	}
	return result, nil
}

func (s *Service) view(c *Cap) View {
	_, revision, _ := s.opts.Caps.Get(c.key())
	return View{
		ID: c.ID, Skill: c.Skill, Info: c.Info, Status: c.Status,
		ModelName: c.Name, ModelDescription: c.Description, ModelType: c.Type,
		Groups: len(s.index.groupsOf(c.Space, c.ID)), Revision: revision,
		DeclaredAt: c.DeclaredAt, UpdatedAt: c.UpdatedAt,
	}
}
