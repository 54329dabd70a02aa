package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
)

// A lobby answers over HTTP while a bridge starts, which takes long where it
// has to wait for NATS or for another bridge: /healthz that the process lives,
// everything else that it does not serve yet, and why.
type lobby struct {
	server *http.Server
	done   chan struct{}
	why    atomic.Pointer[string]
}

// openLobby serves the HTTP listener until close. What speaks TLS only is
// answered nothing: there is no certificate to show yet.
func (a *App) openLobby() {
	l := &lobby{done: make(chan struct{})}
	l.waits("the bridge is starting")
	a.lobby = l
	socket := a.listeners["http"]
	if a.config.TLS.Only {
		close(l.done)
		return
	}
	l.server = httpdoor.NewServer(httpdoor.Lobby(a.version, func() string { return *l.why.Load() }), a.log)
	go func() {
		defer close(l.done)
		_ = l.server.Serve(lentListener{socket})
	}()
	a.life.add("lobby", l.close)
}

// waits sets the reason that is told.
func (l *lobby) waits(why string) { l.why.Store(&why) }

// close gives the listener back. A second call does nothing.
func (l *lobby) close(ctx context.Context) error {
	if l.server == nil {
		return nil
	}
	err := l.server.Shutdown(ctx)
	<-l.done
	return err
}

// A lentListener is one that others go on with after it is closed.
type lentListener struct{ net.Listener }

// Close ends Accept, and leaves the listener open.
func (l lentListener) Close() error {
	return l.Listener.(*net.TCPListener).SetDeadline(time.Unix(1, 0))
}

// closeLobby has the listener go back to who serves it from now on.
func (a *App) closeLobby(ctx context.Context) error {
	if err := a.lobby.close(ctx); err != nil {
		return fmt.Errorf("lobby: %w", err)
	}
	return a.listeners["http"].(*net.TCPListener).SetDeadline(time.Time{})
}

// stepBack closes the listeners but that of HTTP, so that clients turn to the
// bridge that works. Afterwards they are opened again, at the same addresses.
func (a *App) stepBack() {
	for name, l := range a.listeners {
		if name != "http" {
			_ = l.Close()
		}
	}
	a.steppedBack = true
}

// stepForward undoes it.
func (a *App) stepForward(ctx context.Context) error {
	if !a.steppedBack {
		return nil
	}
	a.steppedBack = false
	for name, l := range a.listeners {
		if name == "http" {
			continue
		}
		again, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Addr().String())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.listeners[name] = again
	}
	return nil
}

const (
	firstConnectWait = 500 * time.Millisecond
	lastConnectWait  = 5 * time.Second
)

// connect reaches NATS. An external one that is away is waited for.
func (a *App) connect(ctx context.Context) (*natsd.Server, error) {
	for wait := firstConnectWait; ; wait = min(2*wait, lastConnectWait) {
		nats, err := connect(a.config, a.log)
		if !errors.Is(err, natsd.ErrAway) {
			return nats, err
		}
		if !a.steppedBack {
			a.stepBack()
			a.lobby.waits("the bridge waits for NATS, which does not answer")
		}
		a.log.WarnContext(ctx, "NATS is away; the bridge waits for it", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeLease waits until no other bridge works on the same root of the same
// NATS. The embedded NATS needs no lease: its folder has one process.
func (a *App) takeLease(ctx context.Context) (err error) {
	if a.config.NATS.URL == "" {
		return nil
	}
	a.lease, err = store.AcquireLease(ctx, a.nats.State(), store.LeaseOptions{
		Prefix:   a.config.Root,
		Replicas: a.config.NATS.Replicas,
		Holder:   a.config.ID,
		Log:      a.log,
		Waiting: func(holder string) {
			a.stepBack()
			a.lobby.waits(fmt.Sprintf("this bridge is a standby: %q serves %q and this one takes over when it ends", holder, a.config.Root))
			a.log.InfoContext(ctx, "waiting as a standby: another bridge serves the same root on the same NATS", "bridge", holder, "root", a.config.Root)
		},
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "this bridge is the one that works", "root", a.config.Root, "epoch", a.lease.Epoch())
	a.life.add("lease", a.lease.Release)
	return nil
}

// ended waits for a reason to end at once: the state cannot be opened any more,
// or is another bridge's by now. It is nil when ctx ends first.
func (a *App) ended(ctx context.Context) error {
	var lost <-chan error
	if a.lease != nil {
		lost = a.lease.Lost()
	}
	var err error
	select {
	case err = <-a.nats.Failed():
		err = protocol.Wrap(protocol.StoreUnavailable, err, err.Error())
	case err = <-lost:
	case err = <-a.store.Fenced():
	case <-ctx.Done():
		return nil
	}
	a.log.Error("the bridge ends", "error", err)
	a.nats.Cut() // whatever is stored from now on is somebody else's
	return err
}
