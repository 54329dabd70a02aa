package session

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var traceStop = commands.Spec{
	Name:    "session.trace.stop",
	Summary: "End a trace, and forget its headlines.",
	Effect:  commands.Write,
	Action:  "session:trace",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"client_id":"lamp-1"}`,
}

// TraceStopResult is the result of session.trace.stop.
type TraceStopResult struct {
	ClientID string `json:"client_id" doc:"client id of the session"`
}

// TraceStop ends a trace.
func (s *Service) TraceStop(_ context.Context, call *commands.Call, p Params) (TraceStopResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return TraceStopResult{}, err
	}
	if !s.broker.StopTrace(space, p.ClientID) {
		return TraceStopResult{}, notTraced(p.ClientID)
	}
	return TraceStopResult{ClientID: p.ClientID}, nil
}
