package listen

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// answering is the time that written answers may take to be sent.
const answering = 2 * time.Second

// Servers are the HTTP servers of a bridge.
type Servers struct{ all []*http.Server }

// Serve serves a listener, until the server is shut down or closed. The server
// is one of these from now on.
func (s *Servers) Serve(server *http.Server, on net.Listener) (serve func() error) {
	s.all = append(s.all, server)
	return func() error {
		if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// Finish waits, when all commands have ended, until their answers are written.
func (s *Servers) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	for _, server := range s.all {
		_ = server.Shutdown(ctx) // connections that take longer are cut off in the end
	}
	return nil
}

// Close ends the requests that did not end in time, when they are answered so.
func (s *Servers) Close() error {
	var errs []error
	for _, server := range s.all {
		if err := server.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
