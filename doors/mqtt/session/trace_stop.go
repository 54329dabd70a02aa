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
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"client_id":"lamp-1"}`,
}

// TraceStopResult is the result of session.trace.stop.
type TraceStopResult struct {
	ClientID string `json:"client_id" doc:"client id of the session"`
}

// TraceStop ends a trace.
func (s *Service) TraceStop(ctx context.Context, call *commands.Call, p Params) (_ TraceStopResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return TraceStopResult{}, err
	}
	return anywhere(ctx, s, traceStop.Name, p, s.traceStop)
}

func (s *Service) traceStop(p Params) (TraceStopResult, error) {
	if !s.broker.StopTrace(p.Space, p.ClientID) {
		return TraceStopResult{}, notTraced(p.ClientID)
	}
	return TraceStopResult{ClientID: p.ClientID}, nil
}
