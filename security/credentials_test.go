package security

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security/token"
)

// ledgers are certificates by serial, and why they do not count.
type ledgers struct {
	holders map[protocol.Serial]*protocol.Principal
	ended   map[protocol.Serial]error
	renewed map[protocol.Serial]protocol.Serial
}

func (l *ledgers) Valid(s protocol.Serial) error {
	if l.holders[s] == nil {
		return protocol.Errorf(protocol.CertificateUnknown, "unknown")
	}
	return l.ended[s]
}

func (l *ledgers) Holder(s protocol.Serial) (*protocol.Principal, error) {
	err := l.Valid(s)
	if next := l.renewed[s]; protocol.CodeOf(err) == protocol.CertificateExpired && next != "" {
		return l.Holder(next)
	}
	return l.holders[s], err
}

// A counter is where credentials are checked, with one of each sort.
type counter struct {
	*Credentials
	clock        *clock.Clock
	keys         *recordstest.Memory[Key]
	certificates *ledgers
	revoked      *recordstest.Memory[Revocation]
	sources      Sources

	key, token, cert, proof, both *protocol.Principal
}

func issuer(t testing.TB) token.Issuer {
	return token.Issuer{
		Issuer: "hs", Secret: writeSecret(t), Kind: protocol.KindOperator, RolesClaim: "groups",
		Roles: map[string]string{"admins": protocol.RoleOperator},
	}
}

func newCounter(t testing.TB) *counter {
	c := &counter{clock: clock.New(), keys: recordstest.New[Key](), revoked: recordstest.New[Revocation]()}
	end := c.clock.Now().Add(time.Hour)
	c.put(t, &Key{ID: "k", Principal: "lamp", Kind: protocol.KindAgent, Space: "home", Roles: []string{protocol.RoleEndAgent}, Expires: end})
	c.key = c.held().principal()
	c.token = &protocol.Principal{
		Kind: protocol.KindOperator, ID: "olga", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}, ClaimedRoles: []string{"admins"},
		Attributes: map[string]string{"issuer": "hs"}, Credential: "jti-1", Method: protocol.MethodToken, Issued: c.clock.Now(), Expires: end,
	}
	c.cert = &protocol.Principal{
		Kind: protocol.KindSkill, ID: "fan", Space: "home", Credential: "01", CertSerial: "01", Method: protocol.MethodCertificate, Expires: end,
	}
	proof := *c.cert
	proof.Method, proof.Credential = protocol.MethodToken, "jti-2"
	c.proof = &proof
	holder := *c.key
	holder.Method, holder.CertSerial = protocol.MethodCertificate, "02"
	c.certificates = &ledgers{
		holders: map[protocol.Serial]*protocol.Principal{"01": c.cert, "02": &holder},
		ended:   map[protocol.Serial]error{}, renewed: map[protocol.Serial]protocol.Serial{},
	}
	c.both = proven(c.key, &holder)
	c.sources = Sources{
		Keys: &Keyring{keys: c.keys}, Certificates: c.certificates,
		Revocations: NewTokenService(TokenOptions{Revocations: c.revoked}),
	}
	c.Credentials = NewCredentials(c.clock)
	c.trust(t, issuer(t))
	return c
}

func writeSecret(t testing.TB) string {
	path := t.TempDir() + "/secret"
	mustWrite(t, path, strings.Repeat("s", 40))
	return path
}

