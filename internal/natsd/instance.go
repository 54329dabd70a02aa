package natsd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// noLimit leaves it to others to watch the disk. By default NATS refuses to
// make streams on a disk that has little room left, and a bridge could not
// start on it again.
const noLimit = 1 << 50

// startTimeout bounds the time that one embedded server may take to recover its
// files and start.
const startTimeout = 60 * time.Second

// An instance is one of the embedded servers. Its server is another one after
// its files have failed; the connection stays.
type instance struct {
	name    string
	dir     string
	options func() *server.Options // of a server on the files
	member  bool                   // of a cluster
	keeps   bool                   // the state; a member need not
	log     *logger
	conn    *nats.Conn
	secret  string // of the user who looks after the cluster; of a member

	mu      sync.Mutex
	server  *server.Server // nil while there is none
	trouble error          // why there is none, or why it does not store
}

var errClosed = errors.New("it is closed")

// InProcessConn implements [nats.InProcessConnProvider].
func (i *instance) InProcessConn() (net.Conn, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server == nil {
		return nil, errClosed
	}
	return i.server.InProcessConn()
}

// start runs the server for the first time and connects to it.
func (i *instance) start() error {
	if err := i.open(); err != nil {
		return err
	}
	var err error
	i.conn, err = dial("", append(connOptions(i.log.log, "aibridge"), nats.InProcessServer(i))...)
	if err != nil {
		return fmt.Errorf("natsd: connect to the %s server: %w", i.name, err)
	}
	return nil
}

// open runs a server on the files. It admits no clients unless it has found all of
// its streams: a missing one would be made anew, empty.
func (i *instance) open() error {
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return fmt.Errorf("natsd: make the %s directory: %w", i.name, err)
	}
	srv, err := server.NewServer(i.options())
	if err != nil {
		return fmt.Errorf("natsd: configure the %s server: %w", i.name, err)
	}
	i.log.broken.Store(nil)
	srv.SetLoggerV2(i.log, false, false, false)
	srv.Start()
	err = i.whole(srv)
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return err
	}
	i.set(srv, nil)
	return nil
}

// whole fails if a server that was just started did not come up with all of
// its streams.
func (i *instance) whole(srv *server.Server) error {
	if !srv.ReadyForConnections(startTimeout) || i.keeps && !srv.JetStreamEnabled() {
		return fmt.Errorf("natsd: the %s server did not come up on %s: %s", i.name, i.dir, i.log.reason())
	}
	if i.member {
		return nil // missing streams come from the others
	}
	if _, err := os.ReadDir(i.dir); err != nil { // then the health check could not notice missing streams
		return fmt.Errorf("natsd: %w", err)
	}
	health := srv.Healthz(&server.HealthzOptions{Details: true})
	for deadline := time.Now().Add(startTimeout); busy(health) && time.Now().Before(deadline); {
		health = srv.Healthz(&server.HealthzOptions{Details: true})
	}
	for _, e := range health.Errors {
		if e.Type == server.HealthzErrorStream && strings.HasPrefix(e.Stream, ".") {
			continue // the rest of a stream that was deleted, which the server is about to remove
		}
		return fmt.Errorf("natsd: the %s server on %s: %s", i.name, i.dir, e.Error)
	}
	return nil
}

// busy reports whether a running server only had no time for its health check, for
// which it has a millisecond.
func busy(h *server.HealthStatus) bool {
	return len(h.Errors) == 1 && h.Errors[0].Type == server.HealthzErrorConn
}

func (i *instance) set(srv *server.Server, trouble error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.server, i.trouble = srv, trouble
}

// check fails while the server is known to store nothing.
func (i *instance) check() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.trouble
}

// sick fails if the server is known not to store messages. A stream with one failed
// write takes no more, and does not even answer, even if there is room later.
func (i *instance) sick() error {
	i.mu.Lock()
	srv := i.server
	i.mu.Unlock()
	if srv == nil {
		return errClosed
	}
	if broken := i.log.broken.Load(); broken != nil {
		return errors.New(*broken)
	}
	if i.keeps && !srv.JetStreamEnabled() {
		return errors.New("NATS has given up its files")
	}
	return nil
}

// close stops the server, if there is one, and waits until its files are
// closed. Until it is open again, requests fail at once.
func (i *instance) close(why error) {
	i.mu.Lock()
	srv := i.server
	i.server, i.trouble = nil, why
	i.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

const (
	probeBytes = 4 << 20 // of room there must be
	probeFiles = 32      // that it must be possible to open
)

// probe fails unless there is some room on the disk, a written file arrives there,
// and files can be opened.
func (i *instance) probe() (err error) {
	path := filepath.Join(i.dir, "probe")
	defer os.Remove(path)
	files := make([]*os.File, 0, probeFiles)
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for range probeFiles {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if _, err := files[0].Write(make([]byte, probeBytes)); err != nil {
		return err
	}
	return files[0].Sync()
}
