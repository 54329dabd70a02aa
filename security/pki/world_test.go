package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/masterkey"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// The people of the tests.
var (
	root    = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAdministrator}}
	olivia  = &protocol.Principal{Kind: protocol.KindOperator, ID: "olivia", Space: protocol.DefaultSpace, Roles: []string{"officer:operator"}}
	oscar   = &protocol.Principal{Kind: protocol.KindOperator, ID: "oscar", Space: protocol.DefaultSpace, Attributes: map[string]string{"officer": "appstore,enterprise"}}
	dana    = &protocol.Principal{Kind: protocol.KindOperator, ID: "dana", Space: protocol.DefaultSpace}
	labRat  = &protocol.Principal{Kind: protocol.KindOperator, ID: "rat", Space: "lab"}
	labBoss = &protocol.Principal{Kind: protocol.KindOperator, ID: "boss", Space: "lab", Roles: []string{"officer:operator", "officer:appstore", "officer:enterprise"}}
)

// State is the state that bridges on one NATS share.
type state struct {
	authorities  *recordstest.Memory[Hierarchy]
	certificates *recordstest.Memory[Certificate]
	requests     *recordstest.Memory[Request]
	tokens       *recordstest.Memory[Token]
	versions     *recordstest.Memory[masterkey.Version]
	holders      *recordstest.Memory[masterkey.Holder]
	atomic       sync.Mutex
}

func newState() *state {
	return &state{recordstest.New[Hierarchy](), recordstest.New[Certificate](), recordstest.New[Request](), recordstest.New[Token](), recordstest.New[masterkey.Version](), recordstest.New[masterkey.Holder](), sync.Mutex{}}
}

func (st *state) issue(ctx context.Context, c *Certificate, f Entitlement) error {
	st.atomic.Lock()
	defer st.atomic.Unlock()
	if _, _, taken := st.certificates.Get(string(c.Serial)); taken {
		return protocol.Errorf(protocol.AlreadyExists, "taken")
	}
	var err error
	switch {
	case f.Request != nil:
		_, err = st.requests.Update(ctx, f.Request.key(), f.Request, f.Revision)
	case f.Token != nil:
		_, err = st.tokens.Update(ctx, f.Token.ID, f.Token, f.Revision)
	}
	if err == nil {
		_, err = st.certificates.Create(ctx, string(c.Serial), c)
	}
	return err
}

// A world is a service and what is around it.
type world struct {
	*Service
	t        testing.TB
	state    *state
	router   *commands.Router
	requests int

	mu     sync.Mutex
	events []string
	ends   []Ended
}

// newWorld opens the authorities of a bridge. change changes its options.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, state: newState()}
	w.open(change...)
	return w
}

// another is a second bridge on the same state.
func (w *world) another(change ...func(*Options)) *world {
	w.t.Helper()
	second := &world{t: w.t, state: w.state}
	second.open(append([]func(*Options){func(o *Options) { o.Dir = w.opts.Dir }}, change...)...)
	return second
}

func (w *world) open(change ...func(*Options)) {
	w.t.Helper()
	o := Options{
		Authorities: w.state.authorities, Certificates: w.state.certificates, Requests: w.state.requests, Tokens: w.state.tokens,
		Issue: w.state.issue, Dir: w.t.TempDir(), Log: slog.New(slog.DiscardHandler), scryptLogN: 4,
		Publish: func(name string, _ any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, name)
		},
	}
	for _, f := range change {
		f(&o)
	}
	file, err := masterkey.Open(masterkey.Options{Dir: o.Dir, Name: KeyFile, Versions: w.state.versions, Holders: w.state.holders})
	if err != nil {
		w.t.Fatal(err)
	}
	o.KeyFile = file
	if w.Service, err = Open(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.OnEnd(func(e Ended) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends = append(w.ends, e)
	})
	set, err := commands.NewSet(w.Commands()...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.t.Cleanup(func() {
		_ = w.router.Close(context.Background())
		cancel()
		<-done
	})
}

func (w *world) told(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e == event {
			return true
		}
	}
	return false
}

func (w *world) endOf(serial protocol.Serial) (Ended, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends {
		if e.Serial == serial {
			return e, true
		}
	}
	return Ended{}, false
}

// ask runs a command.
func (w *world) ask(who *protocol.Principal, command string, params any) (json.RawMessage, error) {
	w.t.Helper()
	return w.askWith(who, command, params, nil)
}

