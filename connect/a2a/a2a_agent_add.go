package a2a

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentAdd = commands.Spec{
	Name:    "a2a.agent.add",
	Summary: "Add an agent elsewhere that speaks A2A, by its card; it is used once its card is approved.",
	Effect:  commands.Write,
	Action:  "a2a:agent.add",
	Errors:  []protocol.Code{protocol.AlreadyExists, protocol.InvalidState, protocol.LimitReached, protocol.TargetUnavailable, protocol.NotFound},
	Example: `{"agent_id":"travel","url":"https://travel.example/.well-known/agent-card.json","credential":"Bearer secret"}`,
}

// AddParams are the params of a2a.agent.add.
type AddParams struct {
	ID         protocol.AgentID `json:"agent_id" doc:"name of the agent, and of its skill, here"`
	URL        string           `json:"url,omitempty" len:"1-1024" doc:"address of its card; the usual path if only a host is named"`
	MQTT       string           `json:"mqtt,omitempty" len:"5-200" pattern:"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$" doc:"instead of a url: ORG/UNIT/AGENT, of an agent that has published its card by A2A over MQTT in the same space"`
	Credential string           `json:"credential,omitempty" len:"1-4096" text:"line" doc:"value of the header Authorization, such as Bearer TOKEN; kept encrypted, never shown, sent to the host of the URL alone"`
	Extended   bool             `json:"extended,omitempty" doc:"use the extended card, which agents show to those whom they know; any change of it needs approval"`
	Risk       string           `json:"risk,omitempty" enum:"low,medium,high,ask,deny" doc:"danger of asking it: with high or ask a model needs an approval, with deny it may not at all; ask by default"`
	Timeout    int64            `json:"timeout_ms,omitempty" range:"1000-600000" doc:"time that one call may take, milliseconds; 600000 by default"`
	Space      protocol.SpaceID `json:"space_id,omitempty" doc:"the space it is used in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p AddParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.ID), Space: p.Space}
}

// Add reads the card of an agent and stores the agent.
func (s *Service) Add(ctx context.Context, call *commands.Call, p AddParams) (View, error) {
	a, err := s.candidate(call, p)
	if err != nil {
		return View{}, err
	}
	err = call.Park(ctx, func(ctx context.Context) (err error) {
		a.Card, a.Publisher, err = s.fetch(ctx, a)
		return err
	})
	if err != nil {
		return View{}, err
	}
	a.ReadAt = s.opts.Now().UnixMilli()
	if err := s.store(ctx, a); err != nil {
		return View{}, err
	}
	return a.view(), nil
}

// store stores a new agent if there is still room for it. One is stored at a time:
// others may have been added while its card was read.
func (s *Service) store(ctx context.Context, a *Agent) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	if err := s.room(a); err != nil {
		return err
	}
	_, err := s.opts.Table.Create(ctx, key(a.Space, a.ID), a)
	return err
}

// candidate is the agent that is to be added, without its card.
func (s *Service) candidate(call *commands.Call, p AddParams) (*Agent, error) {
	if err := s.on(); err != nil {
		return nil, err
	}
	space, err := in(call, p.Space)
	if err != nil {
		return nil, err
	}
	at, err := s.place(p)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(p.Credential, "\r\n\x00") {
		return nil, protocol.InvalidParam("credential", "may not have line breaks")
	}
	a := &Agent{
		ID: p.ID, Space: space, URL: at, Owner: call.Principal.Party(), Extended: p.Extended, Risk: p.Risk, TimeoutMS: p.Timeout,
		AddedAt: s.opts.Now().UnixMilli(),
	}
	if a.Risk == "" {
		a.Risk = "ask"
	}
	if err := s.room(a); err != nil {
		return nil, err
	}
	if p.Credential != "" {
		a.Credential, err = s.opts.Sealer.Seal([]byte(p.Credential), purpose(a.Space, a.ID, a.URL))
	}
	return a, err
}

// place is the place of the card of the agent to be added.
func (s *Service) place(p AddParams) (string, error) {
	switch {
	case (p.URL == "") == (p.MQTT == ""):
		return "", protocol.InvalidParam("url", "is required, or mqtt, and not both")
	case p.MQTT != "" && (p.Credential != "" || p.Extended):
		return "", protocol.InvalidParam("mqtt", "goes with neither credential nor extended")
	case p.MQTT != "":
		return mqttAddress + p.MQTT, nil
	}
	u, fault := address(p.URL)
	if fault == "" {
		fault = s.refuses(p.URL, p.Credential != "")
	}
	if fault != "" {
		return "", protocol.InvalidParam("url", fault)
	}
	return cardURL(u), nil
}

// room fails if there may not be one more agent, of the id.
func (s *Service) room(a *Agent) error {
	taken := protocol.Errorf(protocol.AlreadyExists, "there is an agent %q already", a.ID).With("agent_id", string(a.ID))
	if _, _, there := s.opts.Table.Get(key(a.Space, a.ID)); there {
		return taken
	}
	if owner, there := s.opts.Owned(a.Space, a.ID); there && owner != principal(a.Space).Party() {
		return taken
	}
	count := 0
	for _, other := range s.opts.Table.All() {
		if other.Space == a.Space {
			count++
		}
	}
	if count >= mostAgents {
		return protocol.Errorf(protocol.LimitReached, "a space may have %d agents elsewhere", mostAgents).With("limit", mostAgents)
	}
	return nil
}
