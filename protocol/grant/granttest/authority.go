// Package granttest has an authority for tests of what outlives calls.
package granttest

import (
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// An Authority knows whose grants it has ended, and when others expire. The
// zero value has ended none.
type Authority struct {
	mu    sync.Mutex
	ended map[string]error // by id of the principal
	holds map[*hold]struct{}
}

type hold struct {
	id  string
	end func(error)
}

var _ grant.Authority = (*Authority)(nil)

// End ends the grants of a principal, or gives them back if why is nil.
func (a *Authority) End(id string, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended == nil {
		a.ended = make(map[string]error)
	}
	a.ended[id] = why
	for h := range a.holds {
		if h.id == id && why != nil {
			delete(a.holds, h)
			go h.end(why)
		}
	}
}

// Check is [Authority.Principal] for a principal.
func (a *Authority) Check(who *protocol.Principal) error {
	_, err := a.Principal(grant.Of(who))
	return err
}

// Principal implements [grant.Authority].
func (a *Authority) Principal(g grant.Grant) (*protocol.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ended[g.ID]; err != nil {
		return nil, err
	}
	if !g.Expires.IsZero() && !time.Now().Before(g.Expires) {
		return nil, expired()
	}
	return grant.Original(g), nil
}

func expired() error {
	return protocol.Errorf(protocol.CredentialInvalid, "the credential has expired").With("reason", grant.ReasonExpired)
}

// OnEnd implements [grant.Authority].
func (a *Authority) OnEnd(g grant.Grant, f func(why error)) (stop func() bool) {
	if _, err := a.Principal(g); err != nil {
		go f(err)
		return func() bool { return false }
	}
	h := &hold{g.ID, f}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds == nil {
		a.holds = make(map[*hold]struct{})
	}
	a.holds[h] = struct{}{}
	if !g.Expires.IsZero() {
		time.AfterFunc(time.Until(g.Expires), func() {
			if a.drop(h) {
				f(expired())
			}
		})
	}
	return func() bool { return a.drop(h) }
}

func (a *Authority) drop(h *hold) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, there := a.holds[h]
	delete(a.holds, h)
	return there
}
