package servertls

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
)

// An acmeServer is a small authority of RFC 8555 for one name. It issues a
// certificate once the bridge has proven by one kind of challenge that it has the
// name: the server connects to the bridge, as a real one does to what the name
// stands for.
type acmeServer struct {
	*httptest.Server
	t      *testing.T
	kind   string // of the challenge
	bridge string // its address
	key    *ecdsa.PrivateKey

	mu     sync.Mutex
	status string // of the order
	csr    []byte
	issued int
}

const acmeToken = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"

func newACMEServer(t *testing.T, kind, bridge string) *acmeServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &acmeServer{t: t, kind: kind, bridge: bridge, key: key, status: "pending"}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *acmeServer) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Replay-Nonce", rand.Text())
	w.Header().Set("Location", a.URL+"/order")
	var request struct{ Payload string }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &request)
	payload, _ := base64.RawURLEncoding.DecodeString(request.Payload)
	switch r.URL.Path {
	case "/directory":
		a.answer(w, 200, `{"newNonce":"URL/nonce","newAccount":"URL/account","newOrder":"URL/new","revokeCert":"URL/no","keyChange":"URL/no"}`)
	case "/nonce":
	case "/account":
		w.Header().Set("Location", a.URL+"/account/1")
		a.answer(w, 201, `{"status":"valid"}`)
	case "/new":
		a.answer(w, 201, a.order())
	case "/order":
		a.answer(w, 200, a.order())
	case "/authorization":
		a.answer(w, 200, a.authorization())
	case "/challenge":
		a.mu.Unlock()
		err := a.prove()
		a.mu.Lock()
		if a.status = "ready"; err != nil {
			a.t.Errorf("the proof: %v", err)
			a.status = "invalid"
		}
		a.answer(w, 200, a.challenge())
	case "/finalize":
		var finalize struct{ CSR string }
		_ = json.Unmarshal(payload, &finalize)
		a.csr, _ = base64.RawURLEncoding.DecodeString(finalize.CSR)
		a.status = "valid"
		a.answer(w, 200, a.order())
	case "/certificate":
		a.issue(w)
	default:
		a.answer(w, 404, `{}`)
	}
}

func (a *acmeServer) answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, strings.ReplaceAll(text, "URL", a.URL))
}

func (a *acmeServer) order() string {
	certificate := ""
	if a.status == "valid" {
		certificate = `,"certificate":"URL/certificate"`
	}
	return fmt.Sprintf(`{"status":%q,"identifiers":[{"type":"dns","value":"bridge.test"}],"authorizations":["URL/authorization"],"finalize":"URL/finalize"%s}`, a.status, certificate)
}

func (a *acmeServer) challenge() string {
	status := "pending"
	if a.status != "pending" {
		status = "valid"
	}
	return fmt.Sprintf(`{"type":%q,"url":"URL/challenge","token":%q,"status":%q}`, a.kind, acmeToken, status)
}

func (a *acmeServer) authorization() string {
	status := "pending"
	if a.status != "pending" {
		status = "valid"
	}
	return fmt.Sprintf(`{"status":%q,"identifier":{"type":"dns","value":"bridge.test"},"challenges":[%s]}`, status, a.challenge())
}

// prove asks the bridge for the proof.
func (a *acmeServer) prove() error {
	if a.kind == "http-01" {
		request, err := http.NewRequest(http.MethodGet, "http://"+a.bridge+"/.well-known/acme-challenge/"+acmeToken, nil)
		if err != nil {
			return err
		}
		request.Host = "bridge.test"
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || !strings.HasPrefix(string(text), acmeToken+".") {
			return fmt.Errorf("the bridge answers %q, %v", text, err)
		}
		return nil
	}
	c, err := tls.Dial("tcp", a.bridge, &tls.Config{ServerName: "bridge.test", NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, e := range c.ConnectionState().PeerCertificates[0].Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) {
			return nil
		}
	}
	return errors.New("the certificate is not one of the challenge")
}

func (a *acmeServer) issue(w http.ResponseWriter) {
	csr, err := x509.ParseCertificateRequest(a.csr)
	if err != nil {
		a.t.Errorf("the request for a certificate: %v", err)
		return
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ACME"}, NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: csr.DNSNames, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, root, csr.PublicKey, a.key)
	if err != nil {
		a.t.Error(err)
		return
	}
	w.Header().Set("Content-Type", "application/pem-certificate-chain")
	_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.issued++
}

// ownAuthority has a certificate of its own.
type ownAuthority struct {
	noAuthority
	own *tls.Certificate
}

func (o ownAuthority) ServerCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return o.own, nil
}

