package cap

import (
	"maps"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// An index finds the groups, links and data of a Cap. It follows the tables.
type index struct {
	mu   sync.RWMutex
	caps map[string]*channel // by table key of the Cap
	// knowing are the Caps that know a skill, each with how often: as its own,
	// and once for each of its groups.
	knowing map[skillKey]map[protocol.CapID]int
}

type skillKey struct {
	space protocol.SpaceID
	skill protocol.SkillID
}

// A channel holds everything that belongs to one Cap.
type channel struct {
	active  bool
	owner   protocol.Party
	skill   protocol.SkillID
	groups  map[protocol.GroupID]bool
	members map[protocol.SkillID]int // the number of groups a skill is in
	data    map[protocol.GroupID]map[protocol.DataKey]bool
}

func newIndex() *index {
	return &index{caps: make(map[string]*channel), knowing: make(map[skillKey]map[protocol.CapID]int)}
}

// knows counts one more reference of a Cap to a skill, or one less.
func (x *index) knows(space protocol.SpaceID, id protocol.CapID, skill protocol.SkillID, more int) {
	key := skillKey{space, skill}
	of := x.knowing[key]
	if of == nil {
		of = make(map[protocol.CapID]int)
		x.knowing[key] = of
	}
	if of[id] += more; of[id] == 0 {
		delete(of, id)
	}
	if len(of) == 0 {
		delete(x.knowing, key)
	}
}

// channel finds what belongs to a Cap and makes room for it if need be: groups
// may be loaded before their Cap.
func (x *index) channel(space protocol.SpaceID, id protocol.CapID) *channel {
	key := capKey(space, id)
	c := x.caps[key]
	if c == nil {
		c = &channel{
			groups:  make(map[protocol.GroupID]bool),
			members: make(map[protocol.SkillID]int),
			data:    make(map[protocol.GroupID]map[protocol.DataKey]bool),
		}
		x.caps[key] = c
	}
	return c
}

// tidy forgets a Cap of which nothing is left.
func (x *index) tidy(space protocol.SpaceID, id protocol.CapID) {
	if c := x.caps[capKey(space, id)]; c != nil && c.owner.ID == "" && len(c.groups) == 0 && len(c.data) == 0 {
		delete(x.caps, capKey(space, id))
	}
}

func (x *index) capChanged(old, new *Cap) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		x.knows(old.Space, old.ID, old.Skill, -1)
	}
	if new != nil {
		x.knows(new.Space, new.ID, new.Skill, 1)
		c := x.channel(new.Space, new.ID)
		c.active, c.owner, c.skill = new.Status == Active, new.Owner, new.Skill
	} else if old != nil {
		c := x.channel(old.Space, old.ID)
		c.active, c.owner, c.skill = false, protocol.Party{}, ""
		x.tidy(old.Space, old.ID)
	}
}

func (x *index) groupChanged(old, new *Group) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if new != nil {
		c := x.channel(new.Space, new.Cap)
		c.groups[new.ID] = true
		for i := range new.Members {
			c.members[new.Members[i].Skill]++
			x.knows(new.Space, new.Cap, new.Members[i].Skill, 1)
		}
	}
	if old != nil {
		c := x.channel(old.Space, old.Cap)
		if new == nil {
			delete(c.groups, old.ID)
		}
		for i := range old.Members {
			skill := old.Members[i].Skill
			if c.members[skill]--; c.members[skill] <= 0 {
				delete(c.members, skill)
			}
			x.knows(old.Space, old.Cap, skill, -1)
		}
		x.tidy(old.Space, old.Cap)
	}
}

func (x *index) dataChanged(old, new *Datum) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if new != nil {
		c := x.channel(new.Space, new.Cap)
		if c.data[new.Group] == nil {
			c.data[new.Group] = make(map[protocol.DataKey]bool)
		}
		c.data[new.Group][new.Key] = true
	} else if old != nil {
		c := x.channel(old.Space, old.Cap)
		if delete(c.data[old.Group], old.Key); len(c.data[old.Group]) == 0 {
			delete(c.data, old.Group)
		}
		x.tidy(old.Space, old.Cap)
	}
}

// groupsOf lists the groups of a Cap by id.
func (x *index) groupsOf(space protocol.SpaceID, id protocol.CapID) []protocol.GroupID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.caps[capKey(space, id)]; c != nil {
		return slices.Sorted(maps.Keys(c.groups))
	}
	return nil
}

// groupCount is the number of groups that a Cap has.
func (x *index) groupCount(space protocol.SpaceID, id protocol.CapID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.caps[capKey(space, id)]; c != nil {
		return len(c.groups)
	}
	return 0
}

// dataOf lists the names of a group's values.
func (x *index) dataOf(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID) []protocol.DataKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.caps[capKey(space, id)]; c != nil {
		return slices.Sorted(maps.Keys(c.data[group]))
	}
	return nil
}

func (x *index) dataCount(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.caps[capKey(space, id)]; c != nil {
		return len(c.data[group])
	}
	return 0
}

// A standing is a party's relation to a Cap.
type standing struct{ there, active, member bool }

// stands reports whether one of the skills is a member of a group of the Cap or
// the Cap's own skill, or the asking party is the owner.
func (x *index) stands(space protocol.SpaceID, id protocol.CapID, who protocol.Party, skills []protocol.SkillID) standing {
	x.mu.RLock()
	defer x.mu.RUnlock()
	c := x.caps[capKey(space, id)]
	if c == nil || c.owner.ID == "" {
		return standing{}
	}
	st := standing{there: true, active: c.active, member: c.owner.Includes(who)}
	for _, skill := range skills {
		st.member = st.member || skill == c.skill || c.members[skill] > 0
	}
	return st
}

// capsOf lists the Caps that a skill owns or has joined, by id.
func (x *index) capsOf(space protocol.SpaceID, skill protocol.SkillID) []protocol.CapID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Sorted(maps.Keys(x.knowing[skillKey{space, skill}]))
}
