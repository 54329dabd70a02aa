package natsd

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

// routeName is the name of every server of a cluster in its certificate: who has
// the key of the cluster may be any of them.
const routeName = "member.cluster.aibridge"

// The certificates of routes have no time of their own to end: they are made at
// each start and are worth what the key is. So clocks need not agree either.
var (
	routesFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	routesTo   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// routeTLS are the settings for routes between servers that have the same key.
// From it follows an authority, the same for all, which signs the certificate of
// this server and of no other: it leaves this process nowhere.
func routeTLS(key []byte) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, "aibridge authority of routes", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "AI Bridge cluster"},
		NotBefore: routesFrom, NotAfter: routesTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: routeName}, DNSNames: []string{routeName},
		NotBefore: routesFrom, NotAfter: routesTo,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	rootDER, err := x509.CreateCertificate(nil, root, root, authority.Public(), authority)
	if err != nil {
		return nil, fmt.Errorf("authority of routes: %w", err)
	}
	leafDER, err := x509.CreateCertificate(nil, leaf, root, public, authority)
	if err != nil {
		return nil, fmt.Errorf("certificate of routes: %w", err)
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
		ServerName: routeName,
	}, nil
}
