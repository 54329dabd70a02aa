package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run"
	chats "github.com/aibridge/aibridge/llm/session"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/quota"
	"github.com/aibridge/aibridge/security/seal"
	"github.com/aibridge/aibridge/security/servertls"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// AdminKeyFile is the file in the data folder with the administrator's key.
const AdminKeyFile = security.AdminKeyFile

// stopTimeout bounds an orderly stop, beside the time that calls in flight have
// to end. What is left then is torn down.
const stopTimeout = 15 * time.Second

// endTimeout bounds the stop of a bridge that has to end.
const endTimeout = 2 * time.Second

// An App is one bridge.
type App struct {
	config  Config
	version string
	log     *slog.Logger
	clock   *clock.Clock
	metrics *prometheus.Registry
	life    lifecycle
	ready   atomic.Bool
	unready atomic.Pointer[string] // why it was not ready when it was asked last, "" if it was

	pki           *pki.Service
	channels      *cap.Service
	scenes        *scene.Service
	parties       *parties
	keyring       *security.Keyring
	tls           *servertls.Server
	authenticator *security.Authenticator
	credentials   *security.Credentials
	keys          *security.KeyService
	revocations   *security.TokenService
	rights        *security.TopicRights
	authorizer    security.Authorizer
	policy        policySide
	quotas        *quota.Keeper
	gate          *gate.Gate
	seals         *seal.Store
	files         fileParts
	mirror        *caps.Service
	mcp           mcpSide
	models        *model.Service
	llm           *llm.Service
	mcpAgent      *mcpAgent
	tools         toolSide
	approvals     *approval.Service
	loop          *loop.Runner
	chats         *chats.Service
	runs          *run.Service
	backups       *backup.Service
	extensions    commands.Extensions
	commands      []commands.Command

	nats   *natsd.Server
	lease  *store.Lease // nil if no other bridge can have it
	disk   *diskspace.Watch
	look   func(folder string) (diskspace.Disk, error) // nil for the system's word
	store  *store.Store
	claims commands.Claims
	audit  *auditSide
	broker *broker.Broker
	mqtt   *mqttdoor.Clients
	router *commands.Router
	api    *httpdoor.API

	listeners   map[string]net.Listener // by name, open from New on
	servers     []*http.Server
	leaving     context.Context // ends when the bridge begins to stop
	leave       context.CancelFunc
	lobby       *lobby
	steppedBack bool // the listeners are closed for now, but that of HTTP
	addresses   Addresses
}

// An Option changes how [New] builds a bridge.
type Option func(*App)

// WithLogger replaces the logger that the configuration asks for.
func WithLogger(log *slog.Logger) Option { return func(a *App) { a.log = log } }

// WithVersion says which version of the program this is.
func WithVersion(version string) Option { return func(a *App) { a.version = version } }

// WithClock replaces the clock that goes with the system's.
func WithClock(c *clock.Clock) Option { return func(a *App) { a.clock = c } }

// WithDisk replaces the operating system's word on how much room a disk has.
func WithDisk(look func(folder string) (diskspace.Disk, error)) Option {
	return func(a *App) { a.look = look }
}

// New acquires everything a bridge needs: its data, its state, its listeners.
// When it returns, the addresses are known and clients may connect; they are
// served once [App.Run] runs.
func New(ctx context.Context, config Config, options ...Option) (_ *App, err error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	a := &App{config: config, version: "dev", clock: clock.New(), metrics: prometheus.NewRegistry(), listeners: make(map[string]net.Listener)}
	a.leaving, a.leave = context.WithCancel(context.Background())
	for _, option := range options {
		option(a)
	}
	if a.log == nil {
		a.log = newLogger(config.Log, os.Stderr)
	}
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			a.leave()
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, a.life.stop(stopCtx, stopTimeout))
		}
	}()
	if err := os.MkdirAll(config.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return a, a.build(ctx)
}

// Addresses are what the bridge listens on.
func (a *App) Addresses() Addresses { return a.addresses }

