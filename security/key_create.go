package security

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var keyCreate = commands.Spec{
	Name:    "key.create",
	Summary: "Make an API key. Its secret is shown once, in the answer.",
	Effect:  commands.Write,
	Action:  "key:create",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.NotFound, protocol.AlreadyExists, protocol.LimitReached},
	Example: `{"principal_id":"lamp-1","roles":["end_agent"],"expires_in":2592000}`,
}

// KeyCreateParams are the params of key.create.
type KeyCreateParams struct {
	Principal protocol.AgentID    `json:"principal_id" doc:"holder of the key: an agent's or skill's id, or a name for a person or a program"`
	Name      string              `json:"name,omitempty" len:"1-128" text:"line" doc:"purpose of the key, for people"`
	Kind      protocol.Kind       `json:"kind,omitempty" enum:"operator,agent,skill" default:"agent" doc:"kind of party"`
	Space     protocol.SpaceID    `json:"space_id,omitempty" doc:"its space, the caller's own by default"`
	Roles     []string            `json:"roles,omitempty" len:"0-32" each:"1-64" text:"line" doc:"role by policy; end_agent, skill or observer by default, by its kind"`
	Scopes    []string            `json:"scopes,omitempty" len:"0-100" each:"1-128" doc:"actions it is limited to, whatever policy says: skill:invoke, skill:* or *; none limits nothing"`
	LLM       *protocol.Allowance `json:"llm,omitempty" doc:"bounds of its questions to language models: which ones, how much, how often; absent limits nothing"`
	Unknown   bool                `json:"allow_unknown,omitempty" doc:"take roles and scopes that neither the bridge nor a policy knows; they are good for nothing until one does"`
	S3        bool                `json:"s3,omitempty" doc:"also make an access key for S3, which stands for the key and ends with it"`
	ExpiresIn int64               `json:"expires_in,omitempty" range:"1-3153600000" doc:"seconds until it expires; without it, it does not"`
}

// Target implements [commands.Targeter].
func (p KeyCreateParams) Target() commands.Resource {
	return commands.Resource{Type: "key", ID: string(p.Principal), Space: p.Space}
}

// KeyCreateResult is the result of key.create.
type KeyCreateResult struct {
	Secret       string `json:"key" doc:"the key itself, shown only here"`
	AccessKey    string `json:"s3_access_key_id,omitempty" doc:"id of the access key for S3; absent unless it was asked for"`
	AccessSecret string `json:"s3_secret_access_key,omitempty" doc:"its secret, shown only here"`
	KeyView
}

// Create makes a key. A caller gives no right that it does not have: a role, a
// scope, a space.
func (s *KeyService) Create(ctx context.Context, call *commands.Call, p KeyCreateParams) (KeyCreateResult, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return KeyCreateResult{}, err
	}
	p.Space = space
	if p.Kind == "" {
		p.Kind = protocol.KindAgent
	}
	if len(p.Roles) == 0 {
		p.Roles = []string{map[protocol.Kind]string{
			protocol.KindAgent: protocol.RoleEndAgent, protocol.KindSkill: protocol.RoleSkill, protocol.KindOperator: protocol.RoleObserver,
		}[p.Kind]}
	}
	if err := s.mayGive(call.Principal, p); err != nil {
		return KeyCreateResult{}, err
	}
	if err := s.room(space); err != nil {
		return KeyCreateResult{}, err
	}
	now := s.now()
	id, secret, text := newKey()
	under := s.Ring.peppers.active()
	key := &Key{
		ID: id, Name: p.Name, Principal: string(p.Principal), Kind: p.Kind, Space: space, Roles: p.Roles, Scopes: p.Scopes, LLM: p.LLM,
		MAC: mac(under.secret, id, secret), Pepper: under.id, Access: p.S3, Created: now.UTC(), CreatedBy: call.Principal.ID,
	}
	if p.ExpiresIn > 0 {
		key.Expires = now.Add(time.Duration(p.ExpiresIn) * time.Second).UTC()
	}
	if _, err := s.keys.Put(ctx, id, key); err != nil {
		return KeyCreateResult{}, err
	}
	if s.Changed != nil {
		s.Changed(ctx, KeyEvent{Call: call, Key: key})
	}
	result := KeyCreateResult{Secret: text, KeyView: s.view(key)}
	if access, ok := s.Ring.access(key); ok && key.Access {
		result.AccessKey, result.AccessSecret = access.ID, access.Secret
	}
	return result, nil
}

