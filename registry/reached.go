package registry

import (
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/registry/ask"
)

// A boardMutex guards the board, and counts who may have changed it. So what was seen
// on the board is known to be so still without locking it.
type boardMutex struct {
	sync.Mutex
	epoch atomic.Uint64
}

// Lock is for who may change the board. The epoch moves first, so that it has moved
// before the change is told to anybody.
func (m *boardMutex) Lock() {
	m.Mutex.Lock()
	m.epoch.Add(1)
}

// Look is Lock for who changes nothing.
func (m *boardMutex) Look() { m.Mutex.Lock() }

// A reached is the only agent of a skill, with the way to it over MQTT, as it is while
// the board does not change.
type reached struct {
	epoch uint64
	peers [1]ask.Peer
	way   ask.Way
}

// reach is how the skill of v is reached, nil if that is not by the one agent that it has,
// over MQTT.
func (s *Service) reach(v *invocable) *reached {
	epoch := s.board.mu.epoch.Load() // before the board is looked at
	if known := v.latest.Load(); known != nil && known.epoch == epoch {
		return known
	}
	if len(v.skill.Providers) != 1 {
		return nil
	}
	agent, way := s.board.reachable(ask.AgentKey{Space: v.skill.Space, ID: v.skill.Providers[0].AgentID})
	if agent == nil || way.Topics.Request == "" {
		return nil
	}
	now := &reached{epoch: epoch, peers: [1]ask.Peer{{Agent: agent}}, way: way}
	v.latest.Store(now)
	return now
}
