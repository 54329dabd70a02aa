package client

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// SealOptions select the trusted key of a skill. One of them must be given.
type SealOptions struct {
	Key         []byte         // the skill's public key, known beforehand: no other will do
	Roots       *x509.CertPool // authorities, one of which must vouch for the skill that signed the key
	TrustBridge bool           // take the key that the bridge names; protects against all but the bridge
}

// Sealed seals the params of a skill.invoke from here to the skill, and opens its
// answer and its events: no party in between, the bridge included, can read or
// change them. The capability must take sealed params. Such a call cannot be async.
func Sealed(o SealOptions) CallOption { return func(c *callOptions) { c.seal = &o } }

// sealedCall is call for sealed params. A key that is not the skill's any more
// is asked for once more.
func (c *Client) sealedCall(ctx context.Context, command string, params any, o *callOptions) (json.RawMessage, error) {
	if command != "skill.invoke" {
		return nil, protocol.Errorf(protocol.InvalidState, "only skill.invoke can be sealed")
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	var p sealedParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, misfit(err)
	}
	if p.Async {
		return nil, protocol.InvalidParam("async", "a sealed call must be waited for")
	}
	if len(p.Params) == 0 {
		p.Params = json.RawMessage("{}")
	}
	for attempt := 0; ; attempt++ {
		key, err := c.keyOf(ctx, p.SkillID, p.Space, o.seal)
		if err != nil {
			return nil, err
		}
		result, err := c.sealTo(ctx, key, p, *o)
		if !unknownKey(err) || attempt > 0 || o.id != "" {
			return result, err
		}
	}
}

type sealedParams struct {
	SkillID      protocol.SkillID      `json:"skill_id"`
	CapabilityID protocol.CapabilityID `json:"capability_id"`
	Params       json.RawMessage       `json:"params,omitempty"`
	Space        protocol.SpaceID      `json:"space_id,omitempty"`
	Async        bool                  `json:"async,omitempty"`
}

// unknownKey reports whether a skill answered that it does not have the key.
func unknownKey(err error) bool {
	return protocol.CodeOf(err) == protocol.InvalidParameter && protocol.AsError(err).Details["param_name"] == "params.sealed.kid"
}

// keyOf asks for the key to seal to, and checks that it may be trusted.
func (c *Client) keyOf(ctx context.Context, skill protocol.SkillID, space protocol.SpaceID, trust *SealOptions) (*encryptionKey, error) {
	if trust.Key == nil && trust.Roots == nil && !trust.TrustBridge {
		return nil, protocol.Errorf(protocol.InvalidState, "a sealed call needs a key, authorities or the bridge to trust")
	}
	keys, err := c.publishedKeys(ctx, skill, space)
	if err != nil {
		return nil, err
	}
	why := fmt.Errorf("it publishes none")
	for i := range keys {
		if why = trust.check(&keys[i], skill, time.Now()); why == nil {
			return &keys[i], nil
		}
	}
	return nil, protocol.Wrap(protocol.ProofFailed, why, fmt.Sprintf("no key of skill %s can be trusted: %v", skill, why))
}

func (o *SealOptions) check(k *encryptionKey, skill protocol.SkillID, now time.Time) error {
	switch {
	case k.Suite != protocol.SuiteX25519 || len(k.Key) != protocol.SealedKeySize:
		return fmt.Errorf("key %s is of an unknown kind", k.ID)
	case k.Expires != 0 && now.UnixMilli() >= k.Expires:
		return fmt.Errorf("key %s has expired", k.ID)
	case o.Key != nil && !bytes.Equal(o.Key, k.Key):
		return fmt.Errorf("key %s is %s, which is not the one expected", k.ID, fingerprint(k.Key))
	case o.Roots != nil:
		if err := k.verify(skill, o.Roots, now); err != nil {
			return fmt.Errorf("key %s: %w", k.ID, err)
		}
	}
	return nil
}

// maxKeyPages bounds the search for a skill among those of similar names.
const maxKeyPages = 20

