package security

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

var tokenRevoke = commands.Spec{
	Name:    "token.revoke",
	Summary: "Revoke a token of an issuer, or all that a principal has by now, and disconnect who came in with them.",
	Effect:  commands.Write,
	Action:  "token:revoke",
	Errors:  []protocol.Code{protocol.NotFound, protocol.LimitReached, protocol.RevisionConflict},
	Example: `{"token_id":"5f3c9d1e","reason":"laptop was stolen"}`,
}

// TokenRevokeParams are the params of token.revoke.
type TokenRevokeParams struct {
	Token     string           `json:"token_id,omitempty" len:"1-256" audit:"yes" doc:"the token's jti, or what session.list and the audit trail show as its credential"`
	Principal protocol.AgentID `json:"principal_id,omitempty" audit:"yes" doc:"instead: whose tokens, by the id they have on this bridge"`
	Kind      protocol.Kind    `json:"kind,omitempty" enum:"operator,agent,skill" audit:"yes" doc:"with principal_id: what sort of party it is; whoever has the id by default"`
	Before    int64            `json:"issued_before,omitempty" range:"1-9007199254740991" doc:"with principal_id: those issued then or earlier, in Unix milliseconds, and those that do not say when; now by default"`
	Issuer    string           `json:"issuer,omitempty" len:"1-1024" audit:"yes" doc:"only tokens of this issuer; of any by default"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the principal's space, the caller's own by default; an administrator's token_id is revoked in all"`
	Reason    string           `json:"reason,omitempty" len:"1-256" text:"lines" doc:"reason, for later readers"`
}

// Target implements [commands.Targeter].
func (p TokenRevokeParams) Target() commands.Resource {
	id := p.Token
	if id == "" {
		id = string(p.Principal)
	}
	return commands.Resource{Type: "token", ID: id, Space: p.Space}
}

// RevocationView is a revocation as callers see it.
type RevocationView struct {
	ID        string           `json:"revocation_id" doc:"id of the revocation"`
	Token     string           `json:"token_id,omitempty" doc:"the token, as session.list and the audit trail show it"`
	Principal string           `json:"principal_id,omitempty" doc:"principals whose tokens are meant, if not one"`
	Kind      protocol.Kind    `json:"kind,omitempty" doc:"kind of that party; any if absent"`
	Before    int64            `json:"issued_before,omitempty" doc:"those issued then or earlier, Unix milliseconds"`
	Issuer    string           `json:"issuer,omitempty" doc:"principal whose tokens are meant"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the space of who shows them; any if absent"`
	Reason    string           `json:"reason,omitempty" doc:"reason"`
	By        string           `json:"revoked_by" doc:"principal who revoked them"`
	At        int64            `json:"revoked_at" doc:"time, Unix milliseconds"`
	Until     int64            `json:"forgotten_at,omitempty" doc:"time at which the last of them has expired and the revocation is forgotten, Unix milliseconds; absent if tokens are accepted that do not say when they were issued"`
}

func (s *TokenService) viewOf(r *Revocation) RevocationView {
	v := RevocationView{
		ID: r.ID, Token: r.Token, Principal: r.Principal, Kind: r.Kind, Issuer: r.Issuer, Space: r.Space, Reason: r.Reason, By: r.By,
		At: r.At.UnixMilli(),
	}
	if !s.AcceptsUndated {
		v.Until = r.Until.UnixMilli()
	}
	if !r.Before.IsZero() {
		v.Before = r.Before.UnixMilli()
	}
	return v
}

// Revoke revokes tokens for good: whether their owner gets newer ones is for the
// issuer to decide. Tokens that are revoked twice are revoked for the longer time.
func (s *TokenService) Revoke(ctx context.Context, call *commands.Call, p TokenRevokeParams) (RevocationView, error) {
	r, err := s.revocation(call, p)
	if err != nil {
		return RevocationView{}, err
	}
	r.ID = r.key()
	r, _, err = records.Change(ctx, s.Revocations, r.ID, func(before *Revocation, _ uint64) (*Revocation, error) {
		return s.joined(r, before)
	})
	if err != nil {
		return RevocationView{}, err
	}
	s.Note() // as the watcher of the table will say again
	if s.Changed != nil {
		s.Changed(ctx, TokenEvent{call, r})
	}
	return s.viewOf(r), nil
}

// joined is a revocation that reaches as far as the one before it of the same,
// nil if there is none.
func (s *TokenService) joined(r, before *Revocation) (*Revocation, error) {
	if before == nil {
		if s.index.Load().kept[r.Space] >= maxRevocations {
			return nil, protocol.Errorf(protocol.LimitReached, "too many tokens are revoked; revoke all of a principal, take the issuer out of the configuration, or set require_iat for all issuers, so that old ones are forgotten").
				With("limit", maxRevocations)
		}
		return r, nil
	}
	joined := *before
	joined.Reason, joined.By, joined.At = r.Reason, r.By, r.At
	if r.Before.After(joined.Before) {
		joined.Before = r.Before
	}
	if r.Until.After(joined.Until) {
		joined.Until = r.Until
	}
	return &joined, nil
}

// revocation makes the record of a request.
func (s *TokenService) revocation(call *commands.Call, p TokenRevokeParams) (*Revocation, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return nil, err
	}
	now := s.Now().UTC()
	r := &Revocation{
		Space: space, Issuer: p.Issuer, Reason: p.Reason, By: call.Principal.ID, At: now,
		Until: now.Add(s.LongestLife),
	}
	switch {
	case (p.Token == "") == (p.Principal == ""):
		return nil, protocol.InvalidParam("token_id", "or principal_id must be given, and not both")
	case p.Token != "" && p.Before != 0:
		return nil, protocol.InvalidParam("issued_before", "is for the tokens of a principal")
	case p.Token != "" && p.Kind != "":
		return nil, protocol.InvalidParam("kind", "is for the tokens of a principal")
	case p.Token != "":
		r.Token = token.Credential(p.Token)
		if call.Principal.Unbounded() && p.Space == "" {
			r.Space = ""
		}
		return r, nil
	}
	r.Principal, r.Kind, r.Before = string(p.Principal), p.Kind, now
	if p.Before != 0 {
		r.Before = time.UnixMilli(p.Before).UTC()
	}
	if r.Before.After(now) {
		return nil, protocol.InvalidParam("issued_before", "is in the future")
	}
	return r, nil
}
