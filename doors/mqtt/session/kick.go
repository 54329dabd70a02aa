package session

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var kick = commands.Spec{
	Name:    "session.kick",
	Summary: "Disconnect an MQTT client, and end its session if asked to.",
	Effect:  commands.Write,
	Action:  "session:kick",
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"client_id":"lamp-1","forget":true}`,
}

// KickParams name a session and say whether it ends.
type KickParams struct {
	Params
	Forget bool `json:"forget,omitempty" doc:"end the session too: its subscriptions and what waits for it are gone"`
}

// KickResult is the result of session.kick.
type KickResult struct {
	ClientID     string `json:"client_id" doc:"client id of the session"`
	Disconnected bool   `json:"disconnected" doc:"true if the client was connected"`
	Forgotten    bool   `json:"forgotten" doc:"true if the session ended"`
}

// Kick ends the connection of a client with reason 0x98, administrative
// action. Unless the session ends too, the client may come back to it.
func (s *Service) Kick(ctx context.Context, call *commands.Call, p KickParams) (_ KickResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return KickResult{}, err
	}
	return anywhere(ctx, s, kick.Name, p, s.kick)
}

func (s *Service) kick(p KickParams) (KickResult, error) {
	i, err := s.find(p.Space, p.ClientID)
	if err != nil {
		return KickResult{}, err
	}
	if !s.broker.Kick(i.space(), p.ClientID, p.Forget) { // has ended in the meantime
		return KickResult{}, notFound(p.ClientID)
	}
	return KickResult{
		ClientID:     p.ClientID,
		Disconnected: i.Connected,
		Forgotten:    p.Forget || i.Connected && i.Expiry == 0, // MQTT 5 §3.1.2.11.2: 0 ends with the connection
	}, nil
}
