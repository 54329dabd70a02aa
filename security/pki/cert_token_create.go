package pki

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certTokenCreate = commands.Spec{
	Name:    "cert.token.create",
	Summary: "Make a claim token, with which a device gets one certificate by itself.",
	Effect:  commands.Write,
	Action:  "cert:issue",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.AlreadyExists, protocol.NotFound, protocol.LimitReached},
	Example: `{"authority":"operator","skill_id":"lighting","role":"agent_route","scene_types":["SMART_HOME"],"ttl_seconds":3600}`,
}

// TokenParams are the params of cert.token.create.
type TokenParams struct {
	TTL int `json:"ttl_seconds,omitempty" range:"1-2592000" default:"86400" doc:"time in which it can be claimed, a day by default"`
	CertificateSpec
}

// Validate checks the rules that the fields' tags cannot express.
func (p TokenParams) Validate() error {
	if p.Authority == "" {
		return protocol.InvalidParam("authority", "is needed")
	}
	return nil
}

// Target implements [commands.Targeter].
func (p TokenParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: string(p.Skill), Space: p.Space}
}

// TokenResult is the result of cert.token.create.
type TokenResult struct {
	Token     string `json:"token" doc:"shown this once"`
	TokenID   string `json:"token_id" doc:"its part that is no secret"`
	ExpiresAt int64  `json:"expires_at" doc:"Unix milliseconds"`
}

// CreateToken makes a claim token, as an officer: the approval comes first and
// the device later.
func (s *Service) CreateToken(ctx context.Context, call *commands.Call, p TokenParams) (TokenResult, error) {
	scope, err := p.scope(call)
	if err != nil {
		return TokenResult{}, err
	}
	if err := mustDecide(call.Principal, p.Authority, scope); err != nil {
		return TokenResult{}, err
	}
	if err := s.reserved(scope); err != nil {
		return TokenResult{}, err
	}
	if err := s.mayName(call.Principal, p.Authority, scope, protocol.Party{}); err != nil {
		return TokenResult{}, err
	}
	if s.opts.Tokens.Len() >= maxTokens {
		return TokenResult{}, protocol.Errorf(protocol.LimitReached, "too many claim tokens are kept").With("limit", maxTokens)
	}
	id, hash, text := newToken()
	t := &Token{
		ID: id, Hash: hash, Authority: p.Authority, Scope: *scope, Validity: p.validity(),
		Expires: s.opts.Now().Add(time.Duration(p.TTL) * time.Second).UTC(), By: call.Principal.ID, AnyName: everything(call.Principal),
	}
	if _, err := s.opts.Tokens.Create(ctx, id, t); err != nil {
		return TokenResult{}, err
	}
	return TokenResult{Token: text, TokenID: id, ExpiresAt: t.Expires.UnixMilli()}, nil
}
