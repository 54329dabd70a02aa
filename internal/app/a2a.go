package app

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	remote "github.com/aibridge/aibridge/connect/a2a"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	a2atopic "github.com/aibridge/aibridge/doors/a2a/topic"
	"github.com/aibridge/aibridge/internal/store"
	runtasks "github.com/aibridge/aibridge/llm/run/tasks"
	"github.com/aibridge/aibridge/protocol"
)

// openA2A serves A2A, over HTTP and MQTT, as far as it is on. Each request counts as a
// command.
func openA2A(s *state, d *domains, server *broker.Broker, router *commands.Router, authenticate authentication, mounts map[string]http.Handler) {
	settings := &s.config.A2A
	if !settings.On && settings.MQTT == "" {
		return
	}
	o := conversations(s, d, router, a2adoor.Name)
	o.Authenticate = func(r *http.Request) (*protocol.Principal, error) {
		who, err := authenticate(r)
		if err != nil || who == nil {
			return nil, err
		}
		if limited := s.quotas.Admit(who, 0); limited != nil {
			return nil, limited
		}
		return who, nil
	}
	o.Transport, o.Refuses, o.URL = settings.Transport(), settings.Refuses, settings.URL
	door := a2adoor.New(o)
	openA2ATopics(s, d, server, door)
	if !settings.On {
		return
	}
	s.life.Run("push notifications of A2A", door.Run)
	s.life.Run("push notifications of bridges that ended", func(ctx context.Context) error { return retellPushes(ctx, s, door) })
	mounts[a2adoor.Path], mounts[a2adoor.Path+"/"] = door, door
	mounts[a2adoor.CardPath] = door.Card()
}

// conversations are the options of the agents that answer by a door of a name.
func conversations(s *state, d *domains, router *commands.Router, name string) a2adoor.Options {
	return a2adoor.Options{
		Name:         name,
		Catalogue:    d.tools.offered,
		Executor:     d.tools.executor,
		Keeper:       d.calls,
		Skills:       d.tools.skills,
		Tasks:        d.tasks,
		Router:       router,
		Authorize:    s.authorizer.Authorize,
		Elsewhere:    d.remote.Knows,
		MayDecideOwn: s.judge.MayDecideOwn,
		HasModel:     func(space protocol.SpaceID) bool { return len(d.models.service.List(space)) > 0 },
		Grants:       s.credentials,
		BridgeID:     s.config.ID,
		Version:      s.version,
		MaxBytes:     s.config.Limits.Payload,
		Leaving:      s.leaving,
		Log:          s.log,
		Node:         s.owner(),
		Heir:         s.heir,
	}
}

// openA2ATopics serves A2A over MQTT, if it is on.
func openA2ATopics(s *state, d *domains, server *broker.Broker, door *a2adoor.Door) {
	if s.config.A2A.MQTT == "" {
		return
	}
	topics := a2atopic.Open(a2atopic.Options{
		Door: door, Cards: d.a2aCards, Publish: server.Publish, Client: s.clients.Owner, MayRespond: d.rights.MayRespond, Gone: s.clients.Gone,
		Admit: func(who *protocol.Principal) error {
			if limited := s.quotas.Admit(who, 0); limited != nil {
				return limited
			}
			return nil
		},
		Unit: s.config.A2A.MQTT, BridgeID: s.config.ID, TrustedJWKS: s.config.A2A.TrustedJWKS, Log: s.log,
	}, server.Handle)
	s.promised.a2a.keep(topics)
	d.a2aCards.OnChange(func(string, *a2atopic.Card, *a2atopic.Card) { d.remote.Look() })
	s.life.Run("A2A over MQTT", topics.Run)
}

// agentsOnMQTT are the agents that are clients of the bridge, as it asks them.
type agentsOnMQTT struct{ *a2atopic.Topic }

// Card implements [remote.Bus].
func (a agentsOnMQTT) Card(space protocol.SpaceID, id string) (remote.BusCard, bool) {
	c, ok := a.Topic.Card(space, id)
	if !ok {
		return remote.BusCard{}, false
	}
	return remote.BusCard{Text: json.RawMessage(c.Card), Publisher: c.Owner, Online: c.Online}, true
}

// Ask implements [remote.Bus].
func (a agentsOnMQTT) Ask(space protocol.SpaceID, id string, publisher protocol.Party, body []byte, expiry time.Duration) (<-chan []byte, func(), error) {
	r, err := a.Topic.Ask(space, id, publisher, body, expiry)
	if err != nil {
		return nil, nil, err
	}
	return r.Items, r.Close, nil
}

// runsAsTasks shows runs of workflows as the successors of tasks.
func runsAsTasks(d *domains) func(protocol.TaskID) (*task.Task, bool) {
	return func(id protocol.TaskID) (*task.Task, bool) { return runtasks.Of(d.runs, id) }
}

// newRemoteAgents makes agents elsewhere known, that speak A2A.
func newRemoteAgents(s *state) *remote.Service {
	return remote.New(remote.Options{
		On: s.config.A2A.Remote, Guard: s.config.A2A.RemoteGuard(), Table: store.NewTable[remote.Agent](s.Store, "a2aagent"), Sealer: s.seals,
		Router: func() remote.Router { return s.promised.router.value() },
		Owned: func(space protocol.SpaceID, id protocol.AgentID) (protocol.Party, bool) {
			facts, ok := s.promised.agents.value().AgentFacts(space, id)
			return facts.Owner, ok
		},
		Bus: func() remote.Bus {
			if topics := s.promised.a2a.value(); topics != nil {
				return agentsOnMQTT{topics}
			}
			return nil
		},
		Log: s.log,
	})
}

// keepRemoteAgents has the agents elsewhere at work.
func keepRemoteAgents(s *state, d *domains) {
	s.life.Run("agents elsewhere", s.once(func(ctx context.Context) error { return d.remote.Keep(ctx, d.agents) }))
}