// trust has tokens of issuers be accepted.
func (c *counter) trust(t testing.TB, issuers ...token.Issuer) {
	t.Helper()
	v, err := token.New(token.Options{BridgeID: "aibridge", Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	c.sources.Tokens = v
	c.Use(c.sources)
}

func (c *counter) all() map[string]*protocol.Principal {
	return map[string]*protocol.Principal{"key": c.key, "token": c.token, "cert": c.cert, "proof": c.proof, "both": c.both}
}

func TestACredentialIsGoodUntilItEnds(t *testing.T) {
	certs := []string{"both", "cert", "proof"}
	for name, test := range map[string]struct {
		end  func(t *testing.T, c *counter)
		ends []string // whose grants end
	}{
		"nothing":                {func(*testing.T, *counter) {}, nil},
		"a key is revoked":       {func(t *testing.T, c *counter) { c.change(t, func(k *Key) { k.Revoked = c.clock.Now() }) }, []string{"both", "key"}},
		"a key is removed":       {func(_ *testing.T, c *counter) { c.keys.Lose("k") }, []string{"both", "key"}},
		"a key expires":          {func(t *testing.T, c *counter) { c.change(t, func(k *Key) { k.Expires = c.clock.Now() }) }, []string{"both", "key"}},
		"a key is somebody's":    {func(t *testing.T, c *counter) { c.change(t, func(k *Key) { k.Principal = "eve" }) }, []string{"both", "key"}},
		"a token is revoked":     {func(t *testing.T, c *counter) { c.revoke(t, &Revocation{Token: "jti-1"}) }, []string{"token"}},
		"somebody's tokens are":  {func(t *testing.T, c *counter) { c.revoke(t, &Revocation{Principal: "fan", Before: c.clock.Now()}) }, []string{"proof"}},
		"an issuer is gone":      {func(t *testing.T, c *counter) { c.trust(t) }, []string{"token"}},
		"an issuer's kind":       {func(t *testing.T, c *counter) { i := issuer(t); i.Kind = protocol.KindAgent; c.trust(t, i) }, []string{"token"}},
		"an issuer's space":      {func(t *testing.T, c *counter) { i := issuer(t); i.Space = "elsewhere"; c.trust(t, i) }, []string{"token"}},
		"an issuer's prefix":     {func(t *testing.T, c *counter) { i := issuer(t); i.IDPrefix = "hs-"; c.trust(t, i) }, []string{"token"}},
		"an issuer's lifetime":   {func(t *testing.T, c *counter) { i := issuer(t); i.MaxLifetime = time.Minute; c.trust(t, i) }, []string{"token"}},
		"a certificate ends":     {func(_ *testing.T, c *counter) { c.endCertificate("01", protocol.CertificateRevoked) }, []string{"cert", "proof"}},
		"certificates are off":   {func(_ *testing.T, c *counter) { c.sources.Certificates = nil; c.Use(c.sources) }, certs},
		"an hour passes":         {func(_ *testing.T, c *counter) { c.clock.Step(2 * time.Hour) }, []string{"both", "cert", "key", "proof", "token"}},
		"a clock is set back":    {func(_ *testing.T, c *counter) { c.clock.Step(-2 * time.Hour) }, nil},
		"a certificate, renewed": {func(_ *testing.T, c *counter) { c.renew("01", "03") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t)
			for who, p := range c.all() {
				if err := c.Check(p); err != nil {
					t.Fatalf("before: %s: %v", who, err)
				}
			}
			test.end(t, c)
			var ended []string
			for who, p := range c.all() {
				if got, err := c.Principal(grant.Of(p)); err != nil {
					ended = append(ended, who)
				} else if !got.Same(p) {
					t.Errorf("%s has become %s", who, got.ID)
				}
			}
			slices.Sort(ended)
			if name == "an hour passes" { // a certificate's time is its authority's to tell
				test.ends = slices.DeleteFunc(test.ends, func(who string) bool { return who == "cert" })
			}
			if !slices.Equal(ended, test.ends) {
				t.Errorf("ended: %v, want %v", ended, test.ends)
			}
		})
	}
}

// held is the key as it is kept.
func (c *counter) held() *Key {
	k, _, _ := c.keys.Get("k")
	return k
}

func (c *counter) put(t testing.TB, k *Key) {
	t.Helper()
	if _, err := c.keys.Put(t.Context(), "k", k); err != nil {
		t.Fatal(err)
	}
}

func (c *counter) change(t testing.TB, do func(*Key)) {
	t.Helper()
	k := *c.held()
	do(&k)
	c.put(t, &k)
}

func (c *counter) revoke(t testing.TB, r *Revocation) {
	t.Helper()
	if _, err := c.revoked.Put(t.Context(), "r", r); err != nil {
		t.Fatal(err)
	}
	c.sources.Revocations.Note()
}

func (c *counter) unrevoke() {
	c.revoked.Lose("r")
	c.sources.Revocations.Note()
}

func (c *counter) endCertificate(s protocol.Serial, code protocol.Code) {
	c.certificates.ended[s] = protocol.Errorf(code, "ended")
}

func (c *counter) renew(s, next protocol.Serial) {
	c.endCertificate(s, protocol.CertificateExpired)
	fresh := *c.certificates.holders[s]
	fresh.CertSerial, fresh.Credential, fresh.Expires = next, string(next), fresh.Expires.Add(time.Hour)
	c.certificates.holders[next], c.certificates.renewed[s] = &fresh, next
}

// TestAGrantHasTodaysRights has the rights of credentials change that still
// count.
func TestAGrantHasTodaysRights(t *testing.T) {
	c := newCounter(t)
	key, tok := grant.Of(c.key), grant.Of(c.token)
	c.change(t, func(k *Key) { k.Roles, k.Scopes = []string{protocol.RoleObserver}, []string{"skill:*"} })
	i := issuer(t)
	i.Roles, i.ScopesClaim = map[string]string{"admins": protocol.RoleObserver, "others": protocol.RoleAdministrator}, "scope"
	c.trust(t, i)
	for name, test := range map[string]struct {
		grant  grant.Grant
		scopes string
	}{"key": {key, "[skill:*]"}, "token": {tok, "[none:none]"}} {
		who, err := c.Principal(test.grant)
		if err != nil || fmt.Sprint(who.Roles) != "[observer]" || fmt.Sprint(who.Scopes) != test.scopes {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	if err := c.Check(c.key); protocol.CodeOf(err) != protocol.CredentialInvalid || !strings.Contains(err.Error(), "other rights") {
		t.Errorf("who came in with the rights of yesterday: %v", err)
	}
}

func TestNobodyIsLetByWhoseCredentialCannotBeChecked(t *testing.T) {
	c := newCounter(t)
	anonymous := &protocol.Principal{Kind: protocol.KindOperator, ID: "anonymous", Method: protocol.MethodAnonymous}
	for name, who := range map[string]*protocol.Principal{"anonymous": anonymous, "no method": {ID: "x"}, "unknown": {ID: "x", Method: "magic"}} {
		if _, err := c.Principal(grant.Of(who)); c.Check(who) == nil || err == nil {
			t.Errorf("%s is let by", name)
		}
	}
	c.sources.Dev = true
	c.Use(c.sources)
	if err := c.Check(anonymous); err != nil {
		t.Errorf("under --dev: %v", err)
	}
	if err := NewCredentials(c.clock).Check(c.key); err == nil {
		t.Error("before there is anything to check with")
	}
}

// TestAGrantEndsByTheCalendar has the machine sleep for two hours.
func TestAGrantEndsByTheCalendar(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCounter(t)
		ctx, stop := grant.While(t.Context(), c, grant.Of(c.token))
		defer stop()
		begun := time.Now()
		c.clock.Step(2 * time.Hour)
		<-ctx.Done()
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("it went on for %v", took)
		}
		if err := context.Cause(ctx); protocol.CodeOf(err) != protocol.CredentialInvalid || !grant.Expired(err) {
			t.Errorf("ended by %v", err)
		}
	})
}

