package app

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// newRollouts makes the part that carries commands to fleets.
func newRollouts(s *state, agents *registry.Service, groups *dispatch.Engine, approvals *approval.Service) *rollout.Engine {
	engine := rollout.New(rollout.Options{
		Rollouts:   store.NewTable[rollout.Rollout](s.Store, "rollout"),
		Parts:      store.NewTable[rollout.Part](s.Store, "rollout-part"),
		Skills:     agents,
		Waves:      groups,
		Approver:   canaries{approvals},
		Grants:     s.credentials,
		Publish:    s.clients.PublishTask,
		BridgeID:   s.config.ID,
		Owner:      s.owner(),
		Orphaned:   s.inherited,
		Clock:      s.clock,
		Log:        s.log,
		Registerer: s.metrics,
	})
	approvals.OnSettled(func(task string) { engine.Wake(protocol.TaskID(task)) })
	return engine
}

// keepApproval reports whether a rollout or the run of a workflow waits for an
// approval.
func (d *domains) keepApproval(task, approval string) bool {
	if d.runs.Keeps(task, approval) {
		return true
	}
	r, ok := d.rollouts.Find(protocol.TaskID(task))
	return ok && r.EndedAt == 0 && r.Approval == approval
}

// canaries asks for approvals of rollouts as for those of calls.
type canaries struct{ approvals *approval.Service }

// Ask implements [rollout.Approver].
func (c canaries) Ask(ctx context.Context, q rollout.Question) error {
	r := q.Rollout
	args, err := json.Marshal(map[string]any{
		"cap_id": r.Cap, "group_id": r.Group, "capability_id": r.Capability, "params": r.Params, "selector": r.Selector, "counts": q.Counts.Map(),
	})
	if err != nil {
		return err
	}
	return c.approvals.Raise(ctx, approval.Matter{
		ID: q.ID, Task: string(r.ID), Tool: "group.rollout", Title: "Ask all others after the canary", Source: "group", Args: args,
		Why: "the rollout waits for it", Space: r.Space, Asker: r.KeptFor(), TraceID: r.TraceID, Life: time.Until(r.Plan.ValidUntil),
	})
}

// Answer implements [rollout.Approver].
func (c canaries) Answer(id string) rollout.Answer {
	decided, approved, why := c.approvals.Verdict(id)
	return rollout.Answer{Decided: decided, Approved: approved, Reason: strings.TrimSpace(why)}
}

// Passed implements [rollout.Approver].
func (c canaries) Passed(ctx context.Context, id string) error { return c.approvals.Settle(ctx, id) }

// Withdraw implements [rollout.Approver].
func (c canaries) Withdraw(ctx context.Context, id, why string) error {
	return c.approvals.Withdraw(ctx, id, why)
}
