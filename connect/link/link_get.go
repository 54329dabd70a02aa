package link

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var linkGet = commands.Spec{
	Name:    "link.get",
	Summary: "Show a link to another MQTT broker: what it carries, what waits, and what was refused.",
	Effect:  commands.Read,
	Action:  "link:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"link":"factory"}`,
}

// GetParams are the params of link.get.
type GetParams struct {
	Link string `json:"link" len:"1-32" doc:"name of the link, as it is configured"`
}

// Target implements [commands.Targeter].
func (p GetParams) Target() commands.Resource { return commands.Resource{Type: "link", ID: p.Link} }

// GetResult is a link in full.
type GetResult struct {
	View
	ClientID  string     `json:"client_id" doc:"client id of the link's session on the bridge, for session.get and session.trace.start"`
	RemoteID  string     `json:"remote_client_id" doc:"client id at the remote broker"`
	Principal string     `json:"principal,omitempty" doc:"principal that the link acts for; absent until that is known"`
	Version   string     `json:"version" doc:"version of MQTT at the remote broker"`
	Inflight  int        `json:"inflight" doc:"messages sent to the remote broker that it has not acknowledged"`
	Queued    int        `json:"queued" doc:"messages that wait for the remote broker"`
	Bytes     int        `json:"queued_bytes" doc:"topics and payloads of these"`
	Out       []RuleView `json:"out" doc:"messages that go to the remote broker"`
	In        []RuleView `json:"in" doc:"messages that come from it"`
	Counts    []Count    `json:"counts" doc:"messages since the bridge started"`
	Refused   []string   `json:"refused" doc:"filters that a broker refuses, and what the last message was refused for"`
}

// A RuleView is a rule as callers see it.
type RuleView struct {
	Topic  string `json:"topic" doc:"topic filter, without the prefixes"`
	Local  string `json:"local,omitempty" doc:"prefix on the bridge"`
	Remote string `json:"remote,omitempty" doc:"prefix at the remote broker"`
	QoS    int    `json:"qos" doc:"highest QoS"`
}

// A Count is the number of messages with one outcome.
type Count struct {
	Direction string `json:"direction" doc:"out or in"`
	Outcome   string `json:"outcome" doc:"carried; refused by a broker; looped, as it had been there; unmapped, as no rule fits; or too_large"`
	Messages  uint64 `json:"messages" doc:"number"`
}

// Get shows one link.
func (s *Service) Get(ctx context.Context, call *commands.Call, p GetParams) (GetResult, error) {
	for _, v := range s.Visible(ctx, call.Principal) {
		if v.Name == p.Link {
			return v, nil
		}
	}
	return GetResult{}, protocol.Errorf(protocol.NotFound, "there is no link %q", p.Link).With("resource", "link")
}

func viewsOf(rules []Rule) []RuleView {
	list := make([]RuleView, 0, len(rules))
	for _, r := range slices.All(rules) {
		list = append(list, RuleView{r.Topic, r.Local, r.Remote, r.QoS})
	}
	return list
}
