package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// openUnix listens on a unix socket for the users that its mode permits. A socket
// that a bridge left behind is replaced; anything else is not.
func openUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := bindUnix(ctx, path, mode)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return localListener{l}, nil
}

// bindUnix makes a unix socket that at no moment can be used by users that the mode
// does not permit.
func bindUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(socket uintptr) { failed = narrow(socket, mode) })
		return errors.Join(err, failed)
	}}
	return config.Listen(ctx, "unix", path)
}

// removeStale removes a socket without a listener.
func removeStale(ctx context.Context, path string) error {
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: %w", path, syscall.EADDRINUSE), c.Close())
	}
	return os.Remove(path)
}

// A localListener has connections from this machine, which are known by no
// address: they count as those of loopback.
type localListener struct{ net.Listener }

// Accept returns the next connection.
func (l localListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &addressedConn{c, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}, nil
}
