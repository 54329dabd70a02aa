package scene

import (
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// RouteRole is the role of a RouteAgent. It always takes a certificate.
const RouteRole = "agent_route"

// MemberRole is the role of members that join without naming one.
const MemberRole = "member"

// A Scene is a declared scene, as stored. It is immutable.
type Scene struct {
	Space protocol.SpaceID   `json:"space_id"`
	Type  protocol.SceneType `json:"scene_type"`
	Cap   protocol.CapID     `json:"cap_id"`
	Owner protocol.SkillID   `json:"owner"`
	// Acting is the RouteAgent in charge: the owner, a backup, or "" while the
	// scene is suspended.
	Acting      protocol.SkillID `json:"acting,omitempty"`
	Reason      string           `json:"reason,omitempty"`       // why it is suspended
	SuspendedAt int64            `json:"suspended_at,omitempty"` // Unix milliseconds, 0 while it is not
	Members     []Member         `json:"members"`                // in the order in which they joined, the owner among them
	DeclaredAt  int64            `json:"declared_at"`            // Unix milliseconds
	UpdatedAt   int64            `json:"updated_at"`             // Unix milliseconds
}

// KeptFor names the budget of records that it uses: the budget of its space.
func (s *Scene) KeptFor() protocol.Party { return protocol.Party{Space: s.Space} }

// A Member is a skill that takes part in a scene.
type Member struct {
	Skill     protocol.SkillID `json:"skill_id"`
	Role      string           `json:"skill_role"`
	Principal protocol.Party   `json:"principal"` // declared it
	// Serial is the certificate it was declared with, "" for none.
	Serial protocol.Serial `json:"cert_sn,omitempty"`
	// Barred is the reason why the member has lost its role until it is
	// declared anew, "" if it has not.
	Barred   string `json:"barred,omitempty"`
	JoinedAt int64  `json:"joined_at"` // Unix milliseconds
}

// routes reports whether the member is a RouteAgent.
func (m *Member) routes() bool { return m.Role == RouteRole }

func (s *Scene) key() string { return sceneKey(s.Space, s.Type, s.Cap) }

func (s *Scene) id() id { return id{s.Type, s.Cap} }

// member is the place of a skill among the members, -1 if it is none.
func (s *Scene) member(skill protocol.SkillID) int {
	return slices.IndexFunc(s.Members, func(m Member) bool { return m.Skill == skill })
}

// find is the member that a skill is, nil if it is none.
func (s *Scene) find(skill protocol.SkillID) *Member {
	if i := s.member(skill); i >= 0 {
		return &s.Members[i]
	}
	return nil
}

// clone is a copy whose list may be changed.
func (s *Scene) clone() *Scene {
	c := *s
	c.Members = slices.Clone(s.Members)
	return &c
}

// suspended reports whether no RouteAgent is in charge.
func (s *Scene) suspended() bool { return s.Acting == "" }

// heir is the backup that comes first when the owner goes: the one in charge,
// else the first that may be. Nil if there is none.
func (s *Scene) heir() *Member {
	var first *Member
	for i := range s.Members {
		m := &s.Members[i]
		if !m.routes() || m.Barred != "" || m.Skill == s.Owner {
			continue
		}
		if m.Skill == s.Acting {
			return m
		}
		if first == nil {
			first = m
		}
	}
	return first
}

// An id names a scene in its space.
type id struct {
	scene protocol.SceneType
	cap   protocol.CapID
}

// resource is the scene as policy sees it.
func (i id) resource() string { return string(i.scene) + "/" + string(i.cap) }
