package app

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/cluster"
	mqttsession "github.com/aibridge/aibridge/doors/mqtt/session"
)

// sessionsPatience is the time that a bridge has to answer about its sessions:
// longer than until it is declared dead.
const sessionsPatience = 5 * time.Second

// newSessions makes the commands about the sessions of all bridges.
func newSessions(s *state, shared *relaying) *mqttsession.Service {
	if shared == nil {
		return mqttsession.New(s.clients, s.config.ID, nil)
	}
	service := mqttsession.New(s.clients, s.config.ID, otherSessions{s.Members, shared.errands})
	for name, do := range service.Does() {
		shared.errands.does[name] = do
	}
	return service
}

// otherSessions are those of the other bridges.
type otherSessions struct {
	members *cluster.Membership
	errands *errands
}

// Ask implements [mqttsession.Others].
func (o otherSessions) Ask(ctx context.Context, do string, with any, take func(string, json.RawMessage, error)) {
	ctx, cancel := context.WithTimeout(ctx, sessionsPatience)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, m := range membersBeside(o.members, func(m *cluster.Member) bool { return m.State != cluster.Standby }) {
		asking.Go(func() {
			var result json.RawMessage
			err := o.errands.have(ctx, m.Node, do, with, &result)
			mu.Lock()
			defer mu.Unlock()
			take(m.ID, result, err)
		})
	}
	asking.Wait()
}
