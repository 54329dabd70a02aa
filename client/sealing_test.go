package client

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// issue makes a certificate with a URI, by an authority of its own.
func issue(t *testing.T, key crypto.Signer, uri string) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	root, err = x509.ParseCertificate(rootDER)
	if err != nil {
		t.Fatal(err)
	}
	name, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), URIs: []*url.URL{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestACertificateVouchesForTheKeysOfItsSkillOnly(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, signer := range []crypto.Signer{p256, ed} {
		cert, roots := issue(t, signer, "aibridge:skill/s")
		public, err := k.publish("s", cert)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if err := public.verify("s", roots, now); err != nil {
			t.Errorf("%T: %v", signer, err)
		}
		_, strangers := issue(t, signer, "aibridge:skill/s")
		otherCert, otherRoots := issue(t, signer, "aibridge:agent/s")
		other, err := k.publish("s", otherCert)
		if err != nil {
			t.Fatal(err)
		}
		changed := public
		changed.Key = bytes.Clone(public.Key)
		changed.Key[3] ^= 1
		renamed := public
		renamed.ID = "x"
		bare := public
		bare.Chain = nil
		for name, err := range map[string]error{
			"another skill":      public.verify("t", roots, now),
			"another authority":  public.verify("s", strangers, now),
			"an expired chain":   public.verify("s", roots, now.Add(2*time.Hour)),
			"a name of no skill": other.verify("s", otherRoots, now),
			"another key":        changed.verify("s", roots, now),
			"another id":         renamed.verify("s", roots, now),
			"nobody who vouches": bare.verify("s", roots, now),
		} {
			if err == nil {
				t.Errorf("%T: %s is trusted", signer, name)
			}
		}
	}
}

func TestKeysAreReadBack(t *testing.T) {
	k, err := NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseSealKey(k.Bytes())
	if err != nil || again.ID != k.ID || !bytes.Equal(again.Public(), k.Public()) {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := ParseSealKey([]byte("short")); err == nil {
		t.Error("a short key is taken")
	}
}

func TestLettersAreTakenOnceAndInTime(t *testing.T) {
	start := time.Now()
	taken := newTakenCalls(start)
	for _, c := range []struct {
		id       string
		at, when time.Duration
		want     protocol.Code
	}{
		{"a", 0, time.Second, ""},
		{"a", 0, time.Minute, protocol.IDReused},
		{"b", -time.Second, 0, protocol.RequestExpired}, // an earlier process may have taken it
		{"c", time.Hour, time.Minute, protocol.RequestExpired},
		{"d", 0, sealedLife + time.Second, protocol.RequestExpired},
		{"a", 0, 2 * sealedLife, protocol.RequestExpired},
		{"e", 2 * sealedLife, 2 * sealedLife, ""},
	} {
		if got := protocol.CodeOf(taken.take(c.id, start.Add(c.at), start.Add(c.when))); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if len(taken.ids) != 1 {
		t.Errorf("remembers %d", len(taken.ids))
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	k, err := NewSealKey()
	if err != nil {
		b.Fatal(err)
	}
	l := &sealedCall{skill: "s", capability: "c", id: "i", kid: k.ID, at: 1, reply: k.Public()}
	for b.Loop() {
		s, err := l.seal(k.Public(), toSkill, 0, make([]byte, 500))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.open(k.private, toSkill, s); err != nil {
			b.Fatal(err)
		}
	}
}
