package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var declare = commands.Spec{
	Name:    "cap.declare",
	Summary: "Declare a Cap, or declare one's own anew.",
	Effect:  commands.Write,
	Action:  "cap:declare",
	Errors:  []protocol.Code{protocol.AlreadyExists, protocol.PermissionDenied, protocol.LimitReached, protocol.RevisionConflict},
	Example: `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","supported_scenes":["SMART_HOME"],"max_members":50}`,
}

// DeclareParams are the params of cap.declare.
type DeclareParams struct {
	ID    protocol.CapID   `json:"cap_id" doc:"unique in its space"`
	Skill protocol.SkillID `json:"skill_id" doc:"the skill it belongs to"`
	Info
}

// Target implements [commands.Targeter].
func (p DeclareParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.ID)}
}

// DeclareResult is the result of cap.declare.
type DeclareResult struct {
	ID       protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Revision uint64         `json:"revision" doc:"number of the stored version; the one before if the declaration changed nothing"`
}

// Declare declares a Cap. A second declaration for the same skill, by a
// principal that may change the Cap, replaces the first; groups and status
// stay.
func (s *Service) Declare(ctx context.Context, call *commands.Call, p DeclareParams) (DeclareResult, error) {
	space := call.Principal.Home()
	if err := s.opts.MayName(space, string(p.ID), call.Principal); err != nil {
		return DeclareResult{}, err
	}
	if err := s.opts.MayBind(space, p.Skill, call.Principal); err != nil {
		return DeclareResult{}, err
	}
	if _, known := s.opts.Skills.SpeaksFor(call.Principal, space, p.Skill); known && !s.speaksFor(call.Principal, space, p.Skill) {
		return DeclareResult{}, protocol.Errorf(protocol.PermissionDenied, "skill %q belongs to another party; declare the Cap as its owner or as the skill", p.Skill).With("skill_id", string(p.Skill))
	}
	if err := p.complete(p.ID); err != nil {
		return DeclareResult{}, err
	}
	now := s.opts.Now().UnixMilli()
	c := &Cap{ID: p.ID, Space: space, Skill: p.Skill, Owner: call.Principal.Party(), Info: p.Info,
		Status: Active, DeclaredAt: now, UpdatedAt: now}
	_, revision, err := records.Change(ctx, s.opts.Caps, c.key(), func(old *Cap, _ uint64) (*Cap, error) {
		switch {
		case old == nil:
			return c, nil
		case old.Skill != p.Skill || !owns(call.Principal, old):
			return nil, protocol.Errorf(protocol.AlreadyExists, "Cap %q belongs to skill %q", p.ID, old.Skill).With("cap_id", string(p.ID))
		}
		again := *old
		again.Info = p.Info
		if records.Same(&again, old) {
			return old, nil
		}
		again.UpdatedAt = now
		return &again, s.roomFor(&again)
	})
	if err != nil {
		return DeclareResult{}, err
	}
	return DeclareResult{p.ID, revision}, nil
}

// roomFor checks that no group has more members than its Cap would allow.
func (s *Service) roomFor(c *Cap) error {
	for _, id := range s.index.groupsOf(c.Space, c.ID) {
		g, _, ok := s.opts.Groups.Get(groupKey(c.Space, c.ID, id))
		if ok && len(g.Members) > c.MaxMembers {
			return protocol.Errorf(protocol.LimitReached, "group %q has %d members already", id, len(g.Members)).
				With("group_id", string(id)).With("limit", c.MaxMembers)
		}
	}
	return nil
}
