package scene

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
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
	Find   string             `json:"find,omitempty" len:"1-128" doc:"only scenes with this text in their type, Cap, owner or a member, whatever its case"`
	Status Status             `json:"status,omitempty" enum:"active,suspended" doc:"only scenes in this state"`
	Sort   string             `json:"sort,omitempty" enum:"id,-id,status,-status,members,-members,updated_at,-updated_at" doc:"field to sort by, the highest first behind a minus; by type and Cap if absent"`
	listing.Page
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
	Scenes     []View `json:"scenes" doc:"the scenes of this page; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
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
	Reason      string             `json:"reason,omitempty" doc:"reason why it is suspended"`
	SuspendedAt int64              `json:"suspended_at,omitempty" doc:"Unix milliseconds"`
	UpdatedAt   int64              `json:"updated_at" doc:"Unix milliseconds"`
	Revision    uint64             `json:"revision" doc:"number of the stored version; rises with every change"`
}

// A MemberView is a member as callers see it.
type MemberView struct {
	Skill    protocol.SkillID `json:"skill_id" doc:"id of the skill that takes part"`
	Role     string           `json:"skill_role" doc:"role of the skill in the scene; agent_route is a RouteAgent"`
	Status   string           `json:"status" enum:"online,offline,suspended" doc:"suspended when its certificate ended"`
	Reason   string           `json:"reason,omitempty" doc:"reason why it is suspended"`
	Serial   protocol.Serial  `json:"cert_sn,omitempty" doc:"certificate it was declared with"`
	JoinedAt int64            `json:"joined_at" doc:"Unix milliseconds"`
}

// sceneOrder holds the columns that lists of scenes can be sorted by.
var sceneOrder = listing.Order[*Scene]{
	ID: func(s *Scene) string { return s.id().resource() },
	Keys: map[string]func(*Scene) listing.Key{
		"status":     func(s *Scene) listing.Key { return listing.Text(string(s.status())) },
		"members":    func(s *Scene) listing.Key { return listing.Number(int64(len(s.Members))) },
		"updated_at": func(s *Scene) listing.Key { return listing.Number(s.UpdatedAt) },
	},
}

// Query lists the scenes of the caller's space. None is an empty list.
func (s *Service) Query(_ context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	space := call.Principal.Home()
	fitting := func(yield func(*Scene) bool) {
		for _, scene := range s.opts.Scenes.All() {
			if scene.Space == space && p.fits(scene) && !yield(scene) {
				return
			}
		}
	}
	found, err := sceneOrder.Select(fitting, p.Sort, p.Page)
	if err != nil {
		return QueryResult{}, err
	}
	result := QueryResult{Scenes: make([]View, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, scene := range found.Items {
		result.Scenes[i] = s.view(scene)
	}
	return result, nil
}

func (p *QueryParams) fits(scene *Scene) bool {
	return (p.Scene == "" || scene.Type == p.Scene) && (p.Cap == "" || scene.Cap == p.Cap) &&
		(p.Status == "" || scene.status() == p.Status) && scene.named(listing.Find(p.Find))
}

// named reports whether the scene or a member has the text in its name.
func (s *Scene) named(text listing.Finder) bool {
	return text.In(string(s.Type), string(s.Cap), string(s.Owner)) ||
		slices.ContainsFunc(s.Members, func(m Member) bool { return text.In(string(m.Skill)) })
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
