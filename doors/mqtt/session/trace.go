package session

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var (
	traceStart = commands.Spec{
		Name:    "session.trace.start",
		Summary: "Take note of the packets of one MQTT client for up to five minutes: their headlines, not what they carry.",
		Effect:  commands.Write,
		Action:  "session:trace",
		Errors:  []protocol.Code{protocol.NotFound, protocol.Busy},
		Example: `{"client_id":"lamp-1","seconds":60}`,
	}
	traceGet = commands.Spec{
		Name:    "session.trace.get",
		Summary: "Show the headlines of a trace that was started, the newest 1000 at most.",
		Effect:  commands.Read,
		Action:  "session:trace",
		Errors:  []protocol.Code{protocol.NotFound},
		Example: `{"client_id":"lamp-1","after":17}`,
	}
	traceStop = commands.Spec{
		Name:    "session.trace.stop",
		Summary: "End a trace, and forget its headlines.",
		Effect:  commands.Write,
		Action:  "session:trace",
		Errors:  []protocol.Code{protocol.NotFound},
		Example: `{"client_id":"lamp-1"}`,
	}
)

// A Trace is what is known of the packets of a client.
type Trace struct {
	Ends   time.Time
	Missed uint64
	Lines  []Headline
}

// A Headline tells of one packet what it is and what it is about. It has no
// payload, no property and no credential.
type Headline struct {
	N        uint64   `json:"n" doc:"number of the packet in the trace, from 1"`
	At       int64    `json:"at" doc:"when, Unix milliseconds"`
	From     Side     `json:"from" enum:"client,bridge" doc:"who sent it"`
	Type     string   `json:"type" doc:"type of the packet as MQTT names it, such as PUBLISH"`
	Size     int      `json:"size" doc:"bytes of the whole packet; 0 for CONNECT, which is noted when it has been accepted"`
	PacketID uint16   `json:"packet_id,omitempty" doc:"its identifier; absent where it has none"`
	Topic    string   `json:"topic,omitempty" doc:"topic of a PUBLISH, the first 256 bytes, also where the packet has an alias in its place"`
	QoS      byte     `json:"qos,omitempty" doc:"QoS of a PUBLISH; absent for 0"`
	Retain   bool     `json:"retain,omitempty" doc:"a PUBLISH that is retained, or was"`
	Dup      bool     `json:"dup,omitempty" doc:"a PUBLISH that may have been sent before"`
	Filters  []string `json:"filters,omitempty" doc:"filters of SUBSCRIBE and UNSUBSCRIBE, the first eight"`
	Reasons  []string `json:"reasons,omitempty" doc:"what an answer or a DISCONNECT says, for the first eight filters where it is about several"`
}

// A Side is one of the two who send packets.
type Side string

// The two sides of a connection.
const (
	FromClient Side = "client"
	FromBridge Side = "bridge"
)

// TraceStartParams say whom to trace, and for how long.
type TraceStartParams struct {
	Params
	Seconds int `json:"seconds,omitempty" range:"1-300" default:"300" doc:"how long"`
}

// TraceStartResult is the result of session.trace.start.
type TraceStartResult struct {
	ClientID string `json:"client_id" doc:"client id of the session"`
	EndsAt   int64  `json:"ends_at" doc:"when the trace ends by itself, Unix milliseconds"`
}

// TraceStart begins a trace, anew if there was one. It goes on when the client
// leaves and comes back.
func (s *Service) TraceStart(_ context.Context, call *commands.Call, p TraceStartParams) (TraceStartResult, error) {
	i, err := s.find(call, p.Space, p.ClientID)
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

// TraceGetParams name a trace and say where to read on.
type TraceGetParams struct {
	Params
	After uint64 `json:"after,omitempty" doc:"number of the last headline that is known already"`
	Limit int    `json:"limit,omitempty" range:"1-1000" default:"200" doc:"how many to return at most"`
}

// TraceGetResult is the result of session.trace.get.
type TraceGetResult struct {
	ClientID  string     `json:"client_id" doc:"client id of the session"`
	EndsAt    int64      `json:"ends_at" doc:"when the trace ends, or ended, Unix milliseconds"`
	Missed    uint64     `json:"missed,omitempty" doc:"headlines after the one that is known which made room for newer ones"`
	Headlines []Headline `json:"headlines" doc:"the next headlines, the oldest first; empty if there is no newer one"`
}

// TraceGet shows headlines of a trace. They are kept until it is stopped, started
// anew, or makes room for the trace of another client.
func (s *Service) TraceGet(_ context.Context, call *commands.Call, p TraceGetParams) (TraceGetResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return TraceGetResult{}, err
	}
	tr, ok := s.broker.Trace(space, p.ClientID, p.After, p.Limit)
	if !ok {
		return TraceGetResult{}, notTraced(p.ClientID)
	}
	return TraceGetResult{ClientID: p.ClientID, EndsAt: tr.Ends.UnixMilli(), Missed: tr.Missed, Headlines: append([]Headline{}, tr.Lines...)}, nil
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

func notTraced(clientID string) error {
	return protocol.Errorf(protocol.NotFound, "client %q is not traced", clientID).With("client_id", clientID)
}
