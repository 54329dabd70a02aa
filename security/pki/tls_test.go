package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func dialer() *net.Dialer { return &net.Dialer{Timeout: time.Minute} }

func TestAPeerIsWhoItsCertificateSays(t *testing.T) {
	w := newWorld(t)
	l := w.listen()
	h := w.hold()
	if who, err := w.dial(l, &h.tls); err != nil || who != "lighting" {
		t.Errorf("recognised %q, %v", who, err)
	}
	alone := tls.Certificate{Certificate: h.tls.Certificate[:1], PrivateKey: h.key}
	if who, err := w.dial(l, &alone); err != nil || who != "lighting" {
		t.Errorf("without its chain: recognised %q, %v", who, err)
	}
	if who, err := w.dial(l, nil); err != nil || who != "nobody" {
		t.Errorf("without a certificate: %q, %v", who, err)
	}
	principal, err := w.Identify(h.cert)
	if err != nil {
		t.Fatal(err)
	}
	if principal.Kind != protocol.KindAgent || principal.CertSerial != h.serial || !principal.HasRole(protocol.RoleRouteAgent) ||
		!principal.Expires.Equal(h.cert.NotAfter) || principal.Method != protocol.MethodCertificate || principal.Space != protocol.DefaultSpace {
		t.Errorf("identified %+v", principal)
	}
}

// forge makes a certificate as a stranger would: with our names, serial and
// scope, but other things wrong.
func forge(t *testing.T, w *world, change func(template *x509.Certificate), parent *x509.Certificate, signer crypto.Signer) *tls.Certificate {
	t.Helper()
	key := ecdsaKey(t)
	scope := &Scope{Version: scopeVersion, Kind: protocol.KindAgent, ID: "lighting", Space: protocol.DefaultSpace, Skill: "lighting",
		Roles: []string{RoleAgentRoute}, Scenes: []protocol.SceneType{"SMART_HOME"}}
	extension, err := scope.extension()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: number(newSerial()), Subject: pkix.Name{CommonName: scope.ID}, URIs: scope.uris(),
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, ExtraExtensions: []pkix.Extension{extension},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, parent.Raw}, PrivateKey: key}
}

// store puts a certificate into the table past the authorities.
func (w *world) store(c *tls.Certificate) *tls.Certificate {
	w.t.Helper()
	cert, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	serial, _ := serialOf(cert.SerialNumber)
	record := &Certificate{Serial: serial, Authority: Operator, DER: cert.Raw, IssuedAt: time.Now()}
	if _, err := w.state.certificates.Create(w.t.Context(), string(serial), record); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestPeersAreRefusedOverRealConnections(t *testing.T) {
	w := newWorld(t)
	ours := w.cas().granting(Operator)
	keep := func(*x509.Certificate) {}
	h := w.hold()

	stranger := newWorld(t)
	theirs := stranger.cas().granting(Operator)
	copied := *theirs.cert
	copied.Raw, copied.RawSubject, copied.SubjectKeyId = nil, ours.cert.RawSubject, ours.cert.SubjectKeyId

	revoked := w.hold()
	must[RevokeResult](w, root, "cert.revoke", object{"serial": revoked.serial, "reason": "lost"})

	for name, cert := range map[string]*tls.Certificate{
		"a stranger's authority":          forge(t, w, keep, theirs.cert, theirs.signer),
		"a stranger's with our serial":    forge(t, w, func(c *x509.Certificate) { c.SerialNumber = h.cert.SerialNumber }, theirs.cert, theirs.signer),
		"a stranger's with our name":      forge(t, w, keep, func() *x509.Certificate { c := copied; return &c }(), theirs.signer),
		"signed by itself":                selfSigned(t),
		"our authority, unknown serial":   forge(t, w, keep, ours.cert, ours.signer),
		"our authority, a serial in use":  forge(t, w, func(c *x509.Certificate) { c.SerialNumber = h.cert.SerialNumber }, ours.cert, ours.signer),
		"our authority, serial too short": forge(t, w, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(42) }, ours.cert, ours.signer),
		"stored, for servers": w.store(forge(t, w, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, ours.cert, ours.signer)),
		"stored, without scope": w.store(forge(t, w, func(c *x509.Certificate) { c.ExtraExtensions = nil }, ours.cert, ours.signer)),
		"stored, with a broken scope": w.store(forge(t, w, func(c *x509.Certificate) {
			c.ExtraExtensions[0].Value = c.ExtraExtensions[0].Value[:len(c.ExtraExtensions[0].Value)-1]
		}, ours.cert, ours.signer)),
		"stored, in another's name": w.store(forge(t, w, func(c *x509.Certificate) { c.Subject.CommonName = "somebody" }, ours.cert, ours.signer)),
		"stored, expired":           w.store(forge(t, w, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }, ours.cert, ours.signer)),
		"stored, not yet valid":     w.store(forge(t, w, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, ours.cert, ours.signer)),
		"stored, but a stranger's": w.store(forge(t, w, func(c *x509.Certificate) {
			c.AuthorityKeyId = ours.cert.SubjectKeyId
		}, func() *x509.Certificate { c := copied; return &c }(), theirs.signer)),
		"revoked":                       &revoked.tls,
		"the bridge's own":              serverCert(t, w),
		"ours with somebody else's key": {Certificate: h.tls.Certificate, PrivateKey: ecdsaKey(t)},
	} {
		for how, change := range map[string]func(*tls.Config){
			"verified by TLS": func(*tls.Config) {},
			"left to us":      func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequestClientCert, nil },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				if who, err := w.dial(w.listen(change), cert); err == nil {
					t.Errorf("let in as %q", who)
				}
			})
		}
	}
	if who, err := w.dial(w.listen(), &h.tls); err != nil || who != "lighting" {
		t.Errorf("the honest one: %q, %v", who, err)
	}
}

