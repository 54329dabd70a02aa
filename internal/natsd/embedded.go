package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// MaxPayload is the largest message the embedded servers take, in bytes. It
// leaves room around the largest envelope the bridge accepts.
const MaxPayload = 8 << 20

// Options configure the embedded servers.
type Options struct {
	Dir        string // data directory, made if it is not there
	SyncAlways bool   // the flow server syncs every write too
	Log        *slog.Logger
}

// A Server is a pair of connections and, when embedded, the servers behind
// them.
type Server struct {
	state, flow *nats.Conn
	embedded    []*instance
	lock        *dirLock
	log         *slog.Logger
	members     *ClusterOptions // nil if the servers are alone, or elsewhere

	stop     context.CancelFunc // of the mending
	mending  sync.WaitGroup
	failed   chan error
	reopened atomic.Int64
}

// State is the connection for data that must survive a power cut.
func (s *Server) State() *nats.Conn { return s.state }

// Flow is the connection for data that must survive a crash of the process.
func (s *Server) Flow() *nats.Conn { return s.flow }

// Check fails while the embedded servers store nothing; nil if they are elsewhere.
func (s *Server) Check() error {
	for _, i := range s.embedded {
		if err := i.check(); err != nil {
			return err
		}
	}
	return nil
}

// Reopened is the number of times that an embedded server was opened anew because its
// files had failed.
func (s *Server) Reopened() int64 { return s.reopened.Load() }

// Failed yields why a connection to an external NATS will not come back, or an embedded
// server whose files have failed cannot be opened anew, when that is so: another process
// may.
func (s *Server) Failed() <-chan error { return s.failed }

// Start runs the embedded servers on the data below o.Dir. It fails with
// [ErrInUse] if another process has the directory open.
func Start(o Options) (_ *Server, err error) {
	if o.Dir == "" {
		return nil, errors.New("natsd: no data directory given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{log: o.Log, failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsd: make the data directory: %w", err)
	}
	if s.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	state, flow := newInstance(o, "state", true), newInstance(o, "flow", o.SyncAlways)
	s.embedded = []*instance{state, flow}
	var both errgroup.Group // they recover their files independently, so they do it together
	both.Go(state.start)
	both.Go(flow.start)
	if err := both.Wait(); err != nil {
		return nil, err
	}
	s.state, s.flow = state.conn, flow.conn
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	for _, i := range s.embedded {
		s.mending.Go(func() { s.mend(run, i) })
	}
	return s, nil
}

func newInstance(o Options, name string, syncAlways bool) *instance {
	i := &instance{name: name, dir: filepath.Join(o.Dir, name), keeps: true, log: newLogger(o.Log.With("nats", name))}
	i.options = func() *server.Options {
		return &server.Options{
			ServerName:             "aibridge-" + name,
			DontListen:             true,
			NoSigs:                 true,
			NoSystemAccount:        true,
			JetStream:              true,
			DisableJetStreamBanner: true,
			StoreDir:               i.dir,
			JetStreamMaxStore:      noLimit,
			SyncAlways:             syncAlways,
			MaxPayload:             MaxPayload,
		}
	}
	return i
}

// Cut closes the connections, so that nothing is stored from now on.
func (s *Server) Cut() {
	s.state.Close()
	s.flow.Close()
}

// Close closes the connections, stops the embedded servers, waits until their
// files are closed, and gives the data directory free.
func (s *Server) Close() {
	if s.stop != nil {
		s.stop()
		s.mending.Wait()
	}
	conns := []*nats.Conn{s.state, s.flow}
	for _, i := range s.embedded {
		conns = append(conns, i.conn)
	}
	for _, conn := range conns {
		if conn != nil {
			conn.Close() // again does nothing
		}
	}
	var all sync.WaitGroup
	for _, i := range s.embedded {
		all.Go(func() { i.close(errClosed) })
	}
	all.Wait()
	if s.lock != nil {
		s.lock.release()
	}
}
