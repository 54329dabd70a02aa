package servertls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"

	"golang.org/x/crypto/acme"
)

// An Authority issues the certificates of clients, and one for the bridge.
type Authority interface {
	// Pool has the roots that client certificates must chain to.
	Pool() *x509.CertPool
	// ServerCertificate is the bridge's own.
	ServerCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// VerifyPeer refuses client certificates that are not good any more.
	VerifyPeer(tls.ConnectionState) error
}

// A Server is the bridge as its clients see it over TLS.
type Server struct {
	authority   Authority
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	acme        *certificates // nil if there are none
}

// New returns a server with the certificate in the files of the settings, those
// that an ACME server issues, which are kept in a folder of the data folder, or
// the authority's if there are none. The error names the setting.
func New(c Settings, authority Authority, data string) (*Server, error) {
	s := &Server{authority: authority, certificate: authority.ServerCertificate}
	if c.Cert != "" {
		pair := &files{cert: c.Cert, key: c.Key}
		if _, err := pair.get(nil); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		s.certificate = pair.get
	}
	if len(c.ACME.Domains) == 0 {
		return s, nil
	}
	var err error
	if s.acme, err = newCertificates(c.ACME, data); err != nil {
		return nil, err
	}
	s.certificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if cert, err := s.acme.get(hello); cert != nil || err != nil {
			return cert, err
		}
		return authority.ServerCertificate(hello)
	}
	return s, nil
}

// Config returns the configuration for a listener that offers application
// protocols: TLS 1.2 or newer, and client certificates are asked for and, if
// they are shown, must be good.
func (s *Server) Config(protocols ...string) *tls.Config {
	if s.acme != nil {
		protocols = append(slices.Clone(protocols), acme.ALPNProto)
	}
	config := &tls.Config{
		MinVersion:       tls.VersionTLS12,
		NextProtos:       protocols,
		GetCertificate:   s.certificate,
		ClientAuth:       tls.VerifyClientCertIfGiven,
		ClientCAs:        s.authority.Pool(),
		VerifyConnection: s.authority.VerifyPeer,
	}
	// Authorities may come and go while the bridge runs.
	current := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if pool := s.authority.Pool(); !pool.Equal(config.ClientCAs) {
			changed := current.Clone()
			changed.ClientCAs = pool
			return changed, nil
		}
		return nil, nil
	}
	return config
}
