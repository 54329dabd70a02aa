package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	serverLife  = 90 * day
	serverRenew = 30 * day // before the end

	// backdate is the time by which a certificate's validity begins in the past, for
	// clocks that are a little slow.
	backdate = time.Minute
)

// A serverCertificate is the bridge's own. Its key lives in this process only:
// a new one at each start will do, for clients trust the root.
type serverCertificate struct {
	service *Service

	mu      sync.RWMutex
	current *tls.Certificate
}

func newServerCertificate(s *Service) *serverCertificate { return &serverCertificate{service: s} }

func (c *serverCertificate) get(now time.Time) (*tls.Certificate, error) {
	c.mu.RLock()
	current := c.current
	c.mu.RUnlock()
	if c.good(current, now) {
		return current, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.good(c.current, now) {
		return c.current, nil
	}
	made, err := c.make(now)
	if err != nil {
		return nil, err
	}
	c.service.opts.Log.Info("made the server certificate", "expires", made.Leaf.NotAfter)
	c.current = made
	return made, nil
}

// good reports whether a certificate need not be made anew: it is of the authority that
// issues now, and another would not last longer than that either.
func (c *serverCertificate) good(current *tls.Certificate, now time.Time) bool {
	by := c.service.cas().server().cert
	return current != nil && bytes.Equal(current.Leaf.AuthorityKeyId, by.SubjectKeyId) &&
		(current.Leaf.NotAfter.Sub(now) > serverRenew || !current.Leaf.NotAfter.Before(by.NotAfter))
}

func (c *serverCertificate) make(now time.Time) (*tls.Certificate, error) {
	ca := c.service.cas().server()
	if ca.signer == nil {
		return nil, ca.sealed()
	}
	key, err := newKey(c.service.opts.KeyType)
	if err != nil {
		return nil, err
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	serial[0] = serial[0]&0x7f | 0x40
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               pkix.Name{CommonName: c.service.opts.BridgeID},
		NotBefore:             now.Add(-backdate),
		NotAfter:              earlier(now.Add(serverLife), ca.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range append([]string{"localhost", "127.0.0.1", "::1"}, c.service.opts.Names...) {
		addr, err := netip.ParseAddr(name)
		switch {
		case err != nil && !slices.Contains(template.DNSNames, name):
			template.DNSNames = append(template.DNSNames, name)
		case err == nil && !addr.IsUnspecified():
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key, Leaf: leaf}, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
