package scene

import (
	"maps"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// An index finds scenes by their Cap and by their members. It follows the
// table.
type index struct {
	mu      sync.RWMutex
	byCap   map[inSpace]map[string]bool // table keys of scenes
	bySkill map[inSpace]map[string]bool
}

// inSpace is the name of a Cap or a skill in its space.
type inSpace struct {
	space protocol.SpaceID
	name  string
}

func newIndex() *index {
	return &index{byCap: make(map[inSpace]map[string]bool), bySkill: make(map[inSpace]map[string]bool)}
}

func (x *index) changed(key string, old, new *Scene) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		drop(x.byCap, inSpace{old.Space, string(old.Cap)}, key)
		for i := range old.Members {
			drop(x.bySkill, inSpace{old.Space, string(old.Members[i].Skill)}, key)
		}
	}
	if new != nil {
		add(x.byCap, inSpace{new.Space, string(new.Cap)}, key)
		for i := range new.Members {
			add(x.bySkill, inSpace{new.Space, string(new.Members[i].Skill)}, key)
		}
	}
}

func add(m map[inSpace]map[string]bool, name inSpace, key string) {
	if m[name] == nil {
		m[name] = make(map[string]bool, 1)
	}
	m[name][key] = true
}

func drop(m map[inSpace]map[string]bool, name inSpace, key string) {
	if delete(m[name], key); len(m[name]) == 0 {
		delete(m, name)
	}
}

// ofCap lists the keys of the scenes that have a Cap as their channel.
func (x *index) ofCap(space protocol.SpaceID, id protocol.CapID) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byCap[inSpace{space, string(id)}]))
}

// ofSkill lists the keys of the scenes that a skill takes part in.
func (x *index) ofSkill(space protocol.SpaceID, skill protocol.SkillID) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.bySkill[inSpace{space, string(skill)}]))
}

// countOf is the number of scenes that have a Cap as their channel.
func (x *index) countOf(space protocol.SpaceID, id protocol.CapID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byCap[inSpace{space, string(id)}])
}
