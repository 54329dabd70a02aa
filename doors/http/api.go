package http

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Router runs commands. *commands.Router is one.
type Router interface {
	// Handle runs one request envelope and returns its answer.
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
	// Await runs one and gives its answer to take, once and before it returns.
	Await(ctx context.Context, in commands.Inbound, take func(*protocol.Response))
	// Submit runs one without waiting; reply is called exactly once.
	Submit(in commands.Inbound, reply func(*protocol.Response))
}

// Options configure an [API]. Router, Set and Authenticate are needed.
type Options struct {
	Router Router
	Set    *commands.Set // the commands that the documents describe

	// Authenticate yields the principal of a request, from the Authorization header, a
	// cookie or the client certificate. Its error is sent to the caller; one that is not
	// of the protocol becomes a 2001.
	Authenticate func(*http.Request) (*protocol.Principal, error)

	// Keep returns when the entries of the audit trail are on record that belong
	// to answers that are about to be written. Optional: without it each is put on
	// record by itself.
	Keep func()

	// Grants notifies of the end of credentials, which ends the connections that
	// were opened with them. Nil: they do not end.
	Grants grant.Authority

	// Agents takes the agents that connect over /ws. Optional: without it none can.
	Agents Agents

	// Enter is asked about every /ws connection: its error refuses it, else
	// leave is called when it has ended. Optional.
	Enter func(*protocol.Principal) (leave func(), err *protocol.Error)

	// Ready returns the reason why the node can't serve yet, or nil. Optional.
	Ready func(context.Context) error

	// Metrics returns the metrics that /metrics shows to a principal, or the error
	// of a refusal; without the function there is no /metrics.
	Metrics func(ctx context.Context, who *protocol.Principal) (prometheus.Gatherer, error)

	// Backup makes an archive of the node's whole state for a principal that may
	// have it; without the function there is no /backup.
	Backup func(ctx context.Context, who *protocol.Principal, withoutContents bool, w io.Writer) error

	// ExportAudit writes a file of the audit trail that can be verified by itself;
	// without the function there is no /audit/export.
	ExportAudit func(ctx context.Context, who *protocol.Principal, w io.Writer) error

	// Southbound answers requests in the southbound dialect on the paths of the LLM
	// protocol. Optional; without it they take bare params only.
	Southbound Southbound

	// Mounts are further handlers, by path: "/vfs/" serves everything below it.
	// It stands behind the guard and authenticates by itself.
	Mounts map[string]http.Handler

	// AllowedHosts, AllowedOrigins and LoopbackOrigins go to [NewGuard].
	AllowedHosts    []string
	AllowedOrigins  []string
	LoopbackOrigins bool

	Limits   protocol.Limits // of one request; zero fields mean 1 MiB and a depth of 64
	Version  string          // of the program, for /healthz
	BridgeID string          // metadata.sender_id of answers made here, default "aibridge"

	// MaxRequests and MaxSockets bound the HTTP requests with a body under way and the
	// /ws connections, shared among principals (package fair); further ones are
	// answered 4008. Defaults 4096 and 1024.
	MaxRequests int
	MaxSockets  int
	// MaxInFlight bounds the requests one /ws connection may have under way,
	// default 64.
	MaxInFlight int

	Log *slog.Logger
	Now func() time.Time // default time.Now

	patience time.Duration // with a write and a pong on /ws
}

func (o *Options) setDefaults() {
	orDefault(&o.Limits.MaxBytes, 1<<20)
	orDefault(&o.Limits.MaxDepth, 64)
	orDefault(&o.BridgeID, "aibridge")
	orDefault(&o.MaxRequests, 4096)
	orDefault(&o.MaxSockets, 1024)
	orDefault(&o.MaxInFlight, 64)
	orDefault(&o.patience, socketPatience)
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// An API is the HTTP and WebSocket front door of one node.
type API struct {
	Options
	guard   *Guard
	handler http.Handler

	requests *fair.Semaphore // HTTP requests with a body
	places   *fair.Semaphore // of sockets
	buffers  sync.Pool       // of *bytes.Buffer

	mu       sync.Mutex
	sockets  map[*socket]struct{}
	draining bool
	drained  chan struct{}  // closed when no socket is left but those of agents
	ended    sync.WaitGroup // of sockets
}

// New makes the front door. It fails on options that make no sense.
func New(o Options) (*API, error) {
	if o.Router == nil || o.Set == nil || o.Authenticate == nil {
		return nil, protocol.Errorf(protocol.Internal, "api: Router, Set and Authenticate are needed")
	}
	o.setDefaults()
	guard, err := NewGuard(GuardOptions{Hosts: o.AllowedHosts, Origins: o.AllowedOrigins, LoopbackOrigins: o.LoopbackOrigins, Log: o.Log})
	if err != nil {
		return nil, err
	}
	a := &API{
		Options:  o,
		guard:    guard,
		requests: fair.New(fair.Options{What: "HTTP requests under way", Capacity: int64(o.MaxRequests)}),
		places:   fair.New(fair.Options{What: "WebSocket connections", Capacity: int64(o.MaxSockets)}),
		sockets:  make(map[*socket]struct{}),
		drained:  make(chan struct{}),
	}
	a.handler = a.routes()
	return a, nil
}

// Guard is the guard in front of this API, for other handlers served beside it.
func (a *API) Guard() *Guard { return a.guard }

// Envelopes serves request envelopes on any path.
func (a *API) Envelopes() http.Handler { return methods{post: a.postEnvelope} }

// ServeHTTP serves everything: commands, /ws, the documents, health and
// metrics.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// WebSocket serves envelopes over WebSocket on any path, guarded, for a listener of
// its own.
func (a *API) WebSocket() http.Handler { return a.guard.Wrap(a.socketDoor()) }

func (a *API) socketDoor() http.Handler {
	return Upgrading("this is a WebSocket: connect to it with a WebSocket client and send request envelopes", http.HandlerFunc(a.serveSocket))
}

// Nothing answers requests for unknown paths, with a text that leads on.
func Nothing(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		writeError(w, protocol.Errorf(protocol.NotFound, "there is nothing at this path; %s", text).With("path", r.URL.Path))
	})
}

