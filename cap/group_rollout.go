package cap

import (
	"context"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Rollouts carries out dispatches that have a plan, or a group with a selector:
// a [rollout.Engine].
type Rollouts interface {
	Start(ctx context.Context, o rollout.Order) (*rollout.Rollout, error)
	Find(id protocol.TaskID) (*rollout.Rollout, bool)
	Members(r *rollout.Rollout, behind int) iter.Seq2[int, *rollout.Member]
	Pause(ctx context.Context, id protocol.TaskID, reason string) (*rollout.Rollout, error)
	Resume(ctx context.Context, id protocol.TaskID) (*rollout.Rollout, error)
	Retry(ctx context.Context, id protocol.TaskID, states []rollout.State, until time.Time) (*rollout.Rollout, error)
}

// rollOut starts a dispatch with a plan, or to the members that a selector chooses.
func (s *Service) rollOut(ctx context.Context, call *commands.Call, c *Cap, g *Group, p DispatchParams) (DispatchResult, error) {
	if err := p.checkRollout(g); err != nil {
		return DispatchResult{}, err
	}
	if err := p.Plan.Complete(s.opts.Now()); err != nil {
		return DispatchResult{}, err
	}
	members, err := s.rolledOutTo(ctx, call, c, g, p)
	if err != nil {
		return DispatchResult{}, err
	}
	if n := len(members); p.Plan.Rollout.Canary != nil && p.Plan.Rollout.Canary.Count > n && !p.Continuous {
		return DispatchResult{}, protocol.InvalidParam("rollout.canary.count", "is more than the number of members")
	}
	r, err := s.opts.Rollouts.Start(ctx, rollout.Order{
		Command: commandOf(call, c, g, &p), Caller: callerOf(call), Patience: time.Duration(p.Deadline) * time.Millisecond,
		Plan: p.Plan, Selector: g.Selector, Members: members,
	})
	if err != nil {
		return DispatchResult{}, err
	}
	return DispatchResult{TaskID: r.ID, Roster: []RosterEntry{}, Members: len(members)}, nil
}

// checkRollout refuses params that do not go together.
func (p *DispatchParams) checkRollout(g *Group) error {
	switch {
	case p.Completion.Policy != "" && p.Completion.Policy != "all":
		return protocol.InvalidParam("completion", "must be all, or absent, in a rollout")
	case p.Continuous && !g.dynamic():
		return protocol.InvalidParam("continuous", "needs a group with a selector")
	case p.Continuous && p.To.Online:
		return protocol.InvalidParam("target.online_only", "does not go with continuous; the group's selector can have agent.status=online")
	case g.dynamic() && (p.To.Role != "" || p.To.Skills != nil || p.To.Attributes != nil):
		return protocol.InvalidParam("target", "chooses members by role, attributes or id, which those of a selector do not have")
	}
	return nil
}

// rolledOutTo lists the members of a rollout. Of those that a selector chooses
// these are the ones whose skills the caller may invoke.
func (s *Service) rolledOutTo(ctx context.Context, call *commands.Call, c *Cap, g *Group, p DispatchParams) (members []rollout.Member, err error) {
	if !g.dynamic() {
		chosen, err := s.choose(c, g, p.To)
		for _, m := range chosen {
			members = append(members, rollout.Member{Skill: m.Skill, State: rollout.Queued})
		}
		return members, err
	}
	chosen, err := g.selector()
	if err != nil {
		return nil, err
	}
	for agent, skill := range s.opts.Skills.Select(c.Space, chosen, p.Capability) {
		if p.To.Online && !s.opts.Skills.SkillOnline(c.Space, skill) || mayInvoke(ctx, call, c.Space, skill) != nil {
			continue
		}
		members = append(members, rollout.Member{Skill: skill, Agent: agent, State: rollout.Queued})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if len(members) == 0 && !p.Continuous {
		return nil, protocol.Errorf(protocol.NotFound, "the selector of group %q chooses no agent with capability %q; agent.list shows whom it chooses", g.ID, p.Capability).
			With("group_id", string(g.ID)).With("selector", g.Selector)
	}
	return members, nil
}

// RolloutParams name a rollout.
type RolloutParams struct {
	TaskID protocol.TaskID `json:"task_id" doc:"the rollout: the task_id that group.dispatch answered with"`
}

// Target implements [commands.Targeter].
func (p RolloutParams) Target() commands.Resource {
	return commands.Resource{Type: "task", ID: string(p.TaskID)}
}

// RolloutResult is the result of the commands that steer a rollout.
type RolloutResult struct {
	TaskID protocol.TaskID `json:"task_id" doc:"id of the rollout"`
	State  rollout.Status  `json:"state" enum:"pending,running,waiting,paused,aborted,complete,partial,failed,cancelled" doc:"state of the rollout"`
}

// rolloutOf finds a rollout that the caller started, or whose space it manages.
// For others it does not exist.
func (s *Service) rolloutOf(call *commands.Call, id protocol.TaskID) (*rollout.Rollout, error) {
	r, ok := s.opts.Rollouts.Find(id)
	if !ok || !r.KeptFor().Is(call.Principal) && !call.Principal.Manages(r.Caller.Space) {
		return nil, protocol.Errorf(protocol.NotFound, "no rollout %q", id).With("task_id", string(id))
	}
	return r, nil
}

// steered is the answer to a command that steers a rollout.
func steered(r *rollout.Rollout, err error) (RolloutResult, error) {
	if err != nil {
		return RolloutResult{}, err
	}
	return RolloutResult{r.ID, r.Status}, nil
}
