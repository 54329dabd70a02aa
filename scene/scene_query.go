package scene

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var query = commands.Spec{
	Name:    "scene.query",
	Summary: "List scenes: who owns them, who is in charge, and who takes part.",
	Effect:  commands.Read,
	Action:  "scene:query",
	Example: `{"scene_type":"SMART_HOME"}`,
}

// QueryParams are the params of scene.query.
type QueryParams struct {
	Scene  protocol.SceneType `json:"scene_type,omitempty" doc:"only scenes of this type"`
	Cap    protocol.CapID     `json:"cap_id,omitempty" doc:"only scenes with this Cap as their channel"`
	Limit  int                `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many to return at most"`
	Cursor string             `json:"cursor,omitempty" len:"1-128" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p QueryParams) Target() commands.Resource {
	if p.Scene == "" || p.Cap == "" {
		return commands.Resource{Type: "scene"}
	}
	return commands.Resource{Type: "scene", ID: id{p.Scene, p.Cap}.resource()}
}

// QueryResult is the result of scene.query.
type QueryResult struct {
	Scenes     []View `json:"scenes" doc:"the scenes of this page, by type and Cap; empty if none fits"`
	Total      int    `json:"total" doc:"how many there are on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// A View is a scene as callers see it.
type View struct {
	Type        protocol.SceneType `json:"scene_type" doc:"type of the scene"`
	Cap         protocol.CapID     `json:"cap_id" doc:"id of the Cap that is the channel of the scene"`
	Owner       protocol.SkillID   `json:"owner" doc:"the skill it belongs to"`
	DeclaredAt  int64              `json:"declared_at" doc:"Unix milliseconds"`
	Members     []MemberView       `json:"members" doc:"in the order in which they joined, the owner among them"`
	Status      Status             `json:"status" enum:"active,suspended" doc:"suspended while no RouteAgent is in charge"`
	Acting      protocol.SkillID   `json:"acting,omitempty" doc:"the RouteAgent in charge: the owner or a backup"`
	Reason      string             `json:"reason,omitempty" doc:"why it is suspended"`
	SuspendedAt int64              `json:"suspended_at,omitempty" doc:"Unix milliseconds"`
	UpdatedAt   int64              `json:"updated_at" doc:"Unix milliseconds"`
	Revision    uint64             `json:"revision" doc:"number of the stored version; rises with every change"`
}

// A MemberView is a member as callers see it.
type MemberView struct {
	Skill    protocol.SkillID `json:"skill_id" doc:"id of the skill that takes part"`
	Role     string           `json:"skill_role" doc:"role of the skill in the scene; agent_route is a RouteAgent"`
	Status   string           `json:"status" enum:"online,offline,suspended" doc:"suspended when its certificate ended"`
	Reason   string           `json:"reason,omitempty" doc:"why it is suspended"`
	Serial   protocol.Serial  `json:"cert_sn,omitempty" doc:"certificate it was declared with"`
	JoinedAt int64            `json:"joined_at" doc:"Unix milliseconds"`
}

// Query lists the scenes of the caller's space by type and Cap. None is an
// empty list.
func (s *Service) Query(_ context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	space := call.Principal.Home()
	var found []*Scene
	for _, scene := range s.opts.Scenes.All() {
		if scene.Space == space && (p.Scene == "" || scene.Type == p.Scene) && (p.Cap == "" || scene.Cap == p.Cap) {
			found = append(found, scene)
		}
	}
	slices.SortFunc(found, func(a, b *Scene) int {
		return cmp.Or(strings.Compare(string(a.Type), string(b.Type)), strings.Compare(string(a.Cap), string(b.Cap)))
	})
	result := QueryResult{Scenes: []View{}, Total: len(found)}
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	for i, scene := range found {
		if !p.after(scene) {
			continue
		}
		if len(result.Scenes) == limit {
			result.NextCursor = found[i-1].id().resource()
			break
		}
		result.Scenes = append(result.Scenes, s.view(scene))
	}
	return result, nil
}

// after reports whether a scene comes after the page before.
func (p *QueryParams) after(scene *Scene) bool {
	if p.Cursor == "" {
		return true
	}
	t, c, _ := strings.Cut(p.Cursor, "/")
	return cmp.Or(strings.Compare(string(scene.Type), t), strings.Compare(string(scene.Cap), c)) > 0
}

func (s *Service) view(scene *Scene) View {
	_, revision, _ := s.opts.Scenes.Get(scene.key())
	v := View{
		Type: scene.Type, Cap: scene.Cap, Owner: scene.Owner, DeclaredAt: scene.DeclaredAt,
		Members: make([]MemberView, len(scene.Members)), Status: scene.status(), Acting: scene.Acting,
		Reason: scene.Reason, SuspendedAt: scene.SuspendedAt, UpdatedAt: scene.UpdatedAt, Revision: revision,
	}
	for i := range scene.Members {
		m := &scene.Members[i]
		v.Members[i] = MemberView{m.Skill, m.Role, s.presence(scene, m), m.Barred, m.Serial, m.JoinedAt}
	}
	return v
}

func (s *Service) presence(scene *Scene, m *Member) string {
	switch {
	case m.Barred != "":
		return "suspended"
	case m.routes() && s.present(scene, m), !m.routes() && s.opts.Skills.SkillOnline(scene.Space, m.Skill):
		return "online"
	}
	return "offline"
}
