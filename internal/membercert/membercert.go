// Package membercert makes the certificates by which the members of a cluster know
// each other. They are derived from a secret that only the members have: nothing
// has to be issued, copied or renewed.
package membercert

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// The certificates have no time of their own to end: they are made at each start
// and are as good as the secret. So clocks need not agree, nor be set.
var (
	validFrom = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TLS are the settings of a member for connections with members that have the same
// secret, for both ends of them. An authority, the same for all members, is derived
// from the secret and the use, and signs the certificate of this process. Its key
// never leaves the process. The certificate has the name, of a host; a dialling
// member says in ServerName which name it expects, this one unless it is changed.
//
// Certificates derived from the secrets in also are accepted too, while a secret is
// replaced, but never shown.
func TLS(secret []byte, use, name string, also ...[]byte) (*tls.Config, error) {
	authority, root, err := authorityOf(secret, use)
	if err != nil {
		return nil, err
	}
	certificate, err := issue(authority, root, use, name)
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AddCert(root)
	for _, secret := range also {
		if _, root, err = authorityOf(secret, use); err != nil {
			return nil, err
		}
		known.AddCert(root)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		RootCAs:      known, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName:             name,
		SessionTicketsDisabled: true, // so every connection is checked anew
	}, nil
}

// authorityOf is the authority that follows from a secret and a use.
func authorityOf(secret []byte, use string) (authority ed25519.PrivateKey, root *x509.Certificate, err error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "aibridge authority of "+use, ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	authority = ed25519.NewKeyFromSeed(seed)
	root = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "AI Bridge cluster"},
		NotBefore: validFrom, NotAfter: validTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, root, root, authority.Public(), authority)
	if err != nil {
		return nil, nil, fmt.Errorf("authority of %s: %w", use, err)
	}
	root, err = x509.ParseCertificate(der)
	return authority, root, err
}

// issue makes the certificate of this process.
func issue(authority ed25519.PrivateKey, root *x509.Certificate, use, name string) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: validFrom, NotAfter: validTo,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, leaf, root, public, authority)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of %s: %w", use, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}
