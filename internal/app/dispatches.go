package app

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/dispatch/tasks"
	"github.com/aibridge/aibridge/cap/rollout"
	rollouttasks "github.com/aibridge/aibridge/cap/rollout/tasks"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/parked"
	parkedtasks "github.com/aibridge/aibridge/llm/parked/tasks"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security/audit/events"
)

// newDispatches makes the part that carries commands to groups.
func newDispatches(s *state, agents *registry.Service) *dispatch.Engine {
	judge := authz.Dispatches{
		Grants: s.credentials, Authorizer: s.authorizer, Caps: s.promised.channels.value,
		Denied: func(d *dispatch.Dispatch, skill protocol.SkillID, why error) {
			events.DispatchDenied(s.audit, d, skill, why)
		},
	}
	engine := dispatch.New(dispatch.Options{
		Dispatches: store.NewTable[dispatch.Dispatch](s.Store, "dispatch"),
		Batches:    store.NewTable[dispatch.Batch](s.Store, "batch"),
		Skills:     agents,
		Invoker:    agents.Asking(),
		MayAsk:     judge.MayAsk,
		Grants:     s.credentials,
		Publish:    s.clients.PublishTask,
		BridgeID:   s.config.ID,
		Owner:      s.owner(),
		Orphaned:   s.inherited,
		Clock:      s.clock,
		Log:        s.log,
	})
	s.promised.groups.keep(engine)
	return engine
}

// newTasks makes the part that keeps work which outlives its request.
func newTasks(s *state, groups *dispatch.Engine, rollouts *rollout.Engine, waiting *parked.Service, shared *relaying) *task.Service {
	options := task.Options{
		Tasks:      task.Sealed(store.NewTable[task.Task](s.Store, "task"), s.seals),
		Others:     []task.Source{tasks.Of(groups), rollouttasks.Of(rollouts), parkedtasks.Of(waiting)},
		Publish:    s.clients.PublishTask,
		BridgeID:   s.config.ID,
		Owner:      s.owner(),
		Orphaned:   s.orphaned,
		Log:        s.log,
		Registerer: s.metrics,
	}
	if shared == nil {
		return task.New(options)
	}
	options.Elsewhere = cancelsElsewhere(s, shared.errands)
	service := task.New(options)
	shared.errands.does[cancelTask] = func(ctx context.Context, with json.RawMessage) (any, error) {
		var p task.CancelParams
		if err := json.Unmarshal(with, &p); err != nil {
			return nil, err
		}
		return service.CancelHere(ctx, p.TaskID, p.Reason)
	}
	return service
}

// cancelTask is the errand of cancelling a task.
const cancelTask = "task.cancel"

// cancelsElsewhere has tasks cancelled by the bridges that carry them out.
func cancelsElsewhere(s *state, e *errands) func(*task.Task) (func(context.Context, string) (task.Task, error), bool) {
	return func(t *task.Task) (func(context.Context, string) (task.Task, error), bool) {
		if t.Owner == "" {
			return nil, false
		}
		n, elsewhere := s.carrier(t.Owner)
		return func(ctx context.Context, reason string) (cancelled task.Task, err error) {
			err = e.have(ctx, n, cancelTask, task.CancelParams{TaskID: t.ID, Reason: reason}, &cancelled)
			return cancelled, err
		}, elsewhere
	}
}
