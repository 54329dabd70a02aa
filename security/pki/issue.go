package pki

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// serialAttempts bounds how often a serial is made up anew because it was
// taken; once would do for a very long time.
const serialAttempts = 8

// An order holds everything needed to issue a certificate.
type order struct {
	authority Authority
	scope     *Scope
	public    any           // the holder's key
	validity  time.Duration // from now
	by        string        // id of the principal
	renews    protocol.Serial
	// claim returns the entitlement as it is after the issue; nil without one.
	claim func(protocol.Serial) Entitlement
}

// issue signs and stores a certificate. No two authorities ever issue the same
// serial: the table takes it once.
func (s *Service) issue(ctx context.Context, o order) (*entry, error) {
	from := s.cas().granting(o.authority)
	if from.signer == nil {
		return nil, from.sealed()
	}
	for range serialAttempts {
		c := &Certificate{
			Serial: newSerial(), Authority: o.authority, IssuedAt: s.opts.Now().UTC(), IssuedBy: o.by, Renews: o.renews,
		}
		var err error
		if c.DER, err = s.sign(from, c, o); err != nil {
			return nil, fmt.Errorf("sign a certificate: %w", err)
		}
		var claimed Entitlement
		if o.claim != nil {
			claimed = o.claim(c.Serial)
			if claimed.Request != nil {
				c.Request = claimed.Request.ID
			}
		}
		err = s.opts.Issue(ctx, c, claimed)
		if protocol.CodeOf(err) == protocol.AlreadyExists {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := s.index.find(c.Serial)
		if e == nil {
			return nil, fmt.Errorf("certificate %s was stored and is not known", c.Serial)
		}
		s.opts.Log.Info("issued a certificate", "serial", e.Serial, "authority", e.Authority, "principal", e.scope.ID, "expires", e.notAfter)
		s.opts.Publish("cert.issued", e.event())
		return e, nil
	}
	return nil, protocol.Errorf(protocol.Busy, "no serial is free").With("retry_after_ms", 1000)
}

// sign makes the certificate.
func (s *Service) sign(from *issuer, c *Certificate, o order) ([]byte, error) {
	extension, err := o.scope.extension()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          number(c.Serial),
		Subject:               pkix.Name{CommonName: o.scope.ID},
		URIs:                  o.scope.uris(),
		NotBefore:             c.IssuedAt.Add(-backdate),
		NotAfter:              earlier(c.IssuedAt.Add(o.validity), from.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{extension},
	}
	if base := strings.TrimSuffix(s.opts.PublicURL, "/"); base != "" {
		template.CRLDistributionPoints = []string{base + "/pki/" + listName(c.Authority, from.set) + ".crl"}
	}
	return x509.CreateCertificate(rand.Reader, template, from.cert, o.public, from.signer)
}

// chain is a certificate with the authorities above it, in PEM, its own first
// and the root's last.
func (s *Service) chain(e *entry) []string {
	return []string{
		string(encodePEM(e.DER)),
		string(encodePEM(e.from.cert.Raw)),
		string(encodePEM(s.cas().root.cert.Raw)),
	}
}
