package session

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var traceStart = commands.Spec{
	Name:    "session.trace.start",
	Summary: "Take note of the packets of one MQTT client for up to five minutes: their headlines, not what they carry.",
	Effect:  commands.Write,
	Action:  "session:trace",
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable, protocol.OutcomeUnknown, protocol.Busy},
	Example: `{"client_id":"lamp-1","seconds":60}`,
}

// TraceStartParams say whom to trace, and for how long.
type TraceStartParams struct {
	Params
	Seconds int `json:"seconds,omitempty" range:"1-300" default:"300" doc:"duration"`
}

// TraceStartResult is the result of session.trace.start.
type TraceStartResult struct {
	ClientID string `json:"client_id" doc:"client id of the session"`
	EndsAt   int64  `json:"ends_at" doc:"time at which the trace ends by itself, Unix milliseconds"`
}

// TraceStart begins a trace, anew if there was one. It goes on when the client
// leaves and comes back.
func (s *Service) TraceStart(ctx context.Context, call *commands.Call, p TraceStartParams) (_ TraceStartResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return TraceStartResult{}, err
	}
	return anywhere(ctx, s, traceStart.Name, p, s.traceStart)
}

func (s *Service) traceStart(p TraceStartParams) (TraceStartResult, error) {
	i, err := s.find(p.Space, p.ClientID)
	if err != nil {
		return TraceStartResult{}, err
	}
	ends := time.Now().Add(time.Duration(p.Seconds) * time.Second)
	switch found, room := s.broker.StartTrace(i.space(), p.ClientID, ends); {
	case !found: // has ended in the meantime
		return TraceStartResult{}, notFound(p.ClientID)
	case !room:
		return TraceStartResult{}, protocol.Errorf(protocol.Busy, "too many clients are traced already; end the trace of another")
	}
	return TraceStartResult{ClientID: p.ClientID, EndsAt: ends.UnixMilli()}, nil
}