func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key := ecdsaKey(t)
	template := &x509.Certificate{SerialNumber: number(newSerial()), Subject: pkix.Name{CommonName: "lighting"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serverCert(t *testing.T, w *world) *tls.Certificate {
	t.Helper()
	c, err := w.ServerCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAResumedSessionIsNoWayAroundARevocation resumes a TLS session with the
// ticket of one that was fine.
func TestAResumedSessionIsNoWayAroundARevocation(t *testing.T) {
	for name, version := range map[string]uint16{"TLS 1.3": tls.VersionTLS13, "TLS 1.2": tls.VersionTLS12} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var resumed atomic.Int32
			l := w.listen(func(c *tls.Config) {
				c.VerifyConnection = func(cs tls.ConnectionState) error {
					if cs.DidResume {
						resumed.Add(1)
					}
					return w.VerifyPeer(cs)
				}
			})
			h := w.hold()
			cache := tls.NewLRUClientSessionCache(4)
			dial := func() error {
				_, err := w.dial(l, &h.tls, func(c *tls.Config) { c.ClientSessionCache, c.MaxVersion = cache, version })
				return err
			}
			for range 2 {
				if err := dial(); err != nil {
					t.Fatal(err)
				}
			}
			if resumed.Load() != 1 {
				t.Fatalf("%d sessions were resumed", resumed.Load())
			}
			must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": "lost"})
			if err := dial(); err == nil {
				t.Error("the revoked certificate came back with a ticket")
			}
			if resumed.Load() != 2 {
				t.Error("the session was not resumed, so nothing was tested")
			}
		})
	}
}

func TestTheServerCertificateIsGoodForItsNamesAndMadeAnewInTime(t *testing.T) {
	var ahead atomic.Int64
	w := newWorld(t, func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		o.Names = []string{"bridge.example", "192.0.2.7", "0.0.0.0"}
	})
	first := serverCert(t, w)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "bridge.example", "192.0.2.7"} {
		if err := first.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if err := first.Leaf.VerifyHostname("0.0.0.0"); err == nil {
		t.Error("it is good for 0.0.0.0")
	}
	if serverCert(t, w) != first {
		t.Error("another one at once")
	}
	ahead.Store(int64(time.Until(first.Leaf.NotAfter.Add(-serverRenew))))
	second := serverCert(t, w)
	if second == first || !second.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("it was not made anew")
	}
}
