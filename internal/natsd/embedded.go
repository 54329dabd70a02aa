package natsd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// MaxPayload is the largest message the embedded servers take, in bytes. It
// leaves room around the largest envelope the bridge accepts.
const MaxPayload = 8 << 20

// noLimit leaves it to others to watch the disk. By default NATS refuses to
// make streams on a disk that has little room left, and a bridge could not
// start on it again.
const noLimit = 1 << 50

// startTimeout bounds how long one embedded server may take to recover what
// is on disk and come up.
const startTimeout = 60 * time.Second

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
	embedded    []*server.Server
	lock        *dirLock
}

// State is the connection for what must survive a power cut.
func (s *Server) State() *nats.Conn { return s.state }

// Flow is the connection for what must survive a crash of the process.
func (s *Server) Flow() *nats.Conn { return s.flow }

// Start runs the embedded servers on the data below o.Dir. It fails with
// [ErrInUse] if another process has the directory open.
func Start(o Options) (_ *Server, err error) {
	if o.Dir == "" {
		return nil, errors.New("natsd: no data directory given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{}
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

	// The two recover their files independently, so they do it together.
	type started struct {
		server *server.Server
		conn   *nats.Conn
		err    error
	}
	stateUp := make(chan started, 1)
	go func() {
		srv, conn, err := startOne(o, "state", true)
		stateUp <- started{srv, conn, err}
	}()
	flow, flowConn, flowErr := startOne(o, "flow", o.SyncAlways)
	state := <-stateUp

	s.state, s.flow = state.conn, flowConn
	for _, srv := range []*server.Server{state.server, flow} {
		if srv != nil {
			s.embedded = append(s.embedded, srv)
		}
	}
	if err := errors.Join(state.err, flowErr); err != nil {
		return nil, err
	}
	return s, nil
}

// startOne starts the server called name on the directory of that name and
// connects to it. On failure the server, if any, still is to be shut down.
func startOne(o Options, name string, syncAlways bool) (*server.Server, *nats.Conn, error) {
	dir := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("natsd: make the %s directory: %w", name, err)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName:             "aibridge-" + name,
		DontListen:             true,
		NoSigs:                 true,
		NoSystemAccount:        true,
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               dir,
		JetStreamMaxStore:      noLimit,
		SyncAlways:             syncAlways,
		MaxPayload:             MaxPayload,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("natsd: configure the %s server: %w", name, err)
	}
	log := &logger{log: o.Log.With("nats", name)}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		return srv, nil, fmt.Errorf("natsd: the %s server did not come up on %s: %s", name, dir, log.reason())
	}
	conn, err := nats.Connect("", append(connOptions(o.Log, "aibridge"), nats.InProcessServer(srv))...)
	if err != nil {
		return srv, nil, fmt.Errorf("natsd: connect to the %s server: %w", name, err)
	}
	return srv, conn, nil
}

// Close closes the connections, stops the embedded servers, waits until their
// files are closed, and gives the data directory free.
func (s *Server) Close() {
	if s.state != nil {
		s.state.Close()
	}
	if s.flow != nil && s.flow != s.state {
		s.flow.Close()
	}
	for _, srv := range s.embedded {
		srv.Shutdown()
	}
	for _, srv := range s.embedded {
		srv.WaitForShutdown()
	}
	if s.lock != nil {
		s.lock.release()
	}
}
