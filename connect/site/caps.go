package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// mostCaps bounds the Caps that are shown.
const mostCaps = 256

// A channel is a Cap of this bridge as the centre is shown it, with the ids that
// it has here.
type channel struct {
	ID       protocol.CapID       `json:"cap_id"`
	Skill    protocol.SkillID     `json:"skill_id"`
	Name     string               `json:"cap_name"`
	About    string               `json:"cap_desc,omitempty"`
	Type     string               `json:"cap_type,omitempty"`
	Scenes   []protocol.SceneType `json:"supported_scenes,omitempty"`
	Most     int                  `json:"max_members,omitempty"`
	Storage  string               `json:"data_storage_type,omitempty"`
	LinkType string               `json:"link_type,omitempty"`
	Status   string               `json:"status"`
	groups   []*group
}

// A group is one of a Cap, with the ids that it has here.
type group struct {
	ID       protocol.GroupID `json:"group_id"`
	Selector string           `json:"selector,omitempty"` // "" where members are added one by one
	Members  []member         `json:"members"`
	Links    []edge           `json:"links"`
	Data     []datum          `json:"data"`
}

// A member is a skill in a group.
type member struct {
	Skill      protocol.SkillID  `json:"skill_id"`
	Role       string            `json:"role"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// An edge is a link between two members.
type edge struct {
	Source protocol.SkillID `json:"source_skill_id"`
	Target protocol.SkillID `json:"target_skill_id"`
	Type   string           `json:"link_type"`
}

// A datum is the name of a value that a group shares, with its version.
type datum struct {
	Key      protocol.DataKey `json:"data_key"`
	Revision uint64           `json:"revision"`
}

// A value is one that a group shares.
type value struct {
	Value json.RawMessage `json:"data_value"`
	Type  string          `json:"data_type"`
}

// active is the status of a Cap that is in use.
const active = "active"

// caps lists the Caps of this bridge that the centre is shown, as far as the
// principal may see them. Of their members they have those whose skills the shown
// agents provide.
func (s *Site) caps(ctx context.Context, agents map[protocol.AgentID]*agent) (map[protocol.CapID]*channel, error) {
	if len(s.Caps) == 0 {
		return nil, nil
	}
	skills := provided(agents)
	found := map[protocol.CapID]*channel{}
	for cursor := ""; ; {
		var page struct {
			Caps []*channel `json:"caps"`
			Next string     `json:"next_cursor"`
		}
		if err := s.do(ctx, "cap.query", listed(cursor, map[string]any{}), &page); err != nil {
			return nil, err
		}
		for _, c := range page.Caps {
			if !s.showsCap(c.ID) || s.foreign(string(c.ID)) {
				continue
			}
			if len(found) == mostCaps {
				s.complain("Cap "+s.named(string(c.ID)), fmt.Errorf("%d Caps are shown already", mostCaps))
				continue
			}
			if err := s.addGroups(ctx, c, skills); err != nil {
				return nil, err
			}
			found[c.ID] = c
		}
		if cursor = page.Next; cursor == "" {
			return found, nil
		}
	}
}

// provided are the skills of some agents.
func provided(agents map[protocol.AgentID]*agent) map[protocol.SkillID]bool {
	skills := map[protocol.SkillID]bool{}
	for _, a := range agents {
		for i := range a.skills {
			skills[a.skills[i].ID] = true
		}
	}
	return skills
}

// addGroups completes a Cap with its groups. One that is removed meanwhile is left out.
func (s *Site) addGroups(ctx context.Context, c *channel, skills map[protocol.SkillID]bool) error {
	for cursor := ""; ; {
		var page struct {
			Groups []struct {
				ID protocol.GroupID `json:"group_id"`
			} `json:"groups"`
			Next string `json:"next_cursor"`
		}
		if err := s.do(ctx, "group.list", listed(cursor, map[string]any{"cap_id": c.ID}), &page); err != nil {
			return err
		}
		for _, in := range page.Groups {
			g := new(group)
			err := s.do(ctx, "group.query", map[string]any{"cap_id": c.ID, "group_id": in.ID}, g)
			if protocol.CodeOf(err) == protocol.NotFound {
				continue
			}
			if err != nil {
				return err
			}
			if g.keep(skills, c.LinkType); len(g.Members) > 0 || g.Selector != "" {
				c.groups = append(c.groups, g)
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// keep leaves of a group the members with some skills, and the links between them. In a
// bidirectional Cap each link is in the list in both directions, as the centre has it.
func (g *group) keep(skills map[protocol.SkillID]bool, linkType string) {
	g.Members = slices.DeleteFunc(g.Members, func(m member) bool { return !skills[m.Skill] })
	g.Links = slices.DeleteFunc(g.Links, func(l edge) bool { return g.member(l.Source) == nil || g.member(l.Target) == nil })
	if linkType != "bidirectional" {
		return
	}
	for _, l := range g.Links {
		if g.link(l.Target, l.Source) == nil {
			g.Links = append(g.Links, edge{l.Target, l.Source, l.Type})
		}
	}
}

// member is the member with a skill, nil if there is none.
func (g *group) member(skill protocol.SkillID) *member {
	if i := slices.IndexFunc(g.Members, func(m member) bool { return m.Skill == skill }); i >= 0 {
		return &g.Members[i]
	}
	return nil
}

// link is the link from one member to another, nil if there is none.
func (g *group) link(source, target protocol.SkillID) *edge {
	if i := slices.IndexFunc(g.Links, func(l edge) bool { return l.Source == source && l.Target == target }); i >= 0 {
		return &g.Links[i]
	}
	return nil
}

// selected converts the selector of a group to one that chooses the same agents and
// skills at the centre, where they have other ids and the tag of the site.
func (s *Site) selected(text string) (string, error) {
	here, err := selector.Parse(text)
	if err != nil {
		return "", err
	}
	var there []string
	for _, r := range here.Requirements() {
		switch r.Key {
		case selector.Key{Kind: selector.Tag, Name: TagSite}:
			return "", errors.New("its selector goes by the tag site, which at the centre has the name of the site")
		case selector.Key{Kind: selector.Agent, Name: "id"}, selector.Key{Kind: selector.Skill, Name: "id"}, selector.Key{Kind: selector.Skill, Name: "cap"}:
			r.Values = slices.Clone(r.Values)
			for i := range r.Values {
				r.Values[i] = s.named(r.Values[i])
			}
		}
		there = append(there, r.String())
	}
	there = append(there, TagSite+"="+s.Name)
	return strings.Join(there, ","), nil
}
