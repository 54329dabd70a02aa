package cap

import (
	"context"
	"iter"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
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
	Find   string           `json:"find,omitempty" len:"1-128" doc:"only Caps with this text in their id, name, description or skill, whatever its case"`
	Status Status           `json:"status,omitempty" enum:"active,inactive" doc:"only Caps in this state"`
	Sort   string           `json:"sort,omitempty" enum:"id,-id,name,-name,skill,-skill,status,-status,groups,-groups,updated_at,-updated_at" doc:"field to sort by, the highest first behind a minus; by id if absent"`
	listing.Page
}

// QueryResult is the result of cap.query.
type QueryResult struct {
	Caps       []View `json:"caps" doc:"the Caps of this page; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// Query lists the Caps of the caller's space. None is an empty list.
func (s *Service) Query(_ context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	found, err := s.order().Select(s.matching(call.Principal.Home(), p), p.Sort, p.Page)
	if err != nil {
		return QueryResult{}, err
	}
	result := QueryResult{Caps: make([]View, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, c := range found.Items {
		result.Caps[i] = s.view(c)
	}
	return result, nil
}

// order holds the columns that lists of Caps can be sorted by.
func (s *Service) order() listing.Order[*Cap] {
	return listing.Order[*Cap]{
		ID: func(c *Cap) string { return string(c.ID) },
		Keys: map[string]func(*Cap) listing.Key{
			"name":       func(c *Cap) listing.Key { return listing.Text(c.Name) },
			"skill":      func(c *Cap) listing.Key { return listing.Text(string(c.Skill)) },
			"status":     func(c *Cap) listing.Key { return listing.Text(string(c.Status)) },
			"groups":     func(c *Cap) listing.Key { return listing.Number(int64(s.index.groupCount(c.Space, c.ID))) },
			"updated_at": func(c *Cap) listing.Key { return listing.Number(c.UpdatedAt) },
		},
	}
}

// matching yields the Caps of a space that fit.
func (s *Service) matching(space protocol.SpaceID, p QueryParams) iter.Seq[*Cap] {
	named := listing.Find(p.Find)
	fits := func(c *Cap) bool {
		return c.Space == space && (p.Skill == "" || c.Skill == p.Skill) && (p.Status == "" || c.Status == p.Status) &&
			named.In(string(c.ID), c.Name, c.Description, string(c.Skill))
	}
	return func(yield func(*Cap) bool) {
		if p.ID != "" {
			if c, _, ok := s.opts.Caps.Get(capKey(space, p.ID)); ok && fits(c) {
				yield(c)
			}
			return
		}
		for _, c := range s.opts.Caps.All() {
			if fits(c) && !yield(c) {
				return
			}
		}
	}
}

func (s *Service) view(c *Cap) View {
	_, revision, _ := s.opts.Caps.Get(c.key())
	return View{
		ID: c.ID, Skill: c.Skill, Info: c.Info, Status: c.Status,
		ModelName: c.Name, ModelDescription: c.Description, ModelType: c.Type,
		Groups: s.index.groupCount(c.Space, c.ID), Revision: revision,
		DeclaredAt: c.DeclaredAt, UpdatedAt: c.UpdatedAt,
	}
}
