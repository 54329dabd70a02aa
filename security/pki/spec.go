package pki

import (
	"cmp"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// defaultValidity is the life of a certificate whose spec names none.
const defaultValidity = 90 * 24 * 60 * 60 // seconds

// A CertificateSpec describes a wanted certificate. Its holder follows: the
// operator or agent that is named, else the skill; a route agent is an agent
// of the same name as its skill unless another is named.
type CertificateSpec struct {
	Authority Authority            `json:"authority,omitempty" enum:"operator,appstore,enterprise" doc:"which authority is to grant it"`
	Skill     protocol.SkillID     `json:"skill_id,omitempty" doc:"the skill it is for"`
	Agent     protocol.AgentID     `json:"agent_id,omitempty" doc:"the agent that holds it, if not one named after the skill"`
	Operator  protocol.AgentID     `json:"operator_id,omitempty" doc:"the person or tool that holds it; only administrators grant these"`
	Role      string               `json:"role,omitempty" len:"1-32" doc:"role it may take: agent_route for route agents, or one of its scenes"`
	Roles     []string             `json:"roles,omitempty" len:"1-16" each:"1-32" doc:"several of them"`
	Scenes    []protocol.SceneType `json:"scene_types,omitempty" len:"1-64" doc:"types of scenes it may declare and join; * is all"`
	Purpose   string               `json:"purpose,omitempty" len:"1-256" text:"lines" doc:"purpose, in words"`
	Space     protocol.SpaceID     `json:"space_id,omitempty" doc:"the space it is good in, the caller's own by default"`
	Validity  int                  `json:"validity_seconds,omitempty" range:"1-71280000" doc:"time that it lasts, 90 days by default"`
}

// named reports whether any field that describes the certificate is set.
func (w *CertificateSpec) named() bool {
	return w.Authority != "" || w.Skill != "" || w.Agent != "" || w.Operator != "" || w.Role != "" || len(w.Roles) > 0 || len(w.Scenes) > 0
}

// scope is the scope of the wanted certificate for a caller.
func (w *CertificateSpec) scope(call *commands.Call) (*Scope, error) {
	space, err := in(call, w.Space)
	if err != nil {
		return nil, err
	}
	s := &Scope{Version: scopeVersion, Space: space, Skill: w.Skill, Purpose: w.Purpose}
	s.Roles = slices.Clone(w.Roles)
	if w.Role != "" {
		s.Roles = append(s.Roles, w.Role)
	}
	slices.Sort(s.Roles)
	s.Roles = slices.Compact(s.Roles)
	s.Scenes = slices.Clone(w.Scenes)
	slices.Sort(s.Scenes)
	s.Scenes = slices.Compact(s.Scenes)
	switch {
	case w.Operator != "" && (w.Agent != "" || w.Skill != ""):
		return nil, protocol.InvalidParam("operator_id", "is not possible together with agent_id or skill_id")
	case w.Operator != "":
		s.Kind, s.ID = protocol.KindOperator, string(w.Operator)
	case w.Agent != "":
		s.Kind, s.ID = protocol.KindAgent, string(w.Agent)
	case w.Skill == "":
		return nil, protocol.InvalidParam("skill_id", "is needed, or agent_id")
	case slices.ContainsFunc(s.Roles, routes):
		s.Kind, s.ID = protocol.KindAgent, string(w.Skill)
	default:
		s.Kind, s.ID = protocol.KindSkill, string(w.Skill)
	}
	if slices.ContainsFunc(s.Roles, routes) && w.Skill == "" {
		return nil, protocol.InvalidParam("skill_id", "is needed for a route agent")
	}
	if err := s.check(); err != nil {
		return nil, protocol.InvalidParam("roles", err.Error())
	}
	return s, s.checkRoles()
}

func (w *CertificateSpec) validity() int { return cmp.Or(w.Validity, defaultValidity) }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
