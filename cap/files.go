package cap

import (
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// roleObserver is the role of a member that reads the files of its group and
// writes none.
const roleObserver = "observer"

// MayUseGroup reports whether a principal may read or write the files of a group:
// the owner of the Cap and the group's members, of which observers only read.
func (s *Service) MayUseGroup(who *protocol.Principal, id protocol.CapID, group protocol.GroupID, write bool) bool {
	space := who.Home()
	c, _, ok := s.opts.Caps.Get(capKey(space, id))
	if !ok {
		return false
	}
	g, _, ok := s.opts.Groups.Get(groupKey(space, id, group))
	if !ok {
		return owns(who, c)
	}
	if owns(who, c) {
		return true
	}
	if write && c.Status != Active {
		return false
	}
	for i := range g.Members {
		if m := &g.Members[i]; (m.Role != roleObserver || !write) && s.speaksFor(who, space, m.Skill) {
			return true
		}
	}
	return false
}

// SharesGroup reports whether a principal may use a group of that name in some
// Cap of an owner.
func (s *Service) SharesGroup(who *protocol.Principal, owner protocol.Party, group protocol.GroupID, write bool) bool {
	for _, id := range s.index.capsWith(who.Home(), owner, group) {
		if s.MayUseGroup(who, id, group, write) {
			return true
		}
	}
	return false
}

// capsWith lists the Caps of an owner that have a group.
func (x *index) capsWith(space protocol.SpaceID, owner protocol.Party, group protocol.GroupID) []protocol.CapID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var list []protocol.CapID
	for key, c := range x.caps {
		if c.owner != owner && !owner.Includes(c.owner) || !c.groups[group] {
			continue
		}
		if id, ok := strings.CutPrefix(key, string(space)+"/"); ok {
			list = append(list, protocol.CapID(id))
		}
	}
	return list
}
