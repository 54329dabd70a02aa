// Package membercert makes the certificates by which the members of a cluster know
// each other. They follow from a secret that all members have and nobody else:
// nothing has to be issued, copied or renewed.
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
// and are worth what the secret is. So clocks need not agree, nor be set.
var (
	validFrom = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TLS are the settings of a member for connections with members that have the same
// secret, for both ends of them. From the secret and the use follows an authority,
// the same for all, which signs the certificate of this process and of no other: it
// leaves this process nowhere. The name, of a host, is in the certificate; who dials
// says in ServerName which one it wants, this one unless it is changed.
func TLS(secret []byte, use, name string) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "aibridge authority of "+use, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "AI Bridge cluster"},
		NotBefore: validFrom, NotAfter: validTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: validFrom, NotAfter: validTo,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	rootDER, err := x509.CreateCertificate(nil, root, root, authority.Public(), authority)
	if err != nil {
		return nil, fmt.Errorf("authority of %s: %w", use, err)
	}
	leafDER, err := x509.CreateCertificate(nil, leaf, root, public, authority)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", use, err)
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AddCert(root)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: private}},
		RootCAs:      known, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName:             name,
		SessionTicketsDisabled: true, // nobody comes back by what was true before
	}, nil
}
