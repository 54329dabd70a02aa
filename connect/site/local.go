package site

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// do runs a command of this bridge as the site's local principal, for which the
// centre's calls are made, and reads its result.
func (s *Site) do(ctx context.Context, command string, params, result any) error {
	request, err := protocol.NewRequest(command, params)
	if err != nil {
		return err
	}
	return s.run(ctx, request, "", result)
}

// run runs a request. The claim is the caller that the centre speaks for, "" for itself.
func (s *Site) run(ctx context.Context, request *protocol.Request, claim string, result any) error {
	who, err := s.principal(ctx)
	if err != nil {
		return err
	}
	request.Metadata.SenderID = "" // the sender is the principal
	answer := s.Router().Handle(ctx, commands.Inbound{Principal: who, Request: request, Door: Door, Claim: claim})
	if answer.Err != nil {
		return answer.Err
	}
	return json.Unmarshal(answer.Result, result)
}

// principal is the principal of the centre's calls here. The key is read anew each
// time: it may have been revoked.
func (s *Site) principal(ctx context.Context) (*protocol.Principal, error) {
	key, err := secret(s.Principal)
	if err != nil {
		return nil, protocol.Wrap(protocol.CredentialInvalid, err, "sites.join.principal, the key of who the centre's calls are made for cannot be read")
	}
	who, err := s.Authenticate(ctx, key)
	if err != nil {
		return nil, protocol.Wrap(protocol.CodeOf(err), err, "sites.join.principal, the key of who the centre's calls are made for here: "+protocol.AsError(err).Message)
	}
	s.mu.Lock()
	s.space = who.Home()
	s.mu.Unlock()
	return who, nil
}

// An agent is one of this bridge as the centre is shown it.
type agent struct {
	local  protocol.AgentID
	name   string
	tags   selector.Tags
	online bool
	skills []skill
}

// A skill is one of an agent.
type skill struct {
	ID           protocol.SkillID   `json:"skill_id"`
	Name         string             `json:"name"`
	Description  string             `json:"description"`
	Version      string             `json:"version"`
	Capabilities []capability       `json:"capabilities"`
	AgentIDs     []protocol.AgentID `json:"agent_ids"`
	StateSchema  json.RawMessage    `json:"state_schema"`
	Keys         json.RawMessage    `json:"encryption_keys"`
}

