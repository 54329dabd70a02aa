package cap

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of a group, so that it fits into one record.
const (
	maxLinks = 2000
	maxKeys  = 512
)

// A Group is the members of a group and their links, as stored. It is
// immutable. Its data are records of their own, so that a value is set by
// writing one.
type Group struct {
	Space   protocol.SpaceID `json:"space_id"`
	Cap     protocol.CapID   `json:"cap_id"`
	ID      protocol.GroupID `json:"group_id"`
	Members []Member         `json:"members"` // in the order in which they joined
	Links   []Link           `json:"links,omitempty"`
	BornAt  int64            `json:"born_at"` // Unix milliseconds

	// Selector chooses the members at the time, which are not stored; "" where members
	// are added one by one.
	Selector string `json:"selector,omitempty"`
}

// KeptFor names the budget of records that it uses: the budget of its space.
func (g *Group) KeptFor() protocol.Party { return protocol.Party{Space: g.Space} }

// A Member is a skill in a group.
type Member struct {
	Skill      protocol.SkillID `json:"skill_id" doc:"id of the skill; it need not be registered yet"`
	Role       string           `json:"role" doc:"role of the skill in the group, as the owner of the Cap named it"`
	Attributes Attributes       `json:"attributes,omitempty" doc:"further facts about it"`
	JoinedAt   int64            `json:"joined_at" doc:"Unix milliseconds"`
}

// Attributes describe a member, so that its group can choose by them: its
// floor, its material.
type Attributes map[string]string

// Bounds of one member's attributes, so that a full group still fits
// into one record.
const (
	maxAttributeName = 32  // characters
	maxAttributes    = 512 // bytes of all names and values
)

// check returns the error of bad attributes in a parameter.
func (a Attributes) check(param string) error {
	size := 0
	for name, value := range a {
		if n := utf8.RuneCountInString(name); n < 1 || n > maxAttributeName || protocol.CheckText(name, false) != "" {
			return protocol.InvalidParam(param, fmt.Sprintf("names must have 1 to %d characters, none of them control characters or hidden ones", maxAttributeName))
		}
		size += len(name) + len(value)
	}
	if size > maxAttributes {
		return protocol.InvalidParam(param, fmt.Sprintf("names and values may have %d bytes together, have %d", maxAttributes, size))
	}
	return nil
}

// has reports whether all of the wanted attributes are there.
func (a Attributes) has(wanted Attributes) bool {
	for name, value := range wanted {
		if found, ok := a[name]; !ok || found != value {
			return false
		}
	}
	return true
}

// A Link leads from one member to another. Between two members there is at
// most one in each direction.
type Link struct {
	Source protocol.SkillID `json:"source_skill_id" doc:"id of the member that the link leads from"`
	Target protocol.SkillID `json:"target_skill_id" doc:"id of the member that the link leads to"`
	Type   string           `json:"link_type" doc:"kind of traffic on the link, as its maker named it"`
}

func (g *Group) key() string { return groupKey(g.Space, g.Cap, g.ID) }

// member is the place of a skill among the members, -1 if it is none.
func (g *Group) member(skill protocol.SkillID) int {
	return slices.IndexFunc(g.Members, func(m Member) bool { return m.Skill == skill })
}

// link is the place of a link among the links, -1 if it is not there.
func (g *Group) link(source, target protocol.SkillID) int {
	return slices.IndexFunc(g.Links, func(l Link) bool { return l.Source == source && l.Target == target })
}

// clone is a copy whose lists may be changed.
func (g *Group) clone() *Group {
	c := *g
	c.Members, c.Links = slices.Clone(g.Members), slices.Clone(g.Links)
	return &c
}

// findGroup looks up a group of a Cap.
func (s *Service) findGroup(c *Cap, id protocol.GroupID) (*Group, uint64, error) {
	g, revision, ok := s.opts.Groups.Get(groupKey(c.Space, c.ID, id))
	if !ok {
		return nil, 0, noGroup(c, id)
	}
	return g, revision, nil
}

// changeGroup replaces a group that is there by what edit makes of it.
func (s *Service) changeGroup(ctx context.Context, call *commands.Call, id protocol.CapID, group protocol.GroupID, edit func(*Cap, *Group) (*Group, error)) (revision uint64, err error) {
	defer s.locks.share(capKey(call.Principal.Home(), id))()
	c, err := s.findActive(call, id)
	if err != nil {
		return 0, err
	}
	_, revision, err = records.Change(ctx, s.opts.Groups, groupKey(c.Space, c.ID, group), func(old *Group, _ uint64) (*Group, error) {
		if old == nil {
			return nil, noGroup(c, group)
		}
		return edit(c, old)
	})
	return revision, err
}
