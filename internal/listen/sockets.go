// Package listen has the sockets that a bridge listens on: they are opened
// before anything else, so that ports in use show first, and given back last.
// While a bridge starts, a [Lobby] answers on one of them; a standby closes the
// others until it is the one that works. By [Addresses] clients of the same
// machine find the bridge.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
)

// An Address is an address to listen on, with the name of the service there.
type Address struct {
	Name, Address string         // host:port, or the path of a unix socket
	Unix          bool           // it is a path
	Mode          fs.FileMode    // of a unix socket
	Proxies       []netip.Prefix // that name the clients of their connections, see [Proxies]
}

// listen opens a listener there.
func (a *Address) listen(ctx context.Context) (net.Listener, error) {
	if a.Unix {
		return openUnix(ctx, a.Address, a.Mode)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", a.Address)
}

// Sockets are open listeners by name. They are used by one goroutine, until
// they are served.
type Sockets struct {
	listeners map[string]net.Listener
	open      string // the name of the only open listener while the bridge stands by, else ""
	addresses map[string]Address
}

// Open opens all listeners, or none.
func Open(ctx context.Context, addresses []Address) (*Sockets, error) {
	s := &Sockets{listeners: make(map[string]net.Listener), addresses: make(map[string]Address)}
	for _, a := range addresses {
		listener, err := a.listen(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", a.Name, err), s.Close())
		}
		a.Address = listener.Addr().String() // with the port that the system chose
		s.listeners[a.Name], s.addresses[a.Name] = listener, a
	}
	return s, nil
}

// Get is the listener of a name, nil if there is none. It is for one server: its
// connections come from where its proxies say.
func (s *Sockets) Get(name string) net.Listener {
	if s.listeners[name] == nil {
		return nil
	}
	return behind(s.addresses[name].Proxies, s.listeners[name])
}

// Address is the address of the listener of a name, "" if there is none.
func (s *Sockets) Address(name string) string {
	if l := s.listeners[name]; l != nil {
		return l.Addr().String()
	}
	return ""
}

// StandBy closes the listeners but the one of a name, so that clients turn to the
// bridge that serves. Afterwards [Sockets.Resume] opens them again.
func (s *Sockets) StandBy(but string) {
	for name, l := range s.listeners {
		if name != but {
			_ = l.Close()
		}
	}
	s.open = but
}

// StandsBy reports whether the listeners are closed for now.
func (s *Sockets) StandsBy() bool { return s.open != "" }

// Resume opens the listeners that StandBy has closed, at the same addresses.
func (s *Sockets) Resume(ctx context.Context) error {
	if !s.StandsBy() {
		return nil
	}
	open := s.open
	s.open = ""
	for name := range s.listeners {
		if name == open {
			continue
		}
		a := s.addresses[name]
		again, err := a.listen(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.listeners[name] = again
	}
	return nil
}

// Close closes the listeners that are still open.
func (s *Sockets) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, Close(l))
	}
	return errors.Join(errs...)
}

// Close closes a listener, which may be closed already.
func Close(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