func (c *Client) publishedKeys(ctx context.Context, skill protocol.SkillID, space protocol.SpaceID) ([]encryptionKey, error) {
	query := map[string]any{"text": string(skill), "limit": 1000}
	if space != "" {
		query["space_id"] = space
	}
	for range maxKeyPages {
		found, err := Call[struct {
			Skills []struct {
				ID   protocol.SkillID `json:"skill_id"`
				Keys []encryptionKey  `json:"encryption_keys"`
			} `json:"skills"`
			Next string `json:"next_cursor"`
		}](ctx, c, "skill.discover", query, Fresh())
		if err != nil {
			return nil, err
		}
		for _, s := range found.Skills {
			if s.ID == skill {
				return s.Keys, nil
			}
		}
		if found.Next == "" {
			break
		}
		query["cursor"] = found.Next
	}
	return nil, protocol.Errorf(protocol.NotFound, "there is no skill %q", skill)
}

// sealTo makes the call with params sealed to a key.
func (c *Client) sealTo(ctx context.Context, key *encryptionKey, p sealedParams, o callOptions) (json.RawMessage, error) {
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if o.id == "" {
		o.id = protocol.NewID()
	}
	l := &sealedCall{skill: p.SkillID, capability: p.CapabilityID, id: o.id, kid: key.ID, at: time.Now().UnixMilli(), reply: own.PublicKey().Bytes()}
	sealed, err := l.seal(key.Key, toSkill, 0, p.Params)
	if err != nil {
		return nil, protocol.Wrap(protocol.ProofFailed, err, "the skill's key cannot be used")
	}
	l.ciphertext = sealed.Ciphertext
	sealed.KeyID, sealed.ID, sealed.At, sealed.Reply = l.kid, l.id, l.at, l.reply
	p.Params = sealed.Wrap()
	if handle := o.onEvent; handle != nil {
		o.onEvent = func(e *protocol.Event) {
			if opened, ok := l.openEvent(own, e); ok {
				handle(opened)
			}
		}
	}
	request, err := c.request(ctx, "skill.invoke", p, &o)
	if err != nil {
		return nil, err
	}
	result, err := c.run(ctx, request, &o)
	if err != nil {
		return nil, l.openError(own, err)
	}
	return l.openResult(own, result)
}

// openResult puts the opened data in the place of the sealed.
func (l *sealedCall) openResult(own *ecdh.PrivateKey, result json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil {
		return nil, errUnsealed
	}
	sealed, err := protocol.ParseSealed(fields["data"], "data")
	if err != nil {
		return nil, protocol.Wrap(protocol.ProofFailed, err, "the answer is not sealed, so it may be anybody's")
	}
	data, err := l.open(own, fromSkill, sealed)
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, errUnsealed
	}
	fields["data"] = data
	return json.Marshal(fields)
}

// openError returns the error that the skill sealed, or the one there is.
func (l *sealedCall) openError(own *ecdh.PrivateKey, err error) error {
	raw, failed := json.Marshal(map[string]any{"sealed": protocol.AsError(err).Details["sealed"]})
	if failed != nil {
		return err
	}
	sealed, failed := protocol.ParseSealed(raw, "details")
	if failed != nil {
		return err
	}
	text, failed := l.open(own, fromSkill, sealed)
	if failed != nil {
		return failed
	}
	var e protocol.Error
	if json.Unmarshal(text, &e) != nil {
		return errUnsealed
	}
	return &e
}

// openEvent opens the data of an event. Data that does not open is dropped; an
// event without data of the skill's is passed on.
func (l *sealedCall) openEvent(own *ecdh.PrivateKey, e *protocol.Event) (*protocol.Event, bool) {
	if !protocol.IsSealed(e.Data) {
		return e, e.Name != "task.delta"
	}
	sealed, err := protocol.ParseSealed(e.Data, "data")
	if err != nil {
		return nil, false
	}
	data, err := l.open(own, onTheWay, sealed)
	if err != nil || !json.Valid(data) {
		return nil, false
	}
	opened := *e
	opened.Data = data
	return &opened, true
}
