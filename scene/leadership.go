package scene

import (
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Why a scene is suspended, or a member barred.
const (
	reasonOffline  = "the RouteAgent is offline"
	reasonOffCap   = "no longer on the Cap"
	reasonExpired  = "the certificate has expired"
	reasonRevoked  = "the certificate was revoked"
	reasonUnknown  = "the certificate is not known any more"
	reasonNobodyIs = "no RouteAgent takes part"
)

// inCharge is the RouteAgent that is to be in charge of a scene: its owner, else
// the backup that already is, else the first online one. Without any, reason is the
// reason.
func (s *Service) inCharge(scene *Scene) (acting protocol.SkillID, reason string) {
	reason = reasonNobodyIs
	for i := range scene.Members {
		m := &scene.Members[i]
		if !m.routes() {
			continue
		}
		here := m.Barred == "" && s.present(scene, m)
		if m.Skill == scene.Owner {
			if here {
				return m.Skill, ""
			}
			if reason = m.Barred; reason == "" {
				reason = reasonOffline
			}
		}
		if here && (acting == "" || m.Skill == scene.Acting) {
			acting = m.Skill
		}
	}
	if acting != "" {
		return acting, ""
	}
	return "", reason
}

// present reports whether a RouteAgent is there: one of its agents is online,
// or it has just declared itself.
func (s *Service) present(scene *Scene, m *Member) bool {
	return s.opts.Skills.RouteAgentOnline(m.Principal, scene.Space, m.Skill) || s.leases.holds(seat{scene.key(), m.Skill}, s.opts.Now())
}

// settled is the scene with the right RouteAgent in charge, the scene itself if
// it has.
func (s *Service) settled(scene *Scene) *Scene {
	acting, reason := s.inCharge(scene)
	if acting == scene.Acting && reason == scene.Reason {
		return scene
	}
	changed := *scene
	changed.Acting, changed.Reason, changed.UpdatedAt = acting, reason, s.opts.Now().UnixMilli()
	switch {
	case acting != "":
		changed.SuspendedAt = 0
	case scene.SuspendedAt == 0:
		changed.SuspendedAt = changed.UpdatedAt
	}
	return &changed
}

// leases are the times for which a RouteAgent counts as online without a sign
// of its agent: it may have declared itself before its agent is online, or
// without an agent on MQTT. They are not stored: the RouteAgent in charge gets
// a new one when the bridge starts, and has that time to come back.
type leases struct {
	mu   sync.Mutex
	held map[seat]lease
}

// A seat is a RouteAgent in a scene.
type seat struct {
	scene string // table key
	skill protocol.SkillID
}

type lease struct {
	until time.Time
	seen  bool // its agent was online since
}

func newLeases() *leases { return &leases{held: make(map[seat]lease)} }

func (l *leases) grant(s seat, granted lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[s] = granted
}

// look notes whether the agent of a RouteAgent is online. One that was and is
// not any more has left: it is not waited for.
func (l *leases) look(s seat, online bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, ok := l.held[s]
	switch {
	case !ok:
	case online:
		held.seen = true
		l.held[s] = held
	case held.seen:
		delete(l.held, s)
	}
}

func (l *leases) holds(s seat, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.held[s].until)
}

// expire forgets leases that are over and returns the scenes they were about,
// and when the next one ends.
func (l *leases) expire(now time.Time) (scenes []string, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, held := range l.held {
		switch {
		case !now.Before(held.until):
			delete(l.held, s)
			scenes = append(scenes, s.scene)
		case next.IsZero() || held.until.Before(next):
			next = held.until
		}
	}
	return scenes, next
}
