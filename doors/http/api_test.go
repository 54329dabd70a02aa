package http

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A scripted router answers with what the test says and remembers what it was
// handed.
type scripted struct {
	answer func(ctx context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response

	mu   sync.Mutex
	seen []seen
}

type seen struct {
	in  commands.Inbound
	req *protocol.Request
}

func (s *scripted) Handle(ctx context.Context, in commands.Inbound) *protocol.Response {
	req, err := protocol.DecodeRequest(in.Body, protocol.Limits{})
	if err != nil {
		return failed(req, protocol.AsError(err))
	}
	s.mu.Lock()
	s.seen = append(s.seen, seen{in, req})
	s.mu.Unlock()
	if s.answer == nil {
		return succeeded(req, `{"echo":`+string(req.Params)+`}`)
	}
	return s.answer(ctx, in, req)
}

func (s *scripted) Await(ctx context.Context, in commands.Inbound, take func(*protocol.Response)) {
	take(s.Handle(ctx, in))
}

func (s *scripted) Submit(in commands.Inbound, reply func(*protocol.Response)) {
	in.Body = append([]byte(nil), in.Body...)
	go func() { reply(s.Handle(context.Background(), in)) }()
}

// last is the request that the router was handed last.
func (s *scripted) last(t *testing.T) seen {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		t.Fatal("nothing reached the router")
	}
	return s.seen[len(s.seen)-1]
}

func (s *scripted) reached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func succeeded(req *protocol.Request, result string) *protocol.Response {
	resp := req.Answer("bridge-1", time.UnixMilli(1737000000100))
	resp.Result = []byte(result)
	return resp
}

func failed(req *protocol.Request, err *protocol.Error) *protocol.Response {
	resp := req.Answer("bridge-1", time.UnixMilli(1737000000100))
	resp.Err = err
	return resp
}

type echoParams struct {
	Text string `json:"text" doc:"text" len:"1-32"`
}

type echoResult struct {
	Text string `json:"text"`
}

func testSet(t testing.TB) *commands.Set {
	t.Helper()
	set, err := commands.NewSet(
		commands.New(commands.Spec{
			Name: "test.echo", Summary: "Say it again.", Action: "test:echo", Effect: commands.Read,
			Errors:  []protocol.Code{protocol.NotFound, protocol.AgentOffline},
			Example: `{"text":"hello"}`,
		}, func(_ context.Context, _ *commands.Call, p echoParams) (echoResult, error) {
			return echoResult(p), nil
		}),
		commands.New(commands.Spec{
			Name: "test.run", Aliases: []string{"test.start"}, Summary: "Take <long>.", Action: "test:run",
			Effect: commands.Act, Async: true, Example: `{}`,
		}, func(context.Context, *commands.Call, struct{}) (struct{}, error) {
			return struct{}{}, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// open lets everybody in as the same principal.
func open(*http.Request) (*protocol.Principal, error) {
	return &protocol.Principal{Kind: protocol.KindOperator, ID: "ann", Space: protocol.DefaultSpace}, nil
}

// withKey lets in who shows the key.
func withKey(r *http.Request) (*protocol.Principal, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer good":
		return open(r)
	case "Bearer old":
		return nil, protocol.Errorf(protocol.CredentialInvalid, "the key has expired")
	case "Bearer broken":
		return nil, errors.New("store at 10.0.0.7 is away")
	}
	return nil, nil
}

// serve starts an API on loopback with what the options leave open filled in.
func serve(t testing.TB, o Options) (*API, *httptest.Server) {
	t.Helper()
	if o.Router == nil {
		o.Router = &scripted{}
	}
	if o.Set == nil {
		o.Set = testSet(t)
	}
	if o.Authenticate == nil {
		o.Authenticate = open
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		defer cancel()
		a.Close(ctx)
		server.Client().CloseIdleConnections()
		server.Close()
	})
	return a, server
}

// An exchange is one HTTP request and what came back.
type exchange struct {
	status int
	header http.Header
	body   string
}

func do(t testing.TB, server *httptest.Server, method, path, body string, header ...string) exchange {
	t.Helper()
	req, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return exchange{resp.StatusCode, resp.Header, string(data)}
}

// code is the error code in a body of either form, "" without an error.
func (e exchange) code(t testing.TB) string {
	t.Helper()
	var body struct {
		Error *struct{ Code string } `json:"error"`
	}
	if err := json.Unmarshal([]byte(e.body), &body); err != nil {
		t.Fatalf("body %q: %v", e.body, err)
	}
	if body.Error == nil {
		return ""
	}
	return body.Error.Code
}

func envelope(id, command, params string) string {
	return `{"version":"0.6.3","id":"` + id + `","timestamp":0,"type":"request","command":"` + command + `","params":` + params + `}`
}

func TestNewRefusesOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	good := Options{Router: &scripted{}, Set: testSet(t), Authenticate: open}
	for name, spoil := range map[string]func(*Options){
		"no router":         func(o *Options) { o.Router = nil },
		"no commands":       func(o *Options) { o.Set = nil },
		"no authentication": func(o *Options) { o.Authenticate = nil },
		"wildcard host":     func(o *Options) { o.AllowedHosts = []string{"*"} },
		"host with port":    func(o *Options) { o.AllowedHosts = []string{"a.example:80"} },
		"origin with path":  func(o *Options) { o.AllowedOrigins = []string{"https://a.example/x"} },
		"bare origin":       func(o *Options) { o.AllowedOrigins = []string{"a.example"} },
	} {
		o := good
		spoil(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("good options: %v", err)
	}
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	prometheus.WrapRegistererWith(nil, registry).MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_gauge"}))
	_, server := serve(t, Options{Metrics: func(context.Context, *protocol.Principal) (prometheus.Gatherer, error) { return registry, nil }, Version: "1.2.3"})
	for _, c := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/", 200, "test.echo"},
		{"GET", "/", 200, "Take &lt;long&gt;."},
		{"GET", "/healthz", 200, `"version":"1.2.3"`},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/readyz", 200, `"ready"`},
		{"GET", "/metrics", 200, "test_gauge 0"},
		{"GET", "/openapi.json", 200, `"openapi"`},
		{"GET", "/api/v1/commands", 200, `"total":2`},
		{"GET", "/", 200, `href="/metrics"`},
		{"GET", "/nothing", 404, "/openapi.json"},
		{"GET", "/ws", 426, "WebSocket client"},
		{"GET", "/api/v1/commands/a/b", 404, `"3001"`},
		{"GET", "/api/v1/commands/test.echo", 405, `"1000"`},
		{"PUT", "/api/v1/commands", 405, `"1000"`},
		{"DELETE", "/", 405, `"1000"`},
		{"POST", "/healthz", 405, `"1000"`},
	} {
		got := do(t, server, c.method, c.path, "")
		if got.status != c.status || !strings.Contains(got.body, c.contains) {
			t.Errorf("%s %s = %d %q, want %d with %q", c.method, c.path, got.status, got.body, c.status, c.contains)
		}
		for _, h := range []string{"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"} {
			if got.header.Get(h) == "" {
				t.Errorf("%s %s has no %s", c.method, c.path, h)
			}
		}
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s allows another origin", c.method, c.path)
		}
		if c.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s %s does not say what is allowed", c.method, c.path)
		}
	}
}

