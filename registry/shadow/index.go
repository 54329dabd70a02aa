package shadow

import (
	"maps"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// An index finds the documents of an agent. It follows the table.
type index struct {
	mu     sync.RWMutex
	agents map[ref]map[protocol.SkillID]pair
}

// A pair is the documents of one skill, nil for one that was never set.
type pair struct{ desired, reported *Record }

func newIndex() *index { return &index{agents: make(map[ref]map[protocol.SkillID]pair)} }

func (x *index) changed(_ string, old, new *Record) {
	r := new
	if r == nil {
		r = old
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	skills := x.agents[r.ref()]
	p := skills[r.Skill]
	if r.Side == Desired {
		p.desired = new
	} else {
		p.reported = new
	}
	switch {
	case p != pair{}:
		if skills == nil {
			skills = make(map[protocol.SkillID]pair)
			x.agents[r.ref()] = skills
		}
		skills[r.Skill] = p
	default:
		if delete(skills, r.Skill); len(skills) == 0 {
			delete(x.agents, r.ref())
		}
	}
}

// of are the documents of an agent, by skill.
func (x *index) of(agent ref) map[protocol.SkillID]pair {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.agents[agent])
}

// get are the documents of one skill of an agent.
func (x *index) get(agent ref, skill protocol.SkillID) pair {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.agents[agent][skill]
}

// count is the number of skills of an agent besides that one have documents.
func (x *index) count(agent ref, besides protocol.SkillID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := len(x.agents[agent])
	if _, there := x.agents[agent][besides]; there {
		n--
	}
	return n
}

// all lists the agents with documents.
func (x *index) all() []ref {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.agents))
}

// standing is a pair without the documents that belong to an earlier
// registration of the agent.
func (p pair) standing(born int64) pair {
	if p.desired != nil && p.desired.Born != born {
		p.desired = nil
	}
	if p.reported != nil && p.reported.Born != born {
		p.reported = nil
	}
	return p
}

// delta is the part of the desired document that the reported one lacks.
func (p pair) delta() object { return difference(p.desired.document(), p.reported.document()) }

// document is the content of a record, empty without one.
func (r *Record) document() object {
	if r == nil {
		return object{}
	}
	o, err := parse(r.State)
	if err != nil { // it was stored, so it was parsed before
		return object{}
	}
	return o
}
