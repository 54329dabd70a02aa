package security

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/policy"
)

// A Decider decides by policies, see [policy.Engine].
type Decider interface {
	Decide(q *policy.Query) policy.Decision
	// Epoch moves whenever a decision may have become another one.
	Epoch() uint64
}

// An Authorizer decides about commands, in this order: the limits of the credential, the
// walls between spaces, policy. Without policies it permits only principals that may do
// everything.
type Authorizer struct{ policies Decider }

var _ commands.LastingAuthorizer = Authorizer{}

// NewAuthorizer makes an authorizer.
func NewAuthorizer(policies Decider) Authorizer { return Authorizer{policies} }

// AuthorizeCall decides about a call that came in.
func (a Authorizer) AuthorizeCall(call *commands.Call, action string, on commands.Resource) error {
	_, err := a.AuthorizeUntil(call, action, on)
	return err
}

// Epoch implements [commands.LastingAuthorizer].
func (a Authorizer) Epoch() uint64 {
	if a.policies == nil {
		return 0
	}
	return a.policies.Epoch()
}

// AuthorizeUntil implements [commands.LastingAuthorizer].
func (a Authorizer) AuthorizeUntil(call *commands.Call, action string, on commands.Resource) (time.Time, error) {
	q := queries.Get().(*policy.Query)
	defer queries.Put(q)
	*q = policy.Query{
		Who: call.Principal, Action: action, Type: on.Type, ID: on.ID, Space: on.Space,
		Door: call.Door, SenderID: call.SenderID, Address: call.Address,
	}
	return a.decide(q)
}

// queries are used again: there is one for every call.
var queries = sync.Pool{New: func() any { return new(policy.Query) }}

// Authorize decides without a view to how the principal asks.
func (a Authorizer) Authorize(_ context.Context, who *protocol.Principal, action string, on commands.Resource) error {
	_, err := a.decide(&policy.Query{Who: who, Action: action, Type: on.Type, ID: on.ID, Space: on.Space})
	return err
}

// decide keeps to the order: a caller limited to some actions learns nothing of
// spaces, and things in another space do not exist, even if policy permits an
// action on them (docs/protocol.md#spaces).
func (a Authorizer) decide(q *policy.Query) (until time.Time, err error) {
	if !ScopeAllows(q.Who, q.Action) {
		return until, protocol.Errorf(protocol.PermissionDenied, "the credential is not for this").
			With("action", q.Action).With("reason", "it is limited to other actions")
	}
	if q.Space != "" && q.Space != q.Who.Home() && !q.Who.Unbounded() {
		return until, foreign(q)
	}
	d := a.judge(q)
	if !d.Allowed {
		return until, protocol.Errorf(protocol.PermissionDenied, "not allowed").With("action", q.Action)
	}
	return d.Until, nil
}

// foreign answers as if there were nothing behind the wall.
func foreign(q *policy.Query) error {
	if q.Type == "" || q.ID == "" {
		return protocol.Errorf(protocol.NotFound, "there is no space %q", q.Space).With("space_id", q.Space)
	}
	return protocol.Errorf(protocol.NotFound, "there is no %s %q", q.Type, q.ID).With(q.Type+"_id", q.ID)
}

// ActFor reports whether the principal may speak for a sender, an agent or a skill:
// for itself, or for one that policy permits. An operator with the sender's name is
// not the sender.
func (a Authorizer) ActFor(_ context.Context, who *protocol.Principal, senderID string) error {
	if a.mayActFor(who, senderID) {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "sender_id is not yours").
		With("param_name", "metadata.sender_id").
		With("reason", "must equal the authenticated identity, or be an agent or skill that it registered")
}

func (a Authorizer) mayActFor(who *protocol.Principal, id string) bool {
	return who.ID == id && who.Kind != protocol.KindOperator || a.judge(&policy.Query{Who: who, Action: policy.ActFor, Type: "sender", ID: id}).Allowed
}

func (a Authorizer) judge(q *policy.Query) policy.Decision {
	if a.policies == nil {
		return policy.Decision{Allowed: q.Who.Unbounded()}
	}
	return a.policies.Decide(q)
}
