package policy

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var policyExplain = commands.Spec{
	Name:    "policy.explain",
	Summary: "Say whether somebody may do something, which policy decided, and why.",
	Effect:  commands.Read,
	Action:  "policy:explain",
	Example: `{"principal":{"id":"lamp-1","roles":["end_agent"]},"action":"skill:invoke","resource":{"type":"skill","id":"front-door"}}`,
}

// ExplainParams are the params of policy.explain.
type ExplainParams struct {
	Principal *Subject `json:"principal,omitempty" doc:"principal; the caller by default"`
	Action    string   `json:"action" len:"1-128" doc:"action, as bridge.describe shows it: skill:invoke"`
	Resource  *On      `json:"resource,omitempty" doc:"on what"`
	Door      string   `json:"door,omitempty" enum:"mqtt,http,ws" doc:"by which door"`
	Address   string   `json:"address,omitempty" len:"1-64" doc:"from which IP address"`
	Trial     bool     `json:"trial,omitempty" doc:"decide by the policies on trial, as if they were in force"`
	SenderID  string   `json:"sender_id,omitempty" len:"1-64" doc:"speaking for whom; itself by default"`
}

// An On is a resource, for policy.explain.
type On struct {
	Type  string           `json:"type" len:"1-32" pattern:"^[a-z][a-z0-9_]*$" doc:"family: skill, agent, cap, group, topic …"`
	ID    string           `json:"id,omitempty" len:"1-1024" doc:"its id; none for lists, which act on the space"`
	Space protocol.SpaceID `json:"space_id,omitempty" doc:"its space, the principal's own by default"`
}

// ExplainResult is the result of policy.explain.
type ExplainResult struct {
	Explanation
	Principal string           `json:"principal" doc:"principal who was meant, as policies see it"`
	Roles     []string         `json:"roles" doc:"its roles"`
	Space     protocol.SpaceID `json:"space_id" doc:"its space"`
	Action    string           `json:"action" doc:"action that was asked about, as policies see it"`
	Resource  string           `json:"resource" doc:"on what, as policies see it"`
}

// Explain decides as the router would, and says why.
func (s *Service) Explain(_ context.Context, call *commands.Call, p ExplainParams) (ExplainResult, error) {
	from, err := address(p.Address)
	if err != nil {
		return ExplainResult{}, err
	}
	if err := s.Engine.checkAction(p.Action); err != nil {
		return ExplainResult{}, err
	}
	q := &Query{Who: s.principal(call, p.Principal), Action: p.Action, Door: p.Door, SenderID: p.SenderID, Address: from}
	if p.Resource != nil {
		q.Type, q.ID, q.Space = p.Resource.Type, p.Resource.ID, p.Resource.Space
	}
	subject := newSubject(q.Who)
	space := q.Space
	if space == "" {
		space = q.Who.Home()
	}
	result := ExplainResult{
		Principal: subject.uid.String(), Roles: append([]string{}, rolesOf(q.Who)...), Space: q.Who.Home(), Action: q.Action,
		Resource: resourceUID(q, space).String(),
	}
	switch {
	case s.InScope != nil && !s.InScope(q.Who, q.Action):
		result.Explanation = Explanation{Decision: "deny", Reason: "the scopes of the credential do not cover the action", Policies: []Deciding{}}
	case Walled(q):
		result.Explanation = Explanation{Decision: "deny", Reason: "what is in another space does not exist for the principal", Policies: []Deciding{}}
	case p.Trial:
		result.Explanation = s.Engine.ExplainTrial(q)
	default:
		result.Explanation = s.Engine.Explain(q)
	}
	return result, nil
}

// checkAction refuses a misspelt action.
func (e *Engine) checkAction(name string) error {
	if _, ok := e.words.actions[name]; ok || isExtension(name) {
		return nil
	}
	return protocol.InvalidParam("action", e.words.unknownAction(name).Error())
}
