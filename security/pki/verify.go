package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// VerifyPeer refuses a TLS peer whose certificate is not valid (any more). It fits
// [tls.Config.VerifyConnection], which is called for resumed sessions too: a ticket
// is no way around a revocation. A peer without a certificate passes, and is
// authenticated otherwise.
func (s *Service) VerifyPeer(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return nil
	}
	leaf := cs.PeerCertificates[0]
	e, err := s.known(leaf)
	if err != nil {
		return err
	}
	if len(cs.VerifiedChains) > 0 {
		return nil
	}
	// The listener left the chain to us. The certificate is known, so one of the
	// authorities signed it; its kind must fit its use.
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots:       s.Pool(),
		CurrentTime: s.opts.Now(),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return protocol.Wrap(protocol.CertificateUnknown, err, "certificate "+string(e.Serial)+" is not for clients")
	}
	return nil
}

// Identify is the principal of a verified client certificate: 2005 if the
// authorities have not issued it, 2006 and 2007 if it has ended. The principal is
// shared and must not be changed.
func (s *Service) Identify(cert *x509.Certificate) (*protocol.Principal, error) {
	e, err := s.known(cert)
	if err != nil {
		return nil, err
	}
	return e.principal, nil
}

// known finds a valid certificate by its very bytes: a foreign one with the same
// serial or name is another.
func (s *Service) known(cert *x509.Certificate) (*entry, error) {
	serial, ok := serialOf(cert.SerialNumber)
	if !ok {
		return nil, unknown()
	}
	e := s.index.find(serial)
	if e == nil || !bytes.Equal(e.DER, cert.Raw) {
		return nil, unknown()
	}
	if err := e.valid(s.opts.Now()); err != nil {
		return nil, err
	}
	return e, nil
}

// Valid fails for a certificate that is not valid: 2005 if it is unknown, 2006 if
// it has expired, 2007 if it was revoked. It reads only memory, so it may be called
// for every message.
func (s *Service) Valid(serial protocol.Serial) error {
	e := s.index.find(serial)
	if e == nil {
		return unknown()
	}
	return e.valid(s.opts.Now())
}

// ByThumbprint is the certificate with a SHA-256 fingerprint, as tokens name
// the one they are bound to, if it is valid.
func (s *Service) ByThumbprint(sha256 [32]byte) (*x509.Certificate, bool) {
	e := s.index.findThumb(sha256)
	if e == nil || e.valid(s.opts.Now()) != nil {
		return nil, false
	}
	return e.leaf(), true
}

// Successor is a valid certificate that was renewed from one, "" if there is
// none: the same holder is still good for the same things.
func (s *Service) Successor(serial protocol.Serial) protocol.Serial {
	now := s.opts.Now()
	for _, e := range s.index.renewedFrom(serial) {
		if e.valid(now) == nil {
			return e.Serial
		}
	}
	return ""
}

// valid is the reason why a certificate is not valid at a time, an untyped nil if
// it is.
func (e *entry) valid(now time.Time) error {
	switch {
	case e.Revoked != nil:
		return protocol.Errorf(protocol.CertificateRevoked, "certificate %s was revoked: %s", e.Serial, e.Revoked.Reason).
			With("serial", string(e.Serial)).With("reason", e.Revoked.Reason)
	case now.After(e.notAfter):
		return protocol.Errorf(protocol.CertificateExpired, "certificate %s has expired", e.Serial).
			With("serial", string(e.Serial)).With("expired_at", e.notAfter.UnixMilli())
	case now.Before(e.notBefore):
		return protocol.Errorf(protocol.CertificateExpired, "certificate %s is not valid yet", e.Serial).
			With("serial", string(e.Serial)).With("valid_from", e.notBefore.UnixMilli())
	}
	return nil
}

func unknown() error {
	return protocol.Errorf(protocol.CertificateUnknown, "none of the bridge's authorities has issued this certificate")
}

// Holder is the principal of the certificate with a serial, or of one that was renewed
// from it if it has expired. Errors are those of [Service.Valid]. The principal is shared
// and must not be changed.
func (s *Service) Holder(serial protocol.Serial) (*protocol.Principal, error) {
	err := s.Valid(serial)
	if protocol.CodeOf(err) == protocol.CertificateExpired {
		if next := s.Successor(serial); next != "" {
			serial, err = next, nil
		}
	}
	e := s.index.find(serial)
	switch {
	case err != nil:
		return nil, err
	case e == nil: // it was forgotten just now
		return nil, unknown()
	}
	return e.principal, nil
}