// askWith runs a command whose extension is made for the request.
func (w *world) askWith(who *protocol.Principal, command string, params any, extension func(id string, params []byte) []byte) (json.RawMessage, error) {
	w.t.Helper()
	raw, ok := params.(string)
	if !ok {
		text, err := json.Marshal(params)
		if err != nil {
			w.t.Fatal(err)
		}
		raw = string(text)
	}
	w.requests++
	request := protocol.Request{Version: protocol.Version, ID: strconv.Itoa(w.requests), Command: command, Params: []byte(raw)}
	if extension != nil {
		request.Extension = extension(request.ID, request.Params)
	}
	response := w.router.Handle(w.t.Context(), commands.Inbound{Principal: who, Body: request.Append(nil), Door: "test"})
	if response.Err != nil {
		return response.Result, response.Err
	}
	return response.Result, nil
}

// must runs a command that has to succeed.
func must[R any](w *world, who *protocol.Principal, command string, params any) R {
	w.t.Helper()
	raw, err := w.ask(who, command, params)
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	var result R
	if err := json.Unmarshal(raw, &result); err != nil {
		w.t.Fatal(err)
	}
	return result
}

// refused runs a command that has to fail with the code.
func (w *world) refused(code protocol.Code, who *protocol.Principal, command string, params any) *protocol.Error {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if protocol.CodeOf(err) != code {
		w.t.Errorf("%s: got %s, %v, want %s", command, result, err, code)
	}
	return protocol.AsError(err)
}

type object = map[string]any

func ecdsaKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ed25519Key(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// csrOf makes a signing request in PEM.
func csrOf(t testing.TB, key crypto.Signer, change ...func(*x509.CertificateRequest)) string {
	t.Helper()
	template := &x509.CertificateRequest{}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func named(cn string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: cn} }
}

// A holder has a certificate and its key.
type holder struct {
	serial protocol.Serial
	key    crypto.Signer
	cert   *x509.Certificate
	tls    tls.Certificate
}

// hold issues a certificate for the skill lighting, as a route agent. change
// changes the params.
func (w *world) hold(change ...object) *holder {
	w.t.Helper()
	key := ecdsaKey(w.t)
	params := object{"authority": "operator", "skill_id": "lighting", "role": "agent_route", "scene_types": []string{"SMART_HOME"}, "csr": csrOf(w.t, key)}
	for _, c := range change {
		maps.Copy(params, c)
	}
	return w.holder(key, must[Result](w, root, "cert.issue", params))
}

func (w *world) holder(key crypto.Signer, r Result) *holder {
	w.t.Helper()
	h := &holder{serial: r.Serial, key: key}
	h.tls.PrivateKey = key
	for _, text := range r.Chain[:2] {
		block, _ := pem.Decode([]byte(text))
		h.tls.Certificate = append(h.tls.Certificate, block.Bytes)
	}
	var err error
	if h.cert, err = x509.ParseCertificate(h.tls.Certificate[0]); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// A listener takes TLS connections the way the bridge's does and writes the
// principal's id to each.
type listener struct {
	address string
	config  *tls.Config
}

func (w *world) listen(change ...func(*tls.Config)) *listener {
	w.t.Helper()
	config := &tls.Config{
		MinVersion:       tls.VersionTLS12,
		GetCertificate:   w.ServerCertificate,
		ClientAuth:       tls.VerifyClientCertIfGiven,
		ClientCAs:        w.Pool(),
		VerifyConnection: w.VerifyPeer,
	}
	for _, f := range change {
		f(config)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				conn := c.(*tls.Conn)
				_ = conn.SetDeadline(time.Now().Add(eventually.Patience))
				if conn.Handshake() != nil {
					return
				}
				if peers := conn.ConnectionState().PeerCertificates; len(peers) > 0 {
					if who, err := w.Identify(peers[0]); err == nil {
						_, _ = fmt.Fprintf(c, "%s", who.ID)
					}
					return
				}
				_, _ = c.Write([]byte("nobody"))
			})
		}
	})
	w.t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return &listener{address: l.Addr().String(), config: config}
}

// dial connects with a certificate and returns who the listener thinks it is.
func (w *world) dial(l *listener, cert *tls.Certificate, change ...func(*tls.Config)) (string, error) {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.Root())
	config := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if cert != nil { // whatever the listener asks for: strangers do not care
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	for _, f := range change {
		f(config)
	}
	c, err := tls.DialWithDialer(dialer(), "tcp", l.address, config)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(eventually.Patience))
	var said bytes.Buffer
	if _, err := said.ReadFrom(c); err != nil {
		return "", err
	}
	if said.Len() == 0 {
		return "", errors.New("the listener hung up")
	}
	return said.String(), nil
}
