package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Sealing holds the keys with which a skill takes sealed params.
type Sealing struct {
	// Keys open sealed params; the first is the one for callers to use. There are two
	// while one replaces the other: publish the new one before the old one, and drop the
	// old one when no caller can have it any more.
	Keys []*SealKey
	// Certificate of the skill, whose key signs the encryption keys, so that
	// callers need not trust the bridge about them; optional.
	Certificate *tls.Certificate

	taken *takenCalls
}

// Whether a capability takes sealed params.
const (
	SealedOptional = "optional" // and others
	SealedRequired = "required" // only
)

// The longest way of a sealed request, and the lead that the clocks of callers may
// have. For that time its id is remembered.
const (
	sealedLife    = protocol.MaxTimeout + sealedSkew
	sealedSkew    = 5 * time.Minute
	maxTakenCalls = 1 << 16 // remembered at a time
	takenSweep    = time.Minute
)

// takenCalls remembers which requests were taken, so that none is taken
// twice.
type takenCalls struct {
	mu    sync.Mutex
	since time.Time // requests sealed before may have been taken by an earlier process
	ids   map[string]time.Time
	swept time.Time
}

func newTakenCalls(now time.Time) *takenCalls {
	return &takenCalls{since: now, ids: make(map[string]time.Time), swept: now}
}

// take notes a request, or fails if it must not be run.
func (t *takenCalls) take(id string, at, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := now.Sub(at); age > sealedLife || age < -sealedSkew || at.Before(t.since) {
		return protocol.Errorf(protocol.RequestExpired, "the request was sealed too long ago, or in the future")
	}
	if now.Sub(t.swept) > takenSweep {
		t.swept = now
		for id, until := range t.ids {
			if now.After(until) {
				delete(t.ids, id)
			}
		}
	}
	if _, known := t.ids[id]; known {
		return protocol.Errorf(protocol.IDReused, "the sealed request was taken before")
	}
	if len(t.ids) >= maxTakenCalls {
		return protocol.BusyFor(takenSweep, "too many sealed requests in a short time")
	}
	t.ids[id] = at.Add(sealedLife + sealedSkew)
	return nil
}

func (t *takenCalls) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ids, id)
}

// prepareSealing checks that capabilities with sealed params can open them.
func (s *Skill) prepareSealing() error {
	needed := false
	for i := range s.Capabilities {
		switch s.Capabilities[i].Sealed {
		case "":
		case SealedOptional, SealedRequired:
			needed = true
		default:
			return protocol.InvalidParam("skill.capabilities", "sealed is optional or required")
		}
	}
	if s.Sealing == nil {
		if needed {
			return protocol.InvalidParam("skill.sealing", "a capability takes sealed params, and there are no keys to open them")
		}
		return nil
	}
	if n := len(s.Sealing.Keys); n < 1 || n > 2 {
		return protocol.InvalidParam("skill.sealing", "there must be one key, or two")
	}
	own := *s.Sealing
	own.taken = newTakenCalls(time.Now())
	s.Sealing = &own
	return nil
}

// published is the skill's public keys.
func (s *Skill) published() ([]encryptionKey, error) {
	if s.Sealing == nil {
		return nil, nil
	}
	keys := make([]encryptionKey, len(s.Sealing.Keys))
	for i, k := range s.Sealing.Keys {
		var err error
		if keys[i], err = k.publish(s.ID, s.Sealing.Certificate); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// handler wraps a capability's handler: it opens the params and seals the answers.
func (s *Skill) handler(c *Capability) Handler {
	if c.Sealed == "" {
		return c.Handler
	}
	return func(ctx context.Context, in *Invocation) (any, error) {
		if !protocol.IsSealed(in.Params) {
			if c.Sealed == SealedRequired {
				return nil, protocol.InvalidParam("params", "must be sealed")
			}
			return c.Handler(ctx, in)
		}
		l, params, err := s.Sealing.receive(in)
		if err != nil {
			return nil, err
		}
		result, err := c.Handler(ctx, l.opened(in, params))
		if err != nil {
			return nil, s.Sealing.failure(l, err)
		}
		if result == nil {
			result = struct{}{}
		}
		data, err := encode(result)
		if err != nil {
			return nil, err
		}
		sealed, err := l.seal(l.reply, fromSkill, 0, data)
		if err != nil {
			return nil, err
		}
		return sealed.Wrap(), nil
	}
}

// receive opens the params of an invocation, once.
func (g *Sealing) receive(in *Invocation) (*sealedCall, json.RawMessage, error) {
	sealed, err := protocol.ParseSealed(in.Params, "params")
	if err == nil {
		err = sealed.CheckRequest("params")
	}
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	for _, k := range g.Keys {
		if k.ID != sealed.KeyID || !k.Expires.IsZero() && !now.Before(k.Expires) {
			continue
		}
		l := &sealedCall{skill: in.SkillID, capability: in.CapabilityID, id: sealed.ID, kid: sealed.KeyID,
			at: sealed.At, reply: sealed.Reply, ciphertext: sealed.Ciphertext}
		params, err := l.open(k.private, toSkill, sealed)
		if err != nil {
			return nil, nil, err
		}
		if !json.Valid(params) {
			return nil, nil, errUnsealed
		}
		return l, params, g.taken.take(sealed.KeyID+"/"+sealed.ID, time.UnixMilli(sealed.At), now)
	}
	return nil, nil, protocol.InvalidParam("params.sealed.kid", "is not one of the skill's keys")
}

// opened is the invocation as the handler sees it. Of its progress only the
// percentage is in the open.
func (l *sealedCall) opened(in *Invocation, params json.RawMessage) *Invocation {
	plain, seq := *in, new(atomic.Uint64)
	plain.Params = params
	plain.emit = func(name string, data any) {
		raw, err := encode(data)
		if err != nil {
			return
		}
		if sealed, err := l.seal(l.reply, onTheWay, seq.Add(1), raw); err == nil {
			in.emit(name, sealed.Wrap())
		}
	}
	return &plain
}

// failure is a handler's error with nothing in the open but its code.
func (g *Sealing) failure(l *sealedCall, err error) error {
	var rejected *rejection
	if errors.As(err, &rejected) {
		g.taken.forget(l.kid + "/" + l.id)
		return Rejected("sealed")
	}
	full := protocol.AsError(err)
	if full.Code.Retry() != protocol.RetryNever { // the bridge may ask again
		g.taken.forget(l.kid + "/" + l.id)
	}
	sealed, failed := l.seal(l.reply, fromSkill, 0, full.Append(nil))
	if failed != nil {
		return failed
	}
	shown := protocol.Wrap(full.Code, err, full.Code.String()).With("sealed", sealed)
	if wait := full.RetryAfter(); wait > 0 {
		shown = shown.With("retry_after_ms", wait.Milliseconds())
	}
	return shown
}