// A capability is one of a skill; on the wire it may be its id alone.
type capability struct {
	ID           protocol.CapabilityID `json:"capability_id"`
	Name         string                `json:"name"`
	Description  string                `json:"description"`
	ParamsSchema json.RawMessage       `json:"params_schema"`
	ResultSchema json.RawMessage       `json:"result_schema"`
	Format       string                `json:"format"`
	Effect       string                `json:"effect"`
	Idempotent   bool                  `json:"idempotent"`
	Risk         string                `json:"risk"`
	Sealed       string                `json:"sealed"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *capability) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &c.ID)
	}
	type plain capability // without this method
	return json.Unmarshal(b, (*plain)(c))
}

// agents lists the agents of this bridge that the centre is shown, with their
// skills: as far as the principal may see them.
func (s *Site) agents(ctx context.Context) (map[protocol.AgentID]*agent, error) {
	found := map[protocol.AgentID]*agent{}
	for cursor := ""; ; {
		var page struct {
			Agents []struct {
				ID     protocol.AgentID `json:"agent_id"`
				Name   string           `json:"name"`
				Tags   selector.Tags    `json:"tags"`
				Status string           `json:"status"`
			} `json:"agents"`
			Next string `json:"next_cursor"`
		}
		if err := s.do(ctx, "agent.list", listed(cursor, map[string]any{"type": "end_agent"}), &page); err != nil {
			return nil, err
		}
		for _, a := range page.Agents {
			if s.shows(a.ID) && !s.foreign(string(a.ID)) {
				found[a.ID] = &agent{local: a.ID, name: a.Name, tags: a.Tags, online: a.Status == "online"}
			}
		}
		if cursor = page.Next; cursor == "" {
			return found, s.addSkills(ctx, found)
		}
	}
}

// listed are the params of a list from a cursor on.
func listed(cursor string, params map[string]any) map[string]any {
	params["limit"] = 1000
	if cursor != "" {
		params["cursor"] = cursor
	}
	return params
}

// foreign reports whether something belongs to a site of this bridge: a site of a
// site is not shown, so that no two bridges show each other the same agents again.
func (s *Site) foreign(id string) bool {
	name, _, dotted := strings.Cut(id, ".")
	for _, h := range s.Have {
		if dotted && h.Name == name {
			return true
		}
	}
	return false
}

func (s *Site) addSkills(ctx context.Context, to map[protocol.AgentID]*agent) error {
	for cursor := ""; ; {
		var page struct {
			Skills []skill `json:"skills"`
			Next   string  `json:"next_cursor"`
		}
		if err := s.do(ctx, "skill.discover", listed(cursor, map[string]any{}), &page); err != nil {
			return err
		}
		for _, k := range page.Skills {
			for _, id := range k.AgentIDs {
				if a := to[id]; a != nil && !s.foreign(string(k.ID)) {
					a.skills = append(a.skills, k)
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// named is a name of this bridge as the centre has it.
func (s *Site) named(id string) string { return s.Name + "." + id }

// shown is a skill as it is registered at the centre, and whether any of it
// crosses: capabilities that take only sealed params cannot cross, as their params would be sealed
// for a skill of another name.
func (s *Site) shown(a protocol.AgentID, k *skill) (shown client.Skill, crosses bool) {
	shown = client.Skill{
		ID: protocol.SkillID(s.named(string(k.ID))), Name: k.Name, Description: k.Description, Version: k.Version, StateSchema: k.StateSchema,
		Desired: func(ctx context.Context, delta json.RawMessage) (any, error) {
			return nil, s.desire(ctx, a, k.ID, delta)
		},
	}
	for _, c := range k.Capabilities {
		if c.Sealed == client.SealedRequired {
			continue
		}
		shown.Capabilities = append(shown.Capabilities, client.Capability{
			ID: c.ID, Name: c.Name, Description: c.Description, ParamsSchema: c.ParamsSchema, ResultSchema: c.ResultSchema,
			Format: c.Format, Effect: c.Effect, Idempotent: c.Idempotent, Risk: c.Risk,
			Handler: func(ctx context.Context, in *client.Invocation) (any, error) { return s.invoke(ctx, k.ID, in) },
		})
	}
	return shown, len(shown.Capabilities) > 0
}

// invoke calls a skill of this bridge for the centre, under the centre's own id of
// the call: the claims of this bridge run it once, also if it is killed and the
// centre asks again.
func (s *Site) invoke(ctx context.Context, id protocol.SkillID, in *client.Invocation) (any, error) {
	request, err := protocol.NewRequest("skill.invoke", map[string]any{"skill_id": id, "capability_id": in.CapabilityID, "params": in.Params})
	if err != nil {
		return nil, err
	}
	request.ID, request.Metadata.Priority = in.ID, in.Priority
	if in.TraceID != "" {
		request.Metadata.TraceID = in.TraceID
	}
	request.Metadata.Timeout = max(time.Until(in.Deadline), time.Millisecond)
	var result struct {
		Data json.RawMessage `json:"data"`
	}
	if err := s.run(ctx, request, claimed(in.Sender), &result); err != nil {
		s.metrics.called(err)
		return nil, err
	}
	s.metrics.called(nil)
	return result.Data, nil
}

// claimed is the caller at the centre, if that was told: a claim of the centre. No
// principal of this bridge has an id with a slash.
func claimed(sender string) string {
	if !strings.Contains(sender, "/") {
		return ""
	}
	return protocol.FitSender("centre/" + sender)
}

// desire sets the desired state of a skill of this bridge to the centre's.
func (s *Site) desire(ctx context.Context, a protocol.AgentID, k protocol.SkillID, delta json.RawMessage) error {
	if string(delta) == "{}" {
		return nil
	}
	var done struct{}
	err := s.do(ctx, "state.desired.set", map[string]any{"agent_id": a, "skill_id": k, "state": delta}, &done)
	if err != nil {
		return fmt.Errorf("the desired state of %s/%s from the centre: %w", a, k, err)
	}
	return nil
}
