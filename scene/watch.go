package scene

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// storePatience is the time to wait before a change that could not be stored
// is tried again.
const storePatience = 500 * time.Millisecond

// notes are the scenes that are to be checked because something changed around
// them. Leaving a note never blocks.
type notes struct {
	mu     sync.Mutex
	scenes map[string]bool  // by table key
	skills map[inSpace]bool // skills whose agents or certificates changed
	agents map[inSpace]bool // that went or came
	wake   chan struct{}
}

func newNotes() *notes {
	n := &notes{wake: make(chan struct{}, 1)}
	n.take()
	return n
}

// take returns the notes and begins anew.
func (n *notes) take() (taken struct {
	scenes         map[string]bool
	skills, agents map[inSpace]bool
}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken.scenes, taken.skills, taken.agents = n.scenes, n.skills, n.agents
	n.scenes, n.skills, n.agents = make(map[string]bool), make(map[inSpace]bool), make(map[inSpace]bool)
	return taken
}

// put writes a note, and leave has it looked at now.
func (n *notes) put(write func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	write()
}

func (n *notes) leave(write func()) {
	n.put(write)
	n.signal()
}

func (n *notes) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// AgentChanged is to be called when an agent went online or offline. It does
// not block.
func (s *Service) AgentChanged(space protocol.SpaceID, agent protocol.AgentID) {
	s.notes.leave(func() { s.notes.agents[inSpace{space, string(agent)}] = true })
}

// SkillChanged is to be called when a skill got other agents or none, or one
// of its certificates ended. It does not block.
func (s *Service) SkillChanged(space protocol.SpaceID, skill protocol.SkillID) {
	s.notes.leave(func() { s.notes.skills[inSpace{space, string(skill)}] = true })
}

// CapChanged is to be called when a Cap is gone or may have lost members. It
// does not block.
func (s *Service) CapChanged(space protocol.SpaceID, id protocol.CapID) {
	keys := s.index.ofCap(space, id)
	s.notes.leave(func() {
		for _, key := range keys {
			s.notes.scenes[key] = true
		}
	})
}

// watch looks at scenes when there is a reason, until ctx ends.
func (s *Service) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.notes.wake:
		case <-timer.C:
		}
		timer.Reset(s.look(ctx))
	}
}

// look works through the notes and returns the time until the next check without
// new ones.
func (s *Service) look(ctx context.Context) time.Duration {
	now := s.opts.Now()
	noted := s.notes.take()
	due := noted.scenes
	for agent := range noted.agents {
		for _, skill := range s.opts.Skills.ServedBy(agent.space, protocol.AgentID(agent.name)) {
			noted.skills[inSpace{agent.space, string(skill)}] = true
		}
	}
	for skill := range noted.skills {
		for _, key := range s.index.ofSkill(skill.space, protocol.SkillID(skill.name)) {
			due[key] = true
		}
	}
	over, next := s.leases.expire(now)
	for _, key := range over {
		due[key] = true
	}
	wait := time.Hour
	if !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	for key := range due {
		s.lookOut(key)
		if _, _, err := s.change(ctx, key, s.reviewed); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("a scene is not brought up to date yet", "scene", key, "error", err)
			s.notes.put(func() { s.notes.scenes[key] = true })
			wait = min(wait, storePatience)
		}
	}
	return max(wait, time.Millisecond)
}

// lookOut looks which RouteAgents of a scene are there.
func (s *Service) lookOut(key string) {
	scene, _, ok := s.opts.Scenes.Get(key)
	if !ok {
		return
	}
	for i := range scene.Members {
		if m := &scene.Members[i]; m.routes() {
			s.leases.look(seat{key, m.Skill}, s.opts.Skills.RouteAgentOnline(m.Principal, scene.Space, m.Skill))
		}
	}
}

// reviewed is a scene as it should be by now: without members that left its
// Cap, with those barred whose certificate ended, and with the right
// RouteAgent in charge. Nil if its Cap is gone.
func (s *Service) reviewed(old *Scene) (*Scene, error) {
	if old == nil {
		return nil, nil
	}
	if _, ok := s.opts.Channels.Channel(old.Space, old.Cap); !ok {
		return nil, nil
	}
	scene := old
	for i := range old.Members {
		m := s.judged(old, old.Members[i])
		if m == old.Members[i] {
			continue
		}
		if scene == old {
			scene = old.clone()
		}
		scene.Members[i] = m
	}
	if scene != old {
		scene.Members = slices.DeleteFunc(scene.Members, func(m Member) bool { return m.Barred == reasonOffCap && !m.routes() })
		scene.UpdatedAt = s.opts.Now().UnixMilli()
	}
	return s.settled(scene), nil
}

// judged is a member with the present reason that bars it. An earlier reason stays
// until the member declares itself anew, or leaves the Cap.
func (s *Service) judged(scene *Scene, m Member) Member {
	switch {
	case m.Barred != "" && m.routes():
	case !s.opts.Channels.Belongs(scene.Space, scene.Cap, m.Skill):
		m.Barred = reasonOffCap
	case m.Barred != "":
	case m.Serial != "":
		current, err := s.opts.Certificates.Current(m.Serial)
		switch protocol.CodeOf(err) {
		case "":
			m.Serial = current
		case protocol.CertificateExpired:
			m.Barred = reasonExpired
		case protocol.CertificateRevoked:
			m.Barred = reasonRevoked
		default:
			m.Barred = reasonUnknown
		}
	}
	return m
}
