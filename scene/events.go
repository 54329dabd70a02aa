package scene

import "github.com/aibridge/aibridge/protocol"

// A Status is whether a RouteAgent is in charge of a scene.
type Status string

// The statuses.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
)

func (s *Scene) status() Status {
	if s.suspended() {
		return Suspended
	}
	return Active
}

// An Event is the data of an event of a scene: the change, the skill it
// concerns, and the state of the scene afterwards.
type Event struct {
	Type     protocol.SceneType `json:"scene_type"`
	Cap      protocol.CapID     `json:"cap_id"`
	Skill    protocol.SkillID   `json:"skill_id,omitempty"`   // the member that it is about
	Role     string             `json:"skill_role,omitempty"` // its role
	Reason   string             `json:"reason,omitempty"`
	Status   Status             `json:"status,omitempty"` // "" when the scene is gone
	Owner    protocol.SkillID   `json:"owner"`
	Acting   protocol.SkillID   `json:"acting,omitempty"`
	Members  int                `json:"members"` // how many
	Revision uint64             `json:"revision,omitempty"`
}

// The names of the events. Beside those of the protocol there are three:
// another RouteAgent is in charge, something else about a member changed, and the
// state of the scene when the bridge starts.
const (
	declaredEvent  = "scene.declared"
	joinedEvent    = "scene.joined"
	leftEvent      = "scene.left"
	suspendedEvent = "scene.suspended"
	resumedEvent   = "scene.resumed"
	cancelledEvent = "scene.cancelled"
	takenOverEvent = "scene.taken_over"
	updatedEvent   = "scene.updated"
	stateEvent     = "scene.state"
)

// sceneChanged follows the table of scenes.
func (s *Service) sceneChanged(key string, old, new *Scene) {
	s.index.changed(key, old, new)
	if new == nil {
		if old != nil {
			s.tell(old, cancelledEvent, Event{Skill: old.Owner, Role: RouteRole})
			s.opts.MembershipLost(old.Type, old.Cap)
		}
		return
	}
	s.notes.leave(func() { s.notes.scenes[key] = true })
	_, revision, _ := s.opts.Scenes.Get(key)
	stands := Event{Status: new.status(), Acting: new.Acting, Revision: revision}
	tell := func(name string, skill protocol.SkillID, role, reason string) {
		e := stands
		e.Skill, e.Role, e.Reason = skill, role, reason
		s.tell(new, name, e)
	}
	if old == nil {
		tell(declaredEvent, new.Owner, RouteRole, "")
		return
	}
	told, lost := s.membersDiffer(old, new, tell)
	switch {
	case !old.suspended() && new.suspended():
		tell(suspendedEvent, new.Owner, RouteRole, new.Reason)
	case old.suspended() && !new.suspended():
		tell(resumedEvent, new.Acting, RouteRole, "")
	case old.Acting != new.Acting:
		tell(takenOverEvent, new.Acting, RouteRole, "")
	case !told:
		tell(updatedEvent, "", "", new.Reason)
	}
	if lost {
		s.opts.MembershipLost(new.Type, new.Cap)
	}
}

// membersDiffer tells of members that joined or left. It reports whether any did,
// and whether any left.
func (s *Service) membersDiffer(old, new *Scene, tell func(name string, skill protocol.SkillID, role, reason string)) (told, lost bool) {
	was, is := roles(old), roles(new)
	for i := range old.Members {
		if m := &old.Members[i]; is[m.Skill] == "" {
			tell(leftEvent, m.Skill, m.Role, "")
			told, lost = true, true
		}
	}
	for i := range new.Members {
		if m := &new.Members[i]; was[m.Skill] == "" {
			tell(joinedEvent, m.Skill, m.Role, "")
			told = true
		}
	}
	return told, lost
}

func roles(s *Scene) map[protocol.SkillID]string {
	all := make(map[protocol.SkillID]string, len(s.Members))
	for i := range s.Members {
		all[s.Members[i].Skill] = s.Members[i].Role
	}
	return all
}

// tell has an event published with the names of its scene.
func (s *Service) tell(scene *Scene, name string, e Event) {
	e.Type, e.Cap, e.Owner, e.Members = scene.Type, scene.Cap, scene.Owner, len(scene.Members)
	s.news.Event(announcement{scene.Space, scene.id(), name, e})
}
