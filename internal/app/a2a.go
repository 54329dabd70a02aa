package app

import (
	"net/http"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	runtasks "github.com/aibridge/aibridge/llm/run/tasks"
	"github.com/aibridge/aibridge/protocol"
)

// mountA2A serves A2A, if it is on. Each request counts as a command.
func mountA2A(s *state, d *domains, router *commands.Router, authenticate authentication, mounts map[string]http.Handler) {
	settings := &s.config.A2A
	if !settings.On {
		return
	}
	door := a2adoor.New(a2adoor.Options{
		Catalogue: d.tools.offered,
		Executor:  d.tools.executor,
		Keeper:    d.calls,
		Skills:    d.tools.skills,
		Tasks:     d.tasks,
		Router:    router,
		Authorize: s.authorizer.Authorize,
		Authenticate: func(r *http.Request) (*protocol.Principal, error) {
			who, err := authenticate(r)
			if err != nil || who == nil {
				return nil, err
			}
			if limited := s.quotas.Admit(who, 0); limited != nil {
				return nil, limited
			}
			return who, nil
		},
		MayDecideOwn: s.judge.MayDecideOwn,
		HasModel:     func(space protocol.SpaceID) bool { return len(d.models.service.List(space)) > 0 },
		Grants:       s.credentials,
		Transport:    settings.Transport(),
		Refuses:      settings.Refuses,
		URL:          settings.URL,
		BridgeID:     s.config.ID,
		Version:      s.version,
		MaxBytes:     s.config.Limits.Payload,
		Leaving:      s.leaving,
		Log:          s.log,
	})
	s.life.Run("push notifications of A2A", door.Run)
	mounts[a2adoor.Path], mounts[a2adoor.Path+"/"] = door, door
	mounts[a2adoor.CardPath] = door.Card()
}

// runsAsTasks shows runs of workflows as what tasks go on as.
func runsAsTasks(d *domains) func(protocol.TaskID) (*task.Task, bool) {
	return func(id protocol.TaskID) (*task.Task, bool) { return runtasks.Of(d.runs, id) }
}
