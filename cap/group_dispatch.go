package cap

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var groupDispatch = commands.Spec{
	Name:    "group.dispatch",
	Summary: "Have the members of a group do something, and gather what they answer as a task.",
	Effect:  commands.Act,
	Traced:  true,
	Action:  "group:dispatch",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.Busy, protocol.PayloadTooLarge,
	},
	Example: `{"group_id":"upstairs","cap_id":"climate","capability_id":"set","params":{"celsius":19},"target":{"role":"actor"},"completion":{"policy":"quorum","n":2},"deadline_ms":60000}`,
}

// DispatchParams are the params of group.dispatch.
type DispatchParams struct {
	Group      protocol.GroupID      `json:"group_id" doc:"the group"`
	Cap        protocol.CapID        `json:"cap_id" doc:"the Cap it belongs to"`
	Capability protocol.CapabilityID `json:"capability_id" doc:"work for every member"`
	Params     json.RawMessage       `json:"params,omitempty" type:"object" default:"{}" doc:"checked against each member's params_schema"`
	To         Selection             `json:"target,omitzero" doc:"which members; all when absent"`
	Completion dispatch.Completion   `json:"completion,omitzero" doc:"condition of completion; all when absent"`
	Deadline   int64                 `json:"deadline_ms,omitempty" range:"1-604800000" default:"60000" doc:"milliseconds from now, up to 7 days; not bound by the request's timeout. In a rollout, from when the member is asked"`
	rollout.Plan
}

// A Selection chooses the members that fit all of its conditions.
type Selection struct {
	Role       string             `json:"role,omitempty" len:"1-32" doc:"only members in this role"`
	Skills     []protocol.SkillID `json:"skill_ids,omitempty" len:"1-1000" doc:"only these members"`
	Attributes Attributes         `json:"attributes,omitempty" len:"0-16" each:"0-128" doc:"only members with all of these attributes"`
	Online     bool               `json:"online_only,omitempty" doc:"only members that are there now; others are not waited for"`
}

// Validate checks the rules that tags of fields cannot express.
func (s *Selection) Validate() error { return s.Attributes.check("attributes") }

// Target implements [commands.Targeter].
func (p DispatchParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// DispatchResult is the result of group.dispatch.
type DispatchResult struct {
	TaskID protocol.TaskID `json:"task_id" doc:"for task.get, task.cancel and the task's topic"`
	Roster []RosterEntry   `json:"roster" doc:"members that are asked; fixed from now on. Empty for a rollout, whose members group.rollout.members lists"`
	// Members is beside the roster because a rollout's is too long.
	Members int `json:"members" doc:"number of members asked; others may join a continuous rollout"`
}

// A RosterEntry is a member on the roster.
type RosterEntry struct {
	Skill protocol.SkillID `json:"skill_id" doc:"id of the member"`
	Role  string           `json:"role" doc:"role of the member in the group"`
	State dispatch.State   `json:"state" enum:"pending,offline,denied,failed" doc:"offline members are asked if they come back before the deadline and the caller still may"`
}

// A Dispatcher carries out dispatches.
type Dispatcher interface {
	Start(ctx context.Context, o dispatch.Order) (dispatch.View, error)
}

// Dispatch fixes and stores the roster and answers; the task reports the progress
// of members. The owner of the Cap and members may dispatch, each only to skills
// that it may invoke: the others are denied.
func (s *Service) Dispatch(ctx context.Context, call *commands.Call, p DispatchParams) (DispatchResult, error) {
	c, err := s.findActive(call, p.Cap)
	if err != nil {
		return DispatchResult{}, err
	}
	g, _, err := s.findGroup(c, p.Group)
	if err != nil {
		return DispatchResult{}, err
	}
	if !s.takesPart(call.Principal, c, g) {
		return DispatchResult{}, notMember(c, p.Group)
	}
	if g.dynamic() || p.Plan.Given() {
		return s.rollOut(ctx, call, c, g, p)
	}
	chosen, err := s.choose(c, g, p.To)
	if err != nil {
		return DispatchResult{}, err
	}
	o := dispatch.Order{
		Command: commandOf(call, c, g, &p), Caller: callerOf(call), Completion: p.Completion, Patience: time.Duration(p.Deadline) * time.Millisecond,
	}
	if o.Completion.Policy == "" {
		o.Completion.Policy = dispatch.All
	}
	if o.Completion.N > len(chosen) {
		return DispatchResult{}, protocol.InvalidParam("completion.n", "is more than the number of members that target chooses")
	}
	for _, m := range chosen {
		o.Members = append(o.Members, dispatch.Candidate{Skill: m.Skill, Role: m.Role, Denied: mayInvoke(ctx, call, c.Space, m.Skill)})
	}
	started, err := s.opts.Dispatcher.Start(ctx, o)
	if err != nil {
		return DispatchResult{}, err
	}
	result := DispatchResult{started.ID, make([]RosterEntry, len(started.Members)), len(started.Members)}
	for i, m := range started.Members {
		result.Roster[i] = RosterEntry{m.Skill, m.Role, m.State}
	}
	return result, nil
}

// commandOf is the command for the members of a group.
func commandOf(call *commands.Call, c *Cap, g *Group, p *DispatchParams) dispatch.Command {
	return dispatch.Command{
		Space: c.Space, Cap: c.ID, Group: g.ID, Capability: p.Capability, Params: p.Params, Extension: call.VendorData(),
		TraceID: call.TraceID, Priority: call.Priority,
	}
}

// callerOf describes the caller of a dispatch and its request.
func callerOf(call *commands.Call) dispatch.Caller {
	c := dispatch.CallerOf(call.Principal)
	c.Sender, c.Door, c.Address = call.SenderID, call.Door, call.Address
	return c
}

// MayStillDispatch fails if the caller of a dispatch, with its present rights, does
// not take part in the group any more.
func (s *Service) MayStillDispatch(who *protocol.Principal, d *dispatch.Dispatch) error {
	c, _, ok := s.opts.Caps.Get(capKey(who.Home(), d.Cap))
	if !ok {
		return noCap(d.Cap)
	}
	if owns(who, c) {
		return nil // also after the end of the group
	}
	g, _, err := s.findGroup(c, d.Group)
	if err != nil {
		return err
	}
	if !s.takesPart(who, c, g) {
		return notMember(c, d.Group)
	}
	return nil
}

// mayInvoke fails if skill.invoke would be refused to the caller.
func mayInvoke(ctx context.Context, call *commands.Call, space protocol.SpaceID, skill protocol.SkillID) error {
	return call.Authorize(ctx, "skill:invoke", commands.Resource{Type: "skill", ID: string(skill), Space: space})
}

// choose lists the members that a selection means.
func (s *Service) choose(c *Cap, g *Group, by Selection) ([]Member, error) {
	for _, skill := range by.Skills {
		if g.member(skill) < 0 {
			return nil, stranger(g, skill)
		}
	}
	var chosen []Member
	for _, m := range g.Members {
		if (by.Role == "" || m.Role == by.Role) && (by.Skills == nil || slices.Contains(by.Skills, m.Skill)) &&
			m.Attributes.has(by.Attributes) && (!by.Online || s.opts.Skills.SkillOnline(c.Space, m.Skill)) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, protocol.Errorf(protocol.NotFound, "target chooses no member of group %q; group.query shows them", g.ID).With("group_id", string(g.ID))
	}
	return chosen, nil
}
