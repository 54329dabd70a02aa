package pki

import (
	"bytes"
	"crypto/x509"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Held is a certificate that a party holds, or held.
type Held struct {
	Serial  protocol.Serial
	Expires time.Time
	Expired bool // or not valid yet
	Revoked bool
}

// Held lists the certificates that were issued to a party, in no order.
func (s *Service) Held(party protocol.Party) (held []Held) {
	now := s.opts.Now()
	for _, e := range s.index.heldBy(party) {
		held = append(held, Held{e.Serial, e.notAfter, now.After(e.notAfter) || now.Before(e.notBefore), e.Revoked != nil})
	}
	return held
}

// IssuedTo is the party that a certificate was issued to, whether or not it counts still.
func (s *Service) IssuedTo(serial protocol.Serial) (party protocol.Party, known bool) {
	e := s.index.find(serial)
	if e == nil {
		return party, false
	}
	return e.principal.Party(), true
}

// SerialOf is the serial of a certificate that the authorities have issued, by
// its very bytes.
func (s *Service) SerialOf(cert *x509.Certificate) (serial protocol.Serial, issued bool) {
	serial, ok := serialOf(cert.SerialNumber)
	if !ok {
		return "", false
	}
	e := s.index.find(serial)
	return serial, e != nil && bytes.Equal(e.DER, cert.Raw)
}
