package security

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// CertificateStates tells valid certificates from others.
type CertificateStates interface {
	// Valid fails if the certificate with a serial is not valid: 2005, 2006 or
	// 2007.
	Valid(serial protocol.Serial) error
	// Holder is the principal of the certificate with a serial, or of one that was
	// renewed from it if it has expired.
	Holder(serial protocol.Serial) (*protocol.Principal, error)
}

// IssuedTokens yields the present rights of tokens that were verified before.
type IssuedTokens interface {
	// Today returns the principal of a token, with the rights that its issuer
	// may give it now.
	Today(was *protocol.Principal) (*protocol.Principal, error)
}

// Sources hold the records that credentials are checked against. Keys are
// needed; without one of the others its credentials are refused.
type Sources struct {
	Keys         *Keyring
	Tokens       IssuedTokens
	Revocations  *TokenService
	Certificates CertificateStates
	Passwords    Passwords
	Dev          bool // clients without a credential may stay
}

// Credentials answers one question for the whole bridge: is a client's
// credential still good, and for which rights? The router asks it about every
// call and every part of a call, doors about connections, and work that outlives
// calls about its grant: it is the bridge's [grant.Authority]. It looks into
// memory only.
type Credentials struct {
	sources atomic.Pointer[Sources] // nil: no credential is valid yet
	clock   *clock.Clock

	renewals renewals

	mu    sync.Mutex
	holds map[*hold]struct{}
}

var _ grant.Authority = (*Credentials)(nil)

// NewCredentials returns credentials of which none is good before
// [Credentials.Use].
func NewCredentials(c *clock.Clock) *Credentials {
	return &Credentials{clock: c, holds: make(map[*hold]struct{})}
}

// Use has credentials checked against sources from now on.
func (c *Credentials) Use(s Sources) { c.sources.Store(&s) }

// Check fails if a principal may not go on with the credential that it showed: 2002
// if its key or token has expired, was revoked, or gives other rights by now; 2005,
// 2006 or 2007 if its certificate is not valid. It is called for every call.
func (c *Credentials) Check(who *protocol.Principal) error {
	s := c.sources.Load()
	if s == nil {
		return ended("starting", "credentials cannot be checked yet")
	}
	if err := s.certificate(who.CertSerial); err != nil {
		return err
	}
	if who.Method == protocol.MethodCertificate && who.CertSerial != "" {
		return nil
	}
	if err := s.standing(who); err != nil {
		return err
	}
	if who.Expires.IsZero() { // most calls need not ask for the time
		return nil
	}
	if now := c.clock.Now(); !now.Before(who.Expires) {
		if newer := c.renewals.of(who, now); newer != nil {
			return c.Check(newer)
		}
		return ended(grant.ReasonExpired, "the credential has expired")
	}
	return nil
}

// standing fails if a credential is not valid, apart from its expiry.
func (s *Sources) standing(who *protocol.Principal) error {
	switch who.Method {
	case protocol.MethodAPIKey:
		key, err := s.key(who.Credential)
		if err == nil && !key.gives(who) {
			err = ended("changed", "the API key gives other rights by now; show it again")
		}
		return err
	case protocol.MethodToken:
		if s.Revocations == nil || s.Revocations.Revoked(who) {
			return ended("revoked", "the token was revoked")
		}
		return nil
	case protocol.MethodPassword:
		if s.Passwords == nil || !s.Passwords.Stands(who) {
			return ended("revoked", "the password was changed, or the user removed")
		}
		return nil
	case protocol.MethodAnonymous:
		return s.anonymous()
	case protocol.MethodBridge:
		return nil
	}
	return ended("unknown", "the credential cannot be checked")
}

// Principal implements [grant.Authority].
func (c *Credentials) Principal(g grant.Grant) (*protocol.Principal, error) {
	who, err := c.today(grant.Original(g))
	if err != nil {
		return nil, err
	}
	if !g.By(who) {
		return nil, ended("changed", "the credential is somebody else's by now")
	}
	if now := c.clock.Now(); !who.Expires.IsZero() && !now.Before(who.Expires) {
		if newer := c.renewals.of(who, now); newer != nil {
			who = newer
		}
	}
	return who, c.Check(who)
}

// Renewed notes that a party has shown a newer credential on the connection that
// it opened with another: work begun with the older one goes on after its expiry,
// as long as the newer one gives the same rights.
func (c *Credentials) Renewed(before, now *protocol.Principal) {
	c.renewals.note(before, now, c.clock.Now())
}

// Rights is [Credentials.Principal] for an act that was asked for while the credential
// was good and happens later, such as a Will: the credential may have expired since.
func (c *Credentials) Rights(g grant.Grant) (*protocol.Principal, error) {
	who, err := c.Principal(g)
	if grant.Expired(err) {
		return c.today(grant.Original(g))
	}
	return who, err
}

