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
	"net"
)

// An Address is where to listen, with the name of what is served there.
type Address struct{ Name, Address string }

// Sockets are open listeners by name. They are used by one goroutine, until
// they are served.
type Sockets struct {
	listeners map[string]net.Listener
	open      string // the name of the only open listener while the bridge stands by, else ""
}

// Open opens all listeners, or none.
func Open(ctx context.Context, addresses []Address) (*Sockets, error) {
	s := &Sockets{listeners: make(map[string]net.Listener)}
	for _, a := range addresses {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", a.Name, err), s.Close())
		}
		s.listeners[a.Name] = listener
	}
	return s, nil
}

// Get is the listener of a name, nil if there is none.
func (s *Sockets) Get(name string) net.Listener { return s.listeners[name] }

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

// Resume opens what StandBy has closed, at the same addresses.
func (s *Sockets) Resume(ctx context.Context) error {
	if !s.StandsBy() {
		return nil
	}
	open := s.open
	s.open = ""
	for name, l := range s.listeners {
		if name == open {
			continue
		}
		again, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Addr().String())
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
