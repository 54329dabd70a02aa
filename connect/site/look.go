package site

import (
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A View is a site as it is at the moment.
type View struct {
	State    State
	Since    time.Time
	Problem  string           // why it is down, "" while it is connected
	Agents   int              // registered at the centre
	NotShown []string         // agents and skills that are not shown there, with the reason
	Space    protocol.SpaceID // the space of the shown agents, "" until that is known
}

// Look is the site as it is; running is whether it runs on this bridge.
func (s *Site) Look() (v View, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = View{State: s.state, Since: s.since, Problem: s.problem, Agents: s.told, Space: s.space}
	if v.State == Connected && s.centre != nil && !s.centre.Connected() {
		v.State, v.Problem = Down, "the connection to the centre is lost, and is made anew"
	}
	for _, name := range slices.Sorted(maps.Keys(s.complains)) {
		v.NotShown = append(v.NotShown, name+": "+s.complains[name])
	}
	return v, s.running
}

// counts notes the number of agents registered at the centre.
func (s *Site) counts(agents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = agents
}

// homeSpace is the space of the principal that the centre's calls are made for, "" until that
// is known.
func (s *Site) homeSpace() protocol.SpaceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space
}

// runs notes whether the site runs on this bridge.
func (s *Site) runs(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
}
