package cap

import (
	"reflect"

	"github.com/aibridge/aibridge/protocol"
)

// The data of the events of a Cap.
type (
	capEvent struct {
		Cap    protocol.CapID `json:"cap_id"`
		Status Status         `json:"status,omitempty"`
	}
	memberEvent struct {
		Cap        protocol.CapID   `json:"cap_id"`
		Group      protocol.GroupID `json:"group_id"`
		Skill      protocol.SkillID `json:"skill_id"`
		Role       string           `json:"role"`
		Attributes Attributes       `json:"attributes,omitempty"`
	}
	linkEvent struct {
		Cap   protocol.CapID   `json:"cap_id"`
		Group protocol.GroupID `json:"group_id"`
		Link
	}
	dataEvent struct {
		Cap       protocol.CapID   `json:"cap_id"`
		Group     protocol.GroupID `json:"group_id"`
		Key       protocol.DataKey `json:"data_key"`
		Type      DataType         `json:"data_type"`
		UpdatedBy string           `json:"updated_by"`
	}
)

// capChanged follows the table of Caps.
func (s *Service) capChanged(_ string, old, new *Cap) {
	s.index.capChanged(old, new)
	switch {
	case new == nil && old != nil:
		s.announceChange(old.Space, old.ID, "cap.removed", capEvent{Cap: old.ID})
		s.opts.MembershipLost(old.Space, old.ID)
	case old == nil:
		s.announceChange(new.Space, new.ID, "cap.declared", capEvent{new.ID, new.Status})
	default:
		s.announceChange(new.Space, new.ID, "cap.updated", capEvent{new.ID, new.Status})
	}
}

// groupChanged follows the table of groups and publishes each difference.
func (s *Service) groupChanged(_ string, old, new *Group) {
	s.index.groupChanged(old, new)
	before, after := old, new
	if before == nil {
		before = &Group{Space: new.Space, Cap: new.Cap, ID: new.ID}
	}
	if after == nil {
		after = &Group{Space: old.Space, Cap: old.Cap, ID: old.ID}
	}
	lost := s.membersDiffer(before, after)
	s.linksDiffer(before, after)
	if lost {
		s.opts.MembershipLost(before.Space, before.Cap)
	}
}

// membersDiffer reports whether a member left.
func (s *Service) membersDiffer(before, after *Group) (left bool) {
	was, is := bySkill(before), bySkill(after)
	for i := range before.Members {
		if m := &before.Members[i]; is[m.Skill] == nil {
			s.announceChange(before.Space, before.Cap, "group.member.removed", m.event(before))
			left = true
		}
	}
	for i := range after.Members {
		m := &after.Members[i]
		switch old := was[m.Skill]; {
		case old == nil:
			s.announceChange(after.Space, after.Cap, "group.member.added", m.event(after))
		case !reflect.DeepEqual(m, old):
			s.announceChange(after.Space, after.Cap, "group.member.updated", m.event(after))
		}
	}
	return left
}

func (m *Member) event(g *Group) memberEvent {
	return memberEvent{g.Cap, g.ID, m.Skill, m.Role, m.Attributes}
}

func bySkill(g *Group) map[protocol.SkillID]*Member {
	all := make(map[protocol.SkillID]*Member, len(g.Members))
	for i := range g.Members {
		all[g.Members[i].Skill] = &g.Members[i]
	}
	return all
}

func (s *Service) linksDiffer(before, after *Group) {
	was, is := links(before), links(after)
	for _, l := range before.Links {
		if !is[l] {
			s.announceChange(before.Space, before.Cap, "group.link.removed", linkEvent{before.Cap, before.ID, l})
		}
	}
	for _, l := range after.Links {
		if !was[l] {
			s.announceChange(after.Space, after.Cap, "group.link.added", linkEvent{after.Cap, after.ID, l})
		}
	}
}

func links(g *Group) map[Link]bool {
	m := make(map[Link]bool, len(g.Links))
	for _, l := range g.Links {
		m[l] = true
	}
	return m
}

// dataChanged follows the table of data.
func (s *Service) dataChanged(_ string, old, new *Datum) {
	s.index.dataChanged(old, new)
	d, name := new, "group.data.set"
	switch {
	case d == nil:
		d, name = old, "group.data.removed"
		s.past.drop(d.ref())
	case old != nil:
		s.past.note(old, new)
	}
	s.news.Value(d.ref())
	s.announceChange(d.Space, d.Cap, name, dataEvent{d.Cap, d.Group, d.Key, d.Type, d.UpdatedBy})
}