func TestDocumentsAreNotSentTwice(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{})
	first := do(t, server, "GET", "/openapi.json", "")
	again := do(t, server, "GET", "/openapi.json", "", "If-None-Match", first.header.Get("Etag"))
	if again.status != http.StatusNotModified || again.body != "" {
		t.Errorf("with its ETag: %d and %d bytes, want 304", again.status, len(again.body))
	}
}

func TestReadyTellsOnlyProtocolErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err          error
		code, absent string
	}{
		"protocol error": {protocol.Errorf(protocol.StoreUnavailable, "the view is not loaded"), "5001", ""},
		"other error":    {errors.New("dial 10.0.0.7"), "4006", "10.0.0.7"},
	} {
		_, server := serve(t, Options{Ready: func(context.Context) error { return c.err }})
		got := do(t, server, "GET", "/readyz", "")
		if got.status != http.StatusServiceUnavailable || got.code(t) != c.code {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if c.absent != "" && strings.Contains(got.body, c.absent) {
			t.Errorf("%s: tells %q", name, c.absent)
		}
	}
}

func TestMetricsAreForWhoMayReadThem(t *testing.T) {
	t.Parallel()
	for _, refused := range []error{nil, protocol.Errorf(protocol.PermissionDenied, "no")} {
		metrics := func(_ context.Context, who *protocol.Principal) (prometheus.Gatherer, error) {
			if who == nil {
				t.Error("nobody asks")
			}
			return prometheus.NewRegistry(), refused
		}
		_, server := serve(t, Options{Metrics: metrics, Authenticate: withKey})
		if got := do(t, server, "GET", "/metrics", ""); got.status != http.StatusUnauthorized {
			t.Errorf("without a key: %d", got.status)
		}
		want := http.StatusOK
		if refused != nil {
			want = http.StatusForbidden
		}
		if got := do(t, server, "GET", "/metrics", "", "Authorization", "Bearer good"); got.status != want {
			t.Errorf("with a key: %d, want %d", got.status, want)
		}
	}
}

func TestServerTurnsAPanicIntoAnInternalError(t *testing.T) {
	t.Parallel()
	log, lines := recordingLog()
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret detail") }), log)
	server.Start()
	defer server.Close()
	got := do(t, server, "GET", "/", "")
	if got.status != 500 || got.code(t) != "5000" || strings.Contains(got.body, "secret") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.Contains(lines(), "secret detail") {
		t.Error("the panic is not in the log")
	}
}
