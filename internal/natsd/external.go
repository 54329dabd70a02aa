package natsd

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// ExternalOptions say how to reach a NATS that runs elsewhere.
type ExternalOptions struct {
	URL         string // nats://host:4222, several separated by commas
	Name        string // name of the connection, for NATS's operators; default "aibridge"
	Credentials string // path of a credentials file, "" for none
	TLS         *tls.Config
	Log         *slog.Logger
}

// Connect connects to an external NATS with JetStream, which serves as both
// state and flow: what it has acknowledged is as durable as it is configured
// to be. The connection comes back by itself after it is lost. It fails at
// once when NATS is not there, rather than start without a store.
func Connect(o ExternalOptions) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = "aibridge"
	}
	opts := connOptions(o.Log, o.Name)
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	if o.TLS != nil {
		opts = append(opts, nats.Secure(o.TLS))
	}
	conn, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("natsd: connect to external NATS: %w", err)
	}
	return &Server{state: conn, flow: conn}, nil
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
