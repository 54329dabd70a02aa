package natsd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ExternalOptions say how to reach a NATS that runs elsewhere.
type ExternalOptions struct {
	URL         string // nats://host:4222, several separated by commas
	Name        string // name of the connection, for NATS's operators; default "aibridge"
	Credentials string // path of a credentials file, "" for none
	CA          string // path of a PEM file with the roots of the servers' certificates, "" for the system's
	Cert, Key   string // paths of PEM files with a client certificate and its key, "" for none
	Log         *slog.Logger
}

// ErrAway reports that no server answers at the address of NATS, though one may be
// started later.
var ErrAway = errors.New("NATS is away")

// away reports whether an attempt to connect failed because no server is there or
// ready, and not because of the credential or the configuration.
func away(err error) bool {
	var op *net.OpError
	switch {
	case errors.Is(err, nats.ErrTLS): // it speaks TLS with us, and refuses our certificate
		return false
	case errors.As(err, &op):
		return op.Op != "remote error" // which is an alert of TLS
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
		return true
	}
	return false
}

// Connect connects to an external NATS with JetStream, which serves as both
// state and flow: acknowledged writes are as durable as that NATS is configured.
// The connection comes back by itself after it is lost. It fails at once with
// [ErrAway] when NATS is not there, rather than start without a store.
func Connect(o ExternalOptions) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = "aibridge"
	}
	failed := make(chan error, 1)
	opts := append(connOptions(o.Log, o.Name),
		nats.ClosedHandler(func(conn *nats.Conn) { closedByServer(conn.LastError(), failed) }),
		// A server that is frozen is noticed before the others take this bridge
		// for dead, which is after three seconds.
		nats.Timeout(2*time.Second),
		nats.PingInterval(500*time.Millisecond),
		nats.MaxPingsOutstanding(2),
		nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
	)
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	}
	conn, err := dial(o.URL, opts...)
	if _, ok := errors.AsType[*url.Error](err); ok {
		err = errors.New("the URL cannot be read") // the whole would reveal the password, and its cause a part of it
	}
	if away(err) {
		return nil, fmt.Errorf("natsd: connect to NATS at %s: %w: %w", Redact(o.URL), ErrAway, err)
	}
	if err != nil {
		return nil, fmt.Errorf("natsd: connect to NATS at %s: %w", Redact(o.URL), err)
	}
	return &Server{state: conn, flow: conn, log: o.Log, failed: failed}, nil
}

// closedByServer reports why the connection will not come back. The error is nil where
// this process has closed it, or an earlier one, which nobody waits for then.
func closedByServer(err error, failed chan<- error) {
	if err == nil {
		return
	}
	if strings.Contains(strings.ToLower(err.Error()), "maximum payload violation") {
		err = fmt.Errorf("NATS has closed the connection of this bridge: max_payload of its servers was lowered, while the bridge ran, below a message that it had to store; started again, the bridge knows the new limit (%w)", err)
	} else {
		err = fmt.Errorf("NATS has closed the connection of this bridge: %w", err)
	}
	select {
	case failed <- err:
	default: // one reason will do
	}
}

// dialAttempts bounds how often a client connects to a server that pings it.
const dialAttempts = 10

// dial is [nats.Connect], which fails on a machine that is held up meanwhile: a
// server pings a client whose CONNECT takes two seconds, and the client expects
// nothing but a PONG then.
func dial(url string, opts ...nats.Option) (conn *nats.Conn, err error) {
	for range dialAttempts {
		conn, err = nats.Connect(url, opts...)
		if err == nil || !strings.Contains(err.Error(), "got 'PING'") {
			break
		}
	}
	return conn, err
}

// Redact takes passwords and tokens out of a list of URLs, separated by commas.
func Redact(urls string) string {
	list := strings.Split(urls, ",")
	for i, raw := range list {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw // as NATS reads it
		}
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			list[i] = "xxxxx" // an unreadable URL may have a password
		case u.User != nil:
			list[i] = u.Redacted()
			if _, ok := u.User.Password(); !ok { // a NATS token stands where the name would
				u.User = url.User("xxxxx")
				list[i] = u.String()
			}
		}
	}
	return strings.Join(list, ",")
}

func connOptions(log *slog.Logger, name string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(10 * time.Second),
		// A write that was answered with "store unavailable" must not be
		// sent later from a buffer.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the connection to NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("NATS connection", "err", err)
		}),
	}
}
