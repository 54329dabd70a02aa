package session

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var get = commands.Spec{
	Name:    "session.get",
	Summary: "Show an MQTT session: its client, what it subscribed to, what waits for it.",
	Effect:  commands.Read,
	Action:  "session:get",
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable},
	Example: `{"client_id":"lamp-1"}`,
}

// mostFilters bounds the subscriptions that are shown of a session.
const mostFilters = 100

// forever is the form of an expiry that never comes: as MQTT writes it.
const forever = 1<<32 - 1

// GetResult is a session in full.
type GetResult struct {
	View
	Expiry      int64    `json:"expiry" doc:"seconds the session is kept without a connection; 4294967295 is forever"`
	QueuedBytes int      `json:"queued_bytes" doc:"bytes of the messages that wait"`
	Outbox      int      `json:"outbox_bytes" doc:"bytes written and not yet taken by the client's socket"`
	Will        string   `json:"will_topic,omitempty" doc:"topic of the will; absent without one"`
	Filters     []Filter `json:"filters" doc:"the first 100 subscriptions"`
}

// Get shows one session.
func (s *Service) Get(ctx context.Context, call *commands.Call, p Params) (_ GetResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return GetResult{}, err
	}
	return anywhere(ctx, s, get.Name, p, s.get)
}

func (s *Service) get(p Params) (GetResult, error) {
	i, err := s.find(p.Space, p.ClientID)
	if err != nil {
		return GetResult{}, err
	}
	shown := i.Filters[:min(len(i.Filters), mostFilters)]
	return GetResult{
		View:        s.view(&i),
		Expiry:      min(int64(i.Expiry/time.Second), forever),
		QueuedBytes: i.QueuedBytes,
		Outbox:      i.Outbox,
		Will:        i.Will,
		Filters:     append([]Filter{}, shown...),
	}, nil
}
