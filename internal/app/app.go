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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
)

// stopTimeout bounds an orderly stop, beside the time that calls in flight have to end.
// The rest is torn down then.
const stopTimeout = 15 * time.Second

// endTimeout bounds the stop of a bridge that has to end.
const endTimeout = 2 * time.Second

// An App is one bridge.
type App struct {
	state   *state
	domains *domains
	doors   *doors
	life    *lifecycle.Lifecycle
	leave   context.CancelFunc // ends waiting work, see state.leaving
}

// An Option changes how [New] builds a bridge.
type Option func(*options)

// WithLogger replaces the logger that the configuration asks for.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithVersion says which version of the program this is.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithWire has the bridge pass for one whose version of what bridges say to each other is
// newer by so many, or older: a test of how bridges of two releases work together.
func WithWire(newer int) Option { return func(o *options) { o.newer = newer } }

// WithClock replaces the clock that goes with the system's.
func WithClock(c *clock.Clock) Option { return func(o *options) { o.clock = c } }

// WithDisk replaces the operating system's word on how much room a disk has.
func WithDisk(look func(folder string) (diskspace.Disk, error)) Option {
	return func(o *options) { o.look = look }
}

// WithExtensions adds extensions of the router: parsers, permission checks,
// message processors and an error handler (docs/protocol.md#extensions).
// Extensions in other processes register with command.register.
func WithExtensions(e commands.Extensions) Option { return func(o *options) { o.extensions = e } }

// WithCommands adds commands beside the bridge's own.
func WithCommands(c ...commands.Command) Option {
	return func(o *options) { o.commands = append(o.commands, c...) }
}

// New acquires everything a bridge needs: its data, its state, its listeners.
// When it returns, the addresses are known and clients may connect; they are
// served once [App.Run] runs.
func New(ctx context.Context, config Config, with ...Option) (_ *App, err error) {
	if err := config.Check(Commands()); err != nil {
		return nil, err
	}
	o := options{version: "dev", clock: clock.New()}
	for _, option := range with {
		option(&o)
	}
	if o.log == nil {
		o.log = config.Log.Logger(os.Stderr)
	}
	a := &App{life: new(lifecycle.Lifecycle)}
	leaving, leave := context.WithCancel(context.Background())
	a.leave = leave
	defer func() {
		if err != nil {
			leave()
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, a.life.Stop(stopCtx, stopTimeout))
		}
	}()
	if err := os.MkdirAll(config.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	starting := store.Patiently(ctx)
	if a.state, err = openState(starting, config, o, a.life, leaving); err != nil {
		return nil, err
	}
	if a.domains, err = openDomains(starting, a.state); err != nil {
		return nil, err
	}
	if a.doors, err = openDoors(starting, a.state, a.domains); err != nil {
		return nil, err
	}
	return a, start(starting, a.state, a.domains, a.doors)
}

// Addresses are the addresses that the bridge listens on.
func (a *App) Addresses() listen.Addresses { return a.state.addresses }

// Run serves until ctx ends and returns when everything is stopped: first the listeners,
// then the calls in flight, then the state.
func (a *App) Run(ctx context.Context) error {
	s, d := a.state, a.doors
	s.log.Info("listening", "mqtt", s.addresses.MQTT, "mqtts", s.addresses.MQTTS, "http", s.addresses.HTTP, "ws", s.addresses.WS,
		"unix", s.addresses.Unix, "version", s.version, "data", s.config.Data)
	if s.config.Dev {
		s.log.Warn("everybody on this machine may do everything (--dev)")
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { s.draining.await(serving, cancel); return nil })
	group.Go(func() error { return s.Ended(serving) })
	for _, name := range []string{"mqtt", "unix"} {
		if l := s.sockets.Get(name); l != nil {
			group.Go(func() error { return d.broker.Serve(serving, name, l) })
		}
	}
	if l := s.sockets.Get("mqtts"); l != nil {
		group.Go(func() error { return d.broker.ServeTLS(serving, "mqtts", l, d.tls.Config("mqtt")) })
	}
	a.serveHTTP(group, serving, "http", d.web, "h2", "http/1.1")
	a.serveHTTP(group, serving, "ws", d.sockets, "http/1.1")
	d.ready.Serve(true)
	group.Go(func() error { s.addresses.Keep(serving, s.config.Data, s.log); return nil })
	group.Go(func() error { return introduce(serving, s, d) })

	<-serving.Done()
	d.ready.Serve(false)
	withdraw(s)
	a.leave()
	patience, within := time.Duration(s.config.Drain)*time.Second, stopTimeout+s.draining.extra()
	if ctx.Err() == nil { // nothing can be stored any more, and another bridge may be waiting
		patience, within = 0, endTimeout
	}
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), patience+within)
	defer done()
	err := errors.Join(a.life.Stop(stopCtx, patience), d.servers.Close(), group.Wait())
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // that is the requested end
	}
	s.log.Info("stopped")
	return err
}

// serveHTTP serves one HTTP listener until the bridge stops. Over TLS it offers
// the protocols.
func (a *App) serveHTTP(group *errgroup.Group, ctx context.Context, name string, handler http.Handler, protocols ...string) {
	s, d := a.state, a.doors
	config := d.tls.Config(protocols...)
	secure := func(c net.Conn) *tls.Conn { return broker.TLS(c, config) } // for MQTT over WebSocket
	listener := listen.Secure(s.gate.Listener(s.sockets.Get(name)), secure, s.config.TLS.Only)
	a.life.Add(name+" connections", func(context.Context) error { return listen.Close(listener) })
	server := httpdoor.NewServer(handler, s.log)
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return security.Remembering(httpdoor.WithConnection(gate.WithConn(ctx, c)))
	}
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	a.life.Drain(name+" listener", server.Shutdown)
	group.Go(d.servers.Serve(server, listener))
}