// Stands fails if a certificate that something was allowed for is no longer valid.
// An expired one counts as long as its renewal is valid.
func (c *Credentials) Stands(serial protocol.Serial) error {
	s := c.sources.Load()
	if s == nil || s.Certificates == nil {
		return nil // it is looked at again when they are there
	}
	_, err := s.Certificates.Holder(serial)
	return err
}

// today is the principal of a credential with its present roles and scopes. Whether
// the credential is still valid is for the caller to check.
func (c *Credentials) today(was *protocol.Principal) (*protocol.Principal, error) {
	s := c.sources.Load()
	if s == nil || was.CertSerial == "" && was.Method != protocol.MethodAPIKey && was.Method != protocol.MethodToken {
		return was, nil
	}
	var holder *protocol.Principal
	if was.CertSerial != "" {
		if s.Certificates == nil {
			return nil, ended("unknown", "certificates are not accepted")
		}
		var err error
		if holder, err = s.Certificates.Holder(was.CertSerial); err != nil {
			return nil, err
		}
	}
	var who *protocol.Principal
	switch {
	case was.Method == protocol.MethodAPIKey:
		key, err := s.key(was.Credential)
		if err != nil {
			return nil, err
		}
		who = key.principal()
	case was.Method != protocol.MethodToken:
		return holder, nil
	case was.Attributes["issuer"] == "" && holder != nil: // a proof, signed with the certificate's key
		proof := *holder
		proof.Method, proof.Credential, proof.Issued, proof.Expires = was.Method, was.Credential, was.Issued, was.Expires
		return &proof, nil
	case s.Tokens == nil:
		return nil, ended("unknown", "tokens are not accepted")
	default:
		var err error
		if who, err = s.Tokens.Today(was); err != nil {
			return nil, err
		}
	}
	if holder != nil {
		who = proven(who, holder)
	}
	return who, nil
}

func (s *Sources) certificate(serial protocol.Serial) error {
	switch {
	case serial == "":
		return nil
	case s.Certificates == nil:
		return ended("unknown", "certificates are not accepted")
	}
	return s.Certificates.Valid(serial)
}

func (s *Sources) anonymous() error {
	if !s.Dev {
		return ended("unknown", "a credential is needed")
	}
	return nil
}

// key is the key with an id, unless it was revoked.
func (s *Sources) key(id string) (*Key, error) {
	key, _, ok := s.Keys.keys.Get(id)
	if !ok || !key.Revoked.IsZero() {
		return nil, ended("revoked", "the API key was revoked")
	}
	return key, nil
}

// gives reports whether the key still gives a principal its identity and roles.
func (k *Key) gives(who *protocol.Principal) bool {
	return (k.Expires.IsZero() || !who.Expires.IsZero() && !k.Expires.Before(who.Expires)) &&
		k.Principal == who.ID && k.Kind == who.Kind && k.Space == who.Space &&
		slices.Equal(k.Roles, who.Roles) && slices.Equal(k.Scopes, who.Scopes)
}

// ended is the error for calls that rely on a credential that has ended.
func ended(reason, text string) error {
	return protocol.Errorf(protocol.CredentialInvalid, "%s", text).With("reason", reason)
}

// A hold waits for the end of a grant.
type hold struct {
	grant grant.Grant
	end   func(error)
	stop  func() // of the wait for its expiry; guarded by the credentials
}

// OnEnd implements [grant.Authority].
func (c *Credentials) OnEnd(g grant.Grant, f func(why error)) (stop func() bool) {
	h := &hold{grant: g, end: f}
	c.mu.Lock()
	c.holds[h] = struct{}{}
	c.mu.Unlock()
	c.look(h) // when a walk over all of them finds it
	return func() bool { return c.forget(h) }
}

// look ends a hold whose grant has ended, and has it looked at again when its
// credential expires. It reports whether it ended it.
func (c *Credentials) look(h *hold) bool {
	who, err := c.Principal(h.grant)
	if err != nil {
		ended := c.forget(h)
		if ended {
			go h.end(err)
		}
		return ended
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.holds[h]; there && h.stop == nil && !who.Expires.IsZero() {
		at := who.Expires.Add(time.Millisecond) // a certificate is still valid at its last moment
		h.stop = c.clock.At(at, func() {
			c.mu.Lock()
			h.stop = nil
			c.mu.Unlock()
			c.look(h)
		})
	}
	return false
}

// forget takes a hold away and reports whether it was there.
func (c *Credentials) forget(h *hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.holds[h]
	delete(c.holds, h)
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
	return there
}

// Review ends the grants whose credentials have ended. It is called when any
// credential may have been taken back. It returns how many it ended.
func (c *Credentials) Review() (n int) {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.holds))
	c.mu.Unlock()
	for _, h := range all {
		if c.look(h) {
			n++
		}
	}
	return n
}
