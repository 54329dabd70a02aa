// Package bridgetest starts whole bridges in process, on loopback and with
// ports the system chooses, and speaks to them as devices and callers do.
package bridgetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/listen"
)

// Patience bounds every wait for something that must happen. Nothing comes near
// it unless it fails, however busy the machine is.
const Patience = eventually.Patience

// anyPort is an address on loopback that [settled] chooses.
const anyPort = "127.0.0.1:0"

// A Node is a running bridge.
type Node struct {
	listen.Addresses
	Config app.Config
	Bridge *app.App

	options []app.Option

	stop func()
	done chan error
}

// Start runs a bridge until the test ends. By default it admits clients without a
// credential and keeps its state in a folder of the test's own.
func Start(t testing.TB, change ...func(*app.Config)) *Node {
	t.Helper()
	return StartWith(t, nil, change...)
}

// StartWith is [Start] with options.
func StartWith(t testing.TB, options []app.Option, change ...func(*app.Config)) *Node {
	t.Helper()
	config := app.DefaultConfig()
	config.Data = t.TempDir()
	config.Dev = true
	config.MQTT.Address, config.MQTTS, config.HTTP, config.WS = anyPort, anyPort, anyPort, anyPort
	for _, f := range change {
		f(&config)
	}
	n := &Node{Config: config, options: options}
	n.start(t)
	t.Cleanup(func() { n.Stop(t) })
	return n
}

func (n *Node) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	options := append([]app.Option{app.WithLogger(log)}, n.options...)
	defer untilFailed(t, cancel)()
	bridge, err := app.New(ctx, settled(n.Config), options...)
	for deadline := time.Now().Add(Patience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond) // another socket has the port for a moment
		bridge, err = app.New(ctx, settled(n.Config), options...)
	}
	if err != nil {
		cancel()
		t.Fatalf("start the bridge: %v", err)
	}
	n.Bridge, n.Addresses, n.stop, n.done = bridge, bridge.Addresses(), cancel, make(chan error, 1)
	go func() { n.done <- bridge.Run(ctx) }()
}

// untilFailed calls giveUp if the test fails while a bridge waits for others. The
// function that is returned ends the watch.
func untilFailed(t testing.TB, giveUp context.CancelFunc) (end func()) {
	if t.Failed() {
		return func() {}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for !t.Failed() {
			select {
			case <-look.C:
			case <-stop:
				return
			}
		}
		giveUp()
	}()
	return func() { close(stop); <-done }
}

// settled chooses a port where the configuration leaves it to the system. The
// system gives its ephemeral ports to the next socket, so a bridge that restarts
// would not find its port free: ports below that range go only to sockets that ask
// for them.
func settled(config app.Config) app.Config {
	for _, address := range []*string{&config.MQTT.Address, &config.MQTTS, &config.HTTP, &config.WS} {
		if *address == anyPort {
			*address = fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		}
	}
	return config
}

// Stop ends the bridge in an orderly way. A second call does nothing.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	if err := n.End(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}

// End ends the bridge in an orderly way, and returns the error of that. A second
// call does nothing.
func (n *Node) End(t testing.TB) error {
	t.Helper()
	if n.stop == nil {
		return nil
	}
	n.stop()
	n.stop = nil
	select {
	case err := <-n.done:
		return err
	case <-time.After(Patience):
		t.Error("the bridge does not stop")
		return nil
	}
}

// Ended waits until the bridge ends by itself, and returns why.
func (n *Node) Ended(t testing.TB) error {
	t.Helper()
	select {
	case err := <-n.done:
		n.stop()
		n.stop = nil
		return err
	case <-time.After(Patience):
		t.Fatal("the bridge does not end")
		return nil
	}
}

// Restart stops the bridge and starts it again on the same data and the same
// addresses.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Stop(t)
	n.Config.MQTT.Address, n.Config.MQTTS, n.Config.HTTP, n.Config.WS = n.MQTT, n.MQTTS, n.HTTP, n.WS
	n.start(t)
}

// MQTTURL is the address at which clients connect.
func (n *Node) MQTTURL() string { return "mqtt://" + n.MQTT }

// TLS trusts the bridge, and shows it certificates.
func (n *Node) TLS(t testing.TB, shown ...tls.Certificate) *tls.Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Config.Data, app.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		t.Fatalf("%s holds no certificate", app.CAFile)
	}
	return &tls.Config{RootCAs: roots, Certificates: shown, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// HTTPURL is a path on the HTTP door.
func (n *Node) HTTPURL(path string) string { return "http://" + n.HTTP + path }

// Dial connects the SDK, until the test ends.
func (n *Node) Dial(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c, err := client.Dial(ctx, n.MQTTURL(), opts...)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// HTTPClient is a client without idle connections left behind.
func HTTPClient(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: Patience}
}

// Write replaces a file at once, as careful programs do: a follower sees no half of
// it.
func Write(t testing.TB, path, text string) {
	t.Helper()
	beside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, path); err != nil {
		t.Fatal(err)
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// CheckParams checks params by the declarations of the bridge's own commands.
func CheckParams(command string, params json.RawMessage) error {
	c, ok := app.Commands().Find(command)
	if !ok {
		return fmt.Errorf("there is no command %s", command)
	}
	return c.CheckParams(params)
}
