package servertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/errgroup"
)

// ACMESettings have a certificate made, and renewed, by an authority that web
// browsers trust (RFC 8555).
type ACMESettings struct {
	Domains     []string `yaml:"domains" doc:"host names to get certificates for by ACME; none by default"`
	AcceptTerms bool     `yaml:"accept_terms" doc:"agree to the terms of service of the ACME server"`
	Email       string   `yaml:"email" doc:"mailbox for problems that the ACME server finds; optional"`
	Directory   string   `yaml:"directory" doc:"address of the ACME server's directory; Let's Encrypt by default"`
	CA          string   `yaml:"ca" doc:"PEM file with the roots that a private ACME server's own certificate must chain to"`
}

// check reports faults of the settings.
func (c *ACMESettings) check() error {
	if len(c.Domains) == 0 {
		return nil
	}
	for _, name := range c.Domains {
		if net.ParseIP(name) != nil || strings.ContainsAny(name, "*/: ") || !strings.Contains(strings.Trim(name, "."), ".") {
			return fmt.Errorf("tls.acme.domains: %q is not a host name such as bridge.example.org", name)
		}
	}
	if !c.AcceptTerms {
		return errors.New("tls.acme.accept_terms: an ACME server issues certificates to those only who agree to its terms; set it to true if you do")
	}
	if u, err := url.Parse(c.Directory); c.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("tls.acme.directory: %q is not an https address", c.Directory)
	}
	return nil
}

// acmeFolder is the folder of the account and the certificates, in the data folder.
const acmeFolder = "acme"

// acmeAgain is the time that a name without a certificate waits to be tried again,
// doubled each time. The library asks no sooner than after a minute.
const (
	acmeAgain     = 90 * time.Second
	acmeAgainMost = time.Hour
)

// certificates are those that an ACME server issues.
type certificates struct {
	manager   *autocert.Manager
	names     []*acmeName
	transport *http.Transport
	stop      func() // ends the requests to the server
}

// until ends requests with a context, beside their own: the manager has no way to
// be stopped.
type until struct {
	context.Context
	next http.RoundTripper
}

// RoundTrip sends a request.
func (u until) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := u.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	release := context.AfterFunc(u.Context, cancel)
	response, err := u.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		release()
		cancel()
		return nil, err
	}
	response.Body = &endingBody{response.Body, func() { release(); cancel() }}
	return response, nil
}

// An endingBody ends a context when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// An acmeName is a host name and whether there is a certificate for it.
type acmeName struct {
	name string
	has  atomic.Bool
}

func newCertificates(c ACMESettings, folder string) (*certificates, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.acme.ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("tls.acme.ca: the file has no certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	asking, stop := context.WithCancel(context.Background())
	all := &certificates{transport: transport, stop: stop, manager: &autocert.Manager{
		Prompt:     autocert.AcceptTOS, // the settings say so
		Cache:      autocert.DirCache(filepath.Join(folder, acmeFolder)),
		HostPolicy: autocert.HostWhitelist(c.Domains...),
		Client: &acme.Client{
			DirectoryURL: c.Directory, UserAgent: "aibridge", HTTPClient: &http.Client{Transport: until{asking, transport}},
		},
		Email: c.Email,
	}}
	for _, name := range c.Domains {
		all.names = append(all.names, &acmeName{name: strings.ToLower(strings.TrimSuffix(name, "."))})
	}
	return all, nil
}

// get is the certificate for a client that asks for a name, nil if there is none
// yet or the name is not one of these; then the authority's own is shown. So a
// handshake never waits for the ACME server.
func (a *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello != nil && slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		return a.manager.GetCertificate(hello) // the ACME server asks for proof
	}
	for _, n := range a.names {
		if n.has.Load() && (hello == nil || n.name == strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))) {
			return a.manager.GetCertificate(plainHello(n.name))
		}
	}
	return nil, nil
}

// plainHello is a client that takes any certificate for a name, so that there is
// one for all clients.
func plainHello(name string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

// run gets a certificate for every name, and has them renewed, until ctx ends.
func (a *certificates) run(ctx context.Context, log *slog.Logger) error {
	defer a.transport.CloseIdleConnections()
	defer context.AfterFunc(ctx, a.stop)()
	var group errgroup.Group
	for _, n := range a.names {
		group.Go(func() error { a.obtain(ctx, n, log); return nil })
	}
	return group.Wait()
}

// obtain gets the certificate for a name.
func (a *certificates) obtain(ctx context.Context, n *acmeName, log *slog.Logger) {
	for pause := acmeAgain; ; pause = min(2*pause, acmeAgainMost) {
		_, err := a.manager.GetCertificate(plainHello(n.name))
		if err == nil {
			n.has.Store(true) // it is renewed by the manager
			log.Info("there is a certificate by ACME", "name", n.name)
			return
		}
		log.Error("no certificate by ACME: the bridge shows one of its own authority until it gets one", "name", n.name, "error", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Challenges answers the HTTP challenges of an ACME server, by which this bridge
// proves its control of the domain, in front of a handler.
func (s *Server) Challenges(next http.Handler) http.Handler {
	if s.acme == nil {
		return next
	}
	return s.acme.manager.HTTPHandler(next)
}
