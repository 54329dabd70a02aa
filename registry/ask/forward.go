package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/aibridge/aibridge/commands"
)

// Forward sends a command to one agent unchanged, and waits for the answer.
func (s *Service) Forward(ctx context.Context, call *commands.Call, agent Agent, command string, params json.RawMessage) (result json.RawMessage, err error) {
	answered := make(chan struct{})
	closed := sync.OnceFunc(func() { close(answered) })
	s.Ask(ctx, &Request{Command: command, Params: params, Call: call, Listener: ListenerFunc(func(n Notice) {
		if n.Err != nil {
			err = n.Err
		} else {
			result = bytes.Clone(n.Data)
		}
		closed()
	})}, []Peer{{Agent: agent}})
	_ = call.Park(ctx, func(context.Context) error {
		<-answered
		return nil
	})
	return result, err
}