// Run serves until ctx ends and returns when everything is stopped: first the
// listeners, then what is in flight, then the state.
func (a *App) Run(ctx context.Context) error {
	a.log.Info("listening", "mqtt", a.addresses.MQTT, "mqtts", a.addresses.MQTTS, "http", a.addresses.HTTP, "ws", a.addresses.WS,
		"version", a.version, "data", a.config.Data)
	if a.config.Dev {
		a.log.Warn("everybody on this machine may do everything (--dev)")
	}

	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return a.ended(serving) })
	if l := a.listeners["mqtt"]; l != nil {
		group.Go(func() error { return a.broker.Serve(serving, "mqtt", l) })
	}
	if l := a.listeners["mqtts"]; l != nil {
		group.Go(func() error { return a.broker.Serve(serving, "mqtts", tls.NewListener(l, a.tls.Config("mqtt"))) })
	}
	a.serveHTTP(group, serving, "http", a.withPKI(a.api), "h2", "http/1.1")
	a.serveHTTP(group, serving, "ws", a.webSockets(), "http/1.1")
	a.ready.Store(true)
	group.Go(func() error { a.writeAddresses(serving); return nil })

	<-serving.Done()
	a.ready.Store(false)
	a.leave()
	patience, within := time.Duration(a.config.Drain)*time.Second, stopTimeout
	if ctx.Err() == nil { // nothing can be stored any more, and another bridge may be waiting
		patience, within = 0, endTimeout
	}
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), patience+within)
	defer done()
	err := errors.Join(a.life.stop(stopCtx, patience), a.closeServers(), group.Wait())
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // that is how it was asked to end
	}
	a.log.Info("stopped")
	return err
}

// serveHTTP serves one HTTP listener until the bridge stops. Over TLS it offers
// the protocols.
func (a *App) serveHTTP(group *errgroup.Group, ctx context.Context, name string, handler http.Handler, protocols ...string) {
	listener := a.secured(name, protocols...)
	server := httpdoor.NewServer(handler, a.log)
	countVisits(server)
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	a.servers = append(a.servers, server)
	a.life.drain(name+" listener", server.Shutdown)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// answering is how long what was answered may take to leave.
const answering = 2 * time.Second

// finishHTTP waits, when all commands have ended, until their answers are
// written.
func (a *App) finishHTTP(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	for _, s := range a.servers {
		_ = s.Shutdown(ctx) // whoever takes longer is cut off in the end
	}
	return nil
}

// closeServers ends the requests over HTTP that did not end in time, when they
// are answered so.
func (a *App) closeServers() error {
	var errs []error
	for _, s := range a.servers {
		if err := s.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// webSockets is what the WebSocket listener serves.
func (a *App) webSockets() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mqtt", a.api.Guard().Wrap(httpdoor.Upgrading("this is MQTT over WebSocket: connect to it with an MQTT client", a.broker.WebSocket("ws"))))
	mux.Handle("/ws", a.api.WebSocket())
	mux.Handle("/{$}", a.api.WebSocket())
	mux.Handle("/", a.api.Guard().Wrap(httpdoor.Nothing("this port has MQTT at /mqtt and envelopes at /ws, both over WebSocket")))
	return mux
}

// listen opens the listeners, so that port conflicts show before anything else
// is started.
func (a *App) listen(ctx context.Context) error {
	for _, l := range a.config.listeners() {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		a.listeners[l.name] = listener
		a.life.add(l.name+" socket", func(context.Context) error {
			listener := a.listeners[l.name] // may be another by now, or none
			if listener == nil {
				return nil
			}
			if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
	}
	address := func(name string) string {
		if l := a.listeners[name]; l != nil {
			return l.Addr().String()
		}
		return ""
	}
	a.addresses = Addresses{MQTT: address("mqtt"), MQTTS: address("mqtts"), HTTP: address("http"), WS: address("ws"), TLSOnly: a.config.TLS.Only}
	return nil
}

func (a *App) limits() protocol.Limits {
	return protocol.Limits{MaxBytes: a.config.Limits.Payload, MaxDepth: a.config.Limits.Depth}
}