func TestACertificateByACME(t *testing.T) {
	for _, kind := range []string{"tls-alpn-01", "http-01"} {
		t.Run(kind, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ca := newACMEServer(t, kind, l.Addr().String())
			data := t.TempDir()
			roots := filepath.Join(data, "roots.pem")
			if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			settings := Settings{ACME: ACMESettings{Domains: []string{"bridge.test"}, AcceptTerms: true, Directory: ca.URL + "/directory", CA: roots}}
			if err := settings.Check(); err != nil {
				t.Fatal(err)
			}
			cert, key := certificateUntil(t, time.Now().Add(time.Hour))
			own, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			start := func() (s *Server, stop func()) {
				s, err := New(settings, ownAuthority{own: &own}, data)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx, slog.New(slog.DiscardHandler)) }()
				return s, func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			}
			s, stop := start()
			web := &http.Server{Handler: s.Challenges(http.NotFoundHandler()), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
			if kind == "http-01" {
				go func() { _ = web.Serve(l) }()
			} else {
				go func() { _ = web.Serve(tls.NewListener(l, s.Config("http/1.1"))) }()
			}
			defer web.Close()
			shown := func(name string) *x509.Certificate {
				t.Helper()
				c, err := s.certificate(&tls.ClientHelloInfo{ServerName: name})
				if err != nil {
					t.Fatal(err)
				}
				return c.Leaf
			}
			eventually.Holds(t, "the certificate of the ACME server is shown", func() bool { return shown("bridge.test").Issuer.CommonName == "ACME" })
			for _, name := range []string{"", "localhost", "other.test"} {
				if !bytes.Equal(shown(name).Raw, own.Certificate[0]) {
					t.Errorf("to who asks for %q another certificate is shown than the bridge's own", name)
				}
			}
			stop()
			onlyTheOwnerReads(t, filepath.Join(data, acmeFolder))
			s, stop = start() // which finds it in the folder
			eventually.Holds(t, "it is found again", func() bool { return shown("bridge.test").Issuer.CommonName == "ACME" })
			stop()
			if ca.mu.Lock(); ca.issued != 1 {
				t.Errorf("%d certificates were issued", ca.issued)
			}
			ca.mu.Unlock()
		})
	}
}

func onlyTheOwnerReads(t *testing.T, folder string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	files := 0
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 3 { // the folder, the account, a certificate
		t.Errorf("%d files, %v", files, err)
	}
}

func TestACMEThatStopsWhileTheServerIsSilent(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer silent.Close()
	defer close(release)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: silent.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Settings{ACME: ACMESettings{Domains: []string{"bridge.test"}, Directory: silent.URL, CA: roots}}, noAuthority{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, slog.New(slog.DiscardHandler)) }()
	<-asked
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSettingsOfACME(t *testing.T) {
	for name, test := range map[string]struct {
		c    Settings
		want string
	}{
		"off":                 {Settings{}, ""},
		"good":                {Settings{ACME: ACMESettings{Domains: []string{"bridge.example.org"}, AcceptTerms: true}}, ""},
		"terms":               {Settings{ACME: ACMESettings{Domains: []string{"bridge.example.org"}}}, "accept_terms"},
		"an address":          {Settings{ACME: ACMESettings{Domains: []string{"192.0.2.1"}, AcceptTerms: true}}, "is not a host name"},
		"every name":          {Settings{ACME: ACMESettings{Domains: []string{"*.example.org"}, AcceptTerms: true}}, "is not a host name"},
		"in the clear":        {Settings{ACME: ACMESettings{Domains: []string{"a.example"}, AcceptTerms: true, Directory: "http://a.example"}}, "is not an https address"},
		"two certificates":    {Settings{Cert: "c", Key: "k", ACME: ACMESettings{Domains: []string{"a.example"}, AcceptTerms: true}}, "too many"},
		"no port in the name": {Settings{ACME: ACMESettings{Domains: []string{"a.example:443"}, AcceptTerms: true}}, "is not a host name"},
	} {
		if err := test.c.Check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
