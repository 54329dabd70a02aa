package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	nats "github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// The brokers that are linked into this program.
const (
	KindBroker = "broker"      // this project's, bare: no commands, nothing stored
	KindMochi  = "mochi"       // mochi-mqtt as it comes
	KindNATS   = "nats-server" // its MQTT, with JetStream in files
	KindHTTP   = "net/http"    // no broker: answers invocations over HTTP with their own bodies
)

// answerEnv is set for a process that is to answer questions itself.
const answerEnv = "AIBRIDGE_BENCH_ANSWER"

// Kinds lists the brokers of [Serve].
func Kinds() []string { return []string{KindBroker, KindMochi, KindNATS} }

// Serve serves one of the linked brokers on an address until the context
// ends. The program given to [Hosted] runs it, in a process that does
// nothing else.
func Serve(ctx context.Context, kind, address, dir string) error {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("bench: %q is not a loopback address", address) // every client is let in
	}
	everybody := &protocol.Principal{Kind: protocol.KindOperator, ID: "bench", Space: protocol.DefaultSpace}
	options := broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) { return everybody, nil },
		Recognise:    func(broker.Credentials) *protocol.Principal { return everybody },
		Permissions:  allowAll{},
		Log:          slog.New(slog.DiscardHandler),
	}
	kind, transport, _ := strings.Cut(kind, ":")
	over := Over(transport)
	switch kind {
	case KindBroker:
		b, err := broker.New(options)
		if err != nil {
			return err
		}
		return serveOwn(ctx, b, over, address, dir)
	case KindMochi:
		return serveMochi(ctx, over, address, dir)
	case KindNATS:
		return serveNATS(ctx, address, dir)
	case KindHTTP:
		return serveHTTP(ctx, over, address, dir)
	case KindModel:
		return serveModel(ctx, address)
	}
	return fmt.Errorf("bench: no broker %q; there are %v", kind, Kinds())
}

func serveOwn(ctx context.Context, b *broker.Broker, over Over, address, dir string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if os.Getenv(answerEnv) != "" {
		b.Handle(askPrefix+"+", func(p *broker.Publication) {
			// The requester misses an answer that is lost here.
			_, _ = b.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: replyPrefix + strings.TrimPrefix(p.Topic, askPrefix), Payload: p.Payload, QoS: p.QoS})
		})
	}
	serveErr := serveOver(ctx, b, over, l, dir)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := b.Close(closing); serveErr == nil {
		serveErr = err
	}
	return serveErr
}

func serveOver(ctx context.Context, b *broker.Broker, over Over, l net.Listener, dir string) error {
	switch over {
	case OverTLS:
		config, err := serverTLS(dir)
		if err != nil {
			return err
		}
		return b.ServeTLS(ctx, "bench", l, config)
	case OverWebSocket:
		server := &http.Server{Handler: b.WebSocket("bench"), ReadHeaderTimeout: 10 * time.Second}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return b.Serve(ctx, "bench", l)
}

type allowAll struct{}

func (allowAll) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (allowAll) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

func serveMochi(ctx context.Context, over Over, address, dir string) error {
	server := mochi.New(&mochi.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(new(allowHook), nil); err != nil {
		return err
	}
	config := listeners.Config{ID: "bench", Address: address}
	var listener listeners.Listener = listeners.NewTCP(config)
	switch over {
	case OverTLS:
		secure, err := serverTLS(dir)
		if err != nil {
			return err
		}
		config.TLSConfig = secure
		listener = listeners.NewTCP(config)
	case OverWebSocket:
		listener = listeners.NewWebsocket(config)
	}
	if err := server.AddListener(listener); err != nil {
		return err
	}
	answer := func(_ *mochi.Client, _ packets.Subscription, p packets.Packet) {
		_ = server.Publish(replyPrefix+strings.TrimPrefix(p.TopicName, askPrefix), p.Payload, false, p.FixedHeader.Qos)
	}
	if os.Getenv(answerEnv) != "" {
		if err := server.Subscribe(askPrefix+"+", 1, answer); err != nil {
			return err
		}
	}
	if err := server.Serve(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil // its Close can deadlock; the process ends now
}

// allowHook allows every client everything.
type allowHook struct{ mochi.HookBase }

func (*allowHook) ID() string { return "allow" }
func (*allowHook) Provides(event byte) bool {
	return event == mochi.OnConnectAuthenticate || event == mochi.OnACLCheck
}
func (*allowHook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (*allowHook) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

func serveNATS(ctx context.Context, address, dir string) error {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	server, err := nats.NewServer(&nats.Options{
		ServerName: "bench", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(dir, "jetstream"),
		MQTT: nats.MQTTOpts{Host: host, Port: port},
	})
	if err != nil {
		return err
	}
	server.Start()
	<-ctx.Done()
	server.Shutdown()
	server.WaitForShutdown()
	return nil
}

// serveHTTP is the baseline of net/http: a server with a handler that answers with the
// body of the request.
func serveHTTP(ctx context.Context, over Over, address, dir string) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestPayload))
		if err != nil {
			http.Error(w, "the body did not arrive", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // a lost connection needs no answer
	})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	serve := server.ListenAndServe
	if over == OverHTTP2 {
		serve = func() error {
			return server.ListenAndServeTLS(filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
		}
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
