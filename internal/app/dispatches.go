package app

import (
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/dispatch/tasks"
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
	return dispatch.New(dispatch.Options{
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
		Log:        s.log,
	})
}

// newTasks makes the part that keeps work which outlives its request.
func newTasks(s *state, groups *dispatch.Engine, waiting *parked.Service) *task.Service {
	return task.New(task.Options{
		Tasks:      task.Sealed(store.NewTable[task.Task](s.Store, "task"), s.seals),
		Others:     []task.Source{tasks.Of(groups), parkedtasks.Of(waiting)},
		Publish:    s.clients.PublishTask,
		BridgeID:   s.config.ID,
		Owner:      s.owner(),
		Orphaned:   s.orphaned,
		Log:        s.log,
		Registerer: s.metrics,
	})
}