// mayGive checks that the creator has everything it gives.
func (s *KeyService) mayGive(who *protocol.Principal, p KeyCreateParams) error {
	for _, scope := range p.Scopes {
		if reason := scopeForm(scope); reason != "" {
			return protocol.InvalidParam("scopes", reason)
		}
	}
	if err := s.known(p); err != nil {
		return err
	}
	if slices.Contains(p.Roles, protocol.RoleAnonymous) {
		return protocol.InvalidParam("roles", "anonymous is no role that can be given")
	}
	switch id := string(p.Principal); {
	case id == "anonymous" || id == s.BridgeID:
		return protocol.InvalidParam("principal_id", "is reserved")
	case s.Clash != nil && s.Clash(protocol.Party{Kind: p.Kind, Space: p.Space, ID: id}):
		return protocol.Errorf(protocol.AlreadyExists, "the name %q is taken by somebody of another kind", id).
			With("param_name", "principal_id").With("reason", "people and programs have other names than agents and skills")
	case id == administratorID && !who.Unbounded():
		return denied("principal_id", "only an administrator makes keys for "+administratorID)
	}
	if !who.Unbounded() {
		for _, role := range p.Roles {
			if !mayGiveRole(who, role) {
				return denied("roles", "you do not have the role "+role)
			}
		}
	}
	if who.Method == protocol.MethodAPIKey && s.Ring.Allowance(who.Credential) != nil {
		return denied("llm", "your own key is limited in what it may ask of language models, so it makes no other keys")
	}
	if len(who.Scopes) == 0 {
		return nil
	}
	if len(p.Scopes) == 0 {
		return denied("scopes", "your own credential is limited to scopes, so the key must be, too")
	}
	for _, scope := range p.Scopes {
		if !slices.ContainsFunc(who.Scopes, func(own string) bool { return scopeCovers(own, scope) }) {
			return denied("scopes", "your own credential does not reach as far as "+scope)
		}
	}
	return nil
}

// known refuses roles and scopes that there are not, unless that is wanted.
func (s *KeyService) known(p KeyCreateParams) error {
	if s.Names == nil || p.Unknown {
		return nil
	}
	for _, role := range p.Roles {
		if meant, known := s.Names.KnowsRole(role); !known {
			return unknownName("roles", "there is no role", role, meant)
		}
	}
	for _, scope := range p.Scopes {
		if meant, known := s.Names.KnowsScope(scope); !known {
			return unknownName("scopes", "there is no action", scope, meant)
		}
	}
	return nil
}

func unknownName(param, what, name, meant string) error {
	reason := what + " " + strconv.Quote(name)
	if meant == "" {
		return protocol.InvalidParam(param, reason+", and no policy speaks of it; allow_unknown takes it all the same")
	}
	return protocol.InvalidParam(param, reason+": did you mean "+strconv.Quote(meant)+"?").With("did_you_mean", meant)
}

// mayGiveRole reports whether a principal has a role, or one that includes it.
func mayGiveRole(who *protocol.Principal, role string) bool {
	switch role {
	case protocol.RoleEndAgent, protocol.RoleSkill, protocol.RoleObserver:
		return who.HasRole(role) || who.HasRole(protocol.RoleOperator)
	}
	return who.HasRole(role)
}

func denied(param, reason string) error {
	return protocol.Errorf(protocol.PermissionDenied, "not allowed").With("param_name", param).With("reason", reason)
}

// room checks that a space has not too many keys.
func (s *KeyService) room(space protocol.SpaceID) error {
	n := 0
	for _, key := range s.keys.All() {
		if key.Space == space {
			n++
		}
	}
	if n >= maxKeysPerSpace {
		return protocol.Errorf(protocol.LimitReached, "a space can have %d keys", maxKeysPerSpace).With("limit", maxKeysPerSpace)
	}
	return nil
}
