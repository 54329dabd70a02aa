package registry

import (
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
	"github.com/aibridge/aibridge/registry/ask"
)

var agentRegister = commands.Spec{
	Name:    "agent.register",
	Summary: "Introduce an agent, or register it anew.",
	Effect:  commands.Write,
	Action:  "agent:register",
	Errors: []protocol.Code{
		protocol.CertificateRequired, protocol.CertificateUnknown, protocol.CertificateExpired, protocol.CertificateRevoked,
		protocol.OutsideScope, protocol.ProofFailed, protocol.AlreadyExists, protocol.NotFound, protocol.LimitReached,
	},
	Example: `{"agent_id":"lamp-1","type":"end_agent","name":"Lamp in the hall","endpoints":["mqtt://192.168.1.20:1883"]}`,
}

// RegisterAgentParams are the params of agent.register.
type RegisterAgentParams struct {
	AgentID   protocol.AgentID `json:"agent_id" doc:"unique in its space"`
	Type      AgentType        `json:"type" enum:"mcp_agent,route_agent,end_agent" doc:"purpose of the agent"`
	Endpoints []string         `json:"endpoints,omitempty" len:"1-10" each:"1-256" doc:"URLs the agent is reached at; the bridge calls http(s) ones of an agent that has no connection and was not registered over MQTT"`
	Name      string           `json:"name,omitempty" len:"1-128" text:"line" doc:"for people"`
	Tags      selector.Tags    `json:"tags,omitempty" len:"0-32" each:"0-128" text:"line" doc:"names of up to 63 letters, digits, _ and -, for selectors to choose it by; those it has stay when absent"`
	Skills    []Skill          `json:"skills,omitempty" len:"1-100" doc:"skills it provides, registered along with it"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
	Join      string           `json:"join,omitempty" len:"1-128" doc:"join token, for a skill among them that is somebody else's"`
	CertSN    string           `json:"cert_sn,omitempty" doc:"of a route agent, serial of the certificate that authorises it, 16 hexadecimal digits; that of the connection when absent"`
}

// Target implements [commands.Targeter].
func (p RegisterAgentParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.AgentID), Space: p.Space}
}

// Validate checks the rules that the tags of the fields cannot express.
func (p RegisterAgentParams) Validate() error {
	if err := p.Tags.Check("tags"); err != nil {
		return err
	}
	return checkEndpoints("endpoints", p.Endpoints)
}

// RegisterAgentResult is the result of agent.register.
type RegisterAgentResult struct {
	AgentID           protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	Status            Status           `json:"status" doc:"online, as the connection or the request that registered the agent counts as a sign of life; offline if its certificate has ended"`
	Space             protocol.SpaceID `json:"space_id" doc:"id of the space that the agent lives in"`
	RequestTopic      string           `json:"request_topic" doc:"topic to which the bridge publishes requests for the agent; subscribe to it"`
	ResponseTopic     string           `json:"response_topic" doc:"topic on which the agent answers"`
	HeartbeatInterval float64          `json:"heartbeat_interval" doc:"seconds between two heartbeats; after three missed ones the agent is offline"`
}

// RegisterAgent registers an agent. The principal that registered it may do so again,
// which replaces the earlier registration; any other gets 3002. A route agent takes a certificate.
func (s *Service) RegisterAgent(ctx context.Context, call *commands.Call, p RegisterAgentParams) (RegisterAgentResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return RegisterAgentResult{}, err
	}
	for i := range p.Skills {
		if err := s.compileSchemas(call, &p.Skills[i]); err != nil {
			return RegisterAgentResult{}, within("skills", i, err)
		}
	}
	if err := s.mayName(call.Principal, space, string(p.AgentID)); err != nil {
		return RegisterAgentResult{}, err
	}
	route, err := s.authorizeRoute(ctx, call, space, p)
	if err != nil {
		return RegisterAgentResult{}, err
	}
	key := ask.AgentKey{Space: space, ID: p.AgentID}
	agent, _, err := records.Change(ctx, s.opts.Agents, tableKey(space, p.AgentID), func(old *Agent, _ uint64) (*Agent, error) {
		return renewed(old, call, space, p, route)
	})
	if err != nil {
		return RegisterAgentResult{}, err
	}
	if clientOf(call) == "" {
		s.board.renew(key, "", nil, call.Principal)
	}
	if call.Line != nil {
		s.board.serve(key, call.Line, call.Principal, false)
	}
	s.board.timed(key, call)
	for i := range p.Skills {
		if _, err := s.provide(ctx, space, &p.Skills[i], &bid{call.Principal, agent, p.Join}); err != nil {
			return RegisterAgentResult{}, within("skills", i, err)
		}
	}
	s.warnOfEndpoints(call, "endpoints", p.Endpoints)
	for i := range p.Skills {
		s.warnOfEndpoints(call, itemPath("skills", i, "endpoints"), p.Skills[i].Endpoints)
	}
	if clientOf(call) == "" && !s.board.isOnline(key) {
		call.Warn("nothing can reach agent %s: it has no endpoint that may be called. It is reached once it subscribes to its request topic over MQTT or registers over /ws", p.AgentID)
	}
	return RegisterAgentResult{
		AgentID:           p.AgentID,
		Status:            statusOf(s.board.isOnline(key)),
		Space:             space,
		RequestTopic:      s.opts.Topics.AgentRequest(p.AgentID),
		ResponseTopic:     s.opts.Topics.AgentResponse(p.AgentID),
		HeartbeatInterval: s.opts.Heartbeat.Seconds(),
	}, nil
}

// renewed is an agent after a registration, which replaces everything but the time
// of the first one, and the tags if it names none.
func renewed(old *Agent, call *commands.Call, space protocol.SpaceID, p RegisterAgentParams, route RouteGrant) (*Agent, error) {
	now := time.Now().UnixMilli()
	a := &Agent{
		ID: p.AgentID, Space: space, Type: p.Type, Name: p.Name, Endpoints: p.Endpoints, Tags: p.Tags,
		Owner: call.Principal.Party(), ClientID: clientOf(call), CertSerial: call.Principal.CertSerial, RegisteredAt: now, UpdatedAt: now,
	}
	if route.Serial != "" {
		a.CertSerial, a.Routes = route.Serial, route.Skill
	}
	if old == nil {
		return a, nil
	}
	if !old.Owner.Includes(a.Owner) {
		return nil, protocol.Errorf(protocol.AlreadyExists, "agent %q was registered by somebody else", p.AgentID).
			With("agent_id", string(p.AgentID))
	}
	if p.Tags == nil {
		a.Tags = old.Tags
	}
	a.RegisteredAt, a.UpdatedAt = old.RegisteredAt, old.UpdatedAt
	if !records.Same(a, old) {
		a.UpdatedAt = now
	}
	return a, nil
}

// clientOf is the MQTT client that a call came from, "" if it came another
// way.
func clientOf(call *commands.Call) string { return call.Client }

// within puts the place of an item before the place an error names.
func within(list string, i int, err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.InvalidParameter {
		return err
	}
	path, _ := e.Details["param_name"].(string)
	reason, _ := e.Details["reason"].(string)
	return protocol.InvalidParam(itemPath(list, i, path), reason)
}