func TestAGrantEndsOnceAndOnlyIfItIsHeld(t *testing.T) {
	c := newCounter(t)
	ended := make(chan error, 10)
	tell := func(why error) { ended <- why }
	stop, stopped := c.OnEnd(grant.Of(c.key), tell), c.OnEnd(grant.Of(c.key), tell)
	c.OnEnd(grant.Of(c.token), tell)
	if !stopped() || stopped() {
		t.Error("it was stopped twice, or not at all")
	}
	var looking sync.WaitGroup
	c.change(t, func(k *Key) { k.Revoked = c.clock.Now() })
	for range 8 {
		looking.Go(func() { c.Review() })
	}
	looking.Wait()
	if err := <-ended; protocol.CodeOf(err) != protocol.CredentialInvalid {
		t.Errorf("ended by %v", err)
	}
	if stop() {
		t.Error("it was stopped after its end")
	}
	c.OnEnd(grant.Of(c.key), tell)
	<-ended // at once
	if len(ended) > 0 {
		t.Errorf("ended by %v as well", <-ended)
	}
}

// TestWhatWasBegunGoesOnWithANewerCredential renews a token twice on one
// connection, and then not.
func TestWhatWasBegunGoesOnWithANewerCredential(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCounter(t)
		renewed := func(by *protocol.Principal, id string, roles ...string) *protocol.Principal {
			newer := *by
			newer.Credential, newer.Expires = id, by.Expires.Add(time.Hour)
			if roles != nil {
				newer.Roles = roles
			}
			c.Renewed(by, &newer)
			return &newer
		}
		ctx, stop := grant.While(t.Context(), c, grant.Of(c.token))
		defer stop()
		second := renewed(c.token, "jti-b")
		third := renewed(second, "jti-c")
		for passed := range 3 {
			for name, who := range map[string]*protocol.Principal{"first": c.token, "second": second, "third": third} {
				if err := c.Check(who); err != nil {
					t.Errorf("after %d hours: the %s: %v", passed, name, err)
				}
			}
			if ctx.Err() != nil {
				t.Fatalf("after %d hours: %v", passed, context.Cause(ctx))
			}
			time.Sleep(time.Hour - time.Minute)
		}
		c.revoke(t, &Revocation{Token: "jti-1"})
		if err := c.Check(c.token); err == nil || grant.Expired(err) {
			t.Errorf("the first goes on that was revoked: %v", err)
		}
		c.unrevoke()
		renewed(third, "jti-d", protocol.RoleObserver)
		time.Sleep(time.Hour)
		if err := c.Check(c.token); !grant.Expired(err) {
			t.Errorf("the newest gives other rights: %v", err)
		}
		<-ctx.Done()
		stranger := *c.key
		stranger.Expires = stranger.Expires.Add(time.Hour)
		c.Renewed(c.token, &stranger)
		if c.Check(c.token) == nil {
			t.Error("it goes on with somebody else's")
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	c := newCounter(b)
	for name, who := range c.all() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Check(who); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