func (a *API) routes() http.Handler {
	docs := newDocuments(a)
	mux := http.NewServeMux()
	mux.Handle("/{$}", compress(methods{get: docs.index})) // unless something is mounted there
	mux.Handle("/reference", compress(methods{get: docs.index}))
	mux.Handle("/openapi.json", compress(methods{get: docs.openAPI}))
	mux.Handle("/llms.txt", compress(methods{get: docs.agents}))
	mux.Handle("/api-spec.md", compress(methods{get: docs.rules}))
	mux.Handle("/api-spec/{file}", compress(methods{get: docs.family}))
	mux.Handle("/healthz", methods{get: a.health})
	mux.Handle("/readyz", methods{get: a.ready})
	if a.Metrics != nil {
		mux.Handle("/metrics", methods{get: a.metrics()})
	}
	if a.Backup != nil {
		mux.Handle("/backup", methods{post: a.backup})
	}
	if a.ExportAudit != nil {
		mux.Handle("POST /audit/export", methods{post: a.exportAudit}) // the console has GET /audit/
	}
	mux.Handle("/ws", methods{get: a.socketDoor().ServeHTTP})
	mux.Handle("/api/v1/commands", compress(methods{get: docs.list, post: a.postEnvelope}))
	mux.Handle("/api/v1/commands/{command}", compress(methods{post: a.postCommand}))
	mux.Handle(taskPath+"{task_id}", compress(methods{get: a.getTask}))
	a.routeLLM(mux)
	for path, handler := range a.Mounts {
		mux.Handle(path, handler)
	}
	mux.Handle("/", Nothing("/reference, /llms.txt and /openapi.json tell what there is"))
	return a.guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		mux.ServeHTTP(w, r)
	}))
}

// methods serves one path. GET serves HEAD as well; a method that has no handler is
// answered with 405 and the allowed ones.
type methods struct{ get, post http.HandlerFunc }

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case m.get != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		m.get(w, r)
		return
	case m.post != nil && r.Method == http.MethodPost:
		m.post(w, r)
		return
	}
	var allowed []string
	if m.get != nil {
		allowed = append(allowed, http.MethodGet, http.MethodHead)
	}
	if m.post != nil {
		allowed = append(allowed, http.MethodPost)
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	writeErrorStatus(w, http.StatusMethodNotAllowed, protocol.Errorf(protocol.MalformedEnvelope, "this path takes %s", list))
}

// Close ends the /ws connections but those of agents, on which other callers may await
// answers: calls under way there are still answered while ctx lasts, new requests get
// 5002, and then the connections are closed with status 1001 (going away). HTTP requests
// are the http.Server's to wait for.
func (a *API) Close(ctx context.Context) error {
	a.mu.Lock()
	a.draining = true
	sockets := slices.Collect(maps.Keys(a.sockets))
	a.mu.Unlock()
	for _, s := range sockets {
		s.drain()
	}
	a.mu.Lock()
	a.checkDrained()
	a.mu.Unlock()
	select {
	case <-a.drained:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	for s := range a.sockets {
		if !s.attended.Load() {
			s.cancel()
		}
	}
	a.mu.Unlock()
	<-a.drained
	return ctx.Err()
}

// CloseAgents ends the /ws connections of agents. It comes after Close, when no
// request waits for agents any more.
func (a *API) CloseAgents(context.Context) error {
	a.mu.Lock()
	sockets := slices.Collect(maps.Keys(a.sockets))
	a.mu.Unlock()
	for _, s := range sockets {
		s.end(websocket.StatusGoingAway, "shutting down")
	}
	a.ended.Wait()
	return nil
}

// checkDrained wakes Close when only sockets of agents are left. a.mu is held.
func (a *API) checkDrained() {
	if !a.draining {
		return
	}
	for s := range a.sockets {
		if !s.attended.Load() {
			return
		}
	}
	select {
	case <-a.drained:
	default:
		close(a.drained)
	}
}
