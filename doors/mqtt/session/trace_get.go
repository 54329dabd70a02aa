package session

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var traceGet = commands.Spec{
	Name:    "session.trace.get",
	Summary: "Show the headlines of a trace that was started, the newest 1000 at most.",
	Effect:  commands.Read,
	Action:  "session:trace",
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable},
	Example: `{"client_id":"lamp-1","after":17}`,
}

// TraceGetParams name a trace and say where to read on.
type TraceGetParams struct {
	Params
	After uint64 `json:"after,omitempty" doc:"number of the last headline that is known already"`
	Limit int    `json:"limit,omitempty" range:"1-1000" default:"200" doc:"number to return at most"`
}

// TraceGetResult is the result of session.trace.get.
type TraceGetResult struct {
	ClientID  string     `json:"client_id" doc:"client id of the session"`
	EndsAt    int64      `json:"ends_at" doc:"time at which the trace ends, or ended, Unix milliseconds"`
	Missed    uint64     `json:"missed,omitempty" doc:"headlines after the one that is known which made room for newer ones"`
	Headlines []Headline `json:"headlines" doc:"the next headlines, the oldest first; empty if there is no newer one"`
}

// TraceGet shows headlines of a trace. They are kept until it is stopped, started
// anew, or makes room for the trace of another client.
func (s *Service) TraceGet(ctx context.Context, call *commands.Call, p TraceGetParams) (_ TraceGetResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return TraceGetResult{}, err
	}
	return anywhere(ctx, s, traceGet.Name, p, s.traceGet)
}

func (s *Service) traceGet(p TraceGetParams) (TraceGetResult, error) {
	tr, ok := s.broker.Trace(p.Space, p.ClientID, p.After, p.Limit)
	if !ok {
		return TraceGetResult{}, notTraced(p.ClientID)
	}
	return TraceGetResult{ClientID: p.ClientID, EndsAt: tr.Ends.UnixMilli(), Missed: tr.Missed, Headlines: append([]Headline{}, tr.Lines...)}, nil
}
