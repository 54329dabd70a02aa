package store

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// natsServer is a NATS as others run it, reached over loopback.
type natsServer struct {
	*server.Server
	dir  string
	port int
}

// runNATS starts one on dir; port server.RANDOM_PORT chooses any.
func runNATS(t *testing.T, dir string, port int) *natsServer {
	t.Helper()
	port = freePort(t, port)
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, MaxPayload: natsd.MaxPayload,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	n := &natsServer{Server: srv, dir: dir}
	t.Cleanup(n.stop)
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("NATS did not start")
	}
	n.port = srv.Addr().(*net.TCPAddr).Port
	return n
}

// freePort waits until a port is free. Instead of one of the system's choice it
// takes one that nobody else is given: who starts again finds it free.
func freePort(t *testing.T, port int) int {
	t.Helper()
	if port == server.RANDOM_PORT {
		return int(netip.MustParseAddrPort(freeport.Address()).Port())
	}
	eventually.Holds(t, "the port is free", func() bool {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		_ = l.Close()
		return true
	})
	return port
}

func (n *natsServer) stop() {
	n.Shutdown()
	n.WaitForShutdown()
}

func (n *natsServer) jetstream(t *testing.T) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(n.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// external is a store on an external NATS, yet to be loaded.
func external(t *testing.T) (*natsServer, *Store, *Table[thing]) {
	t.Helper()
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	c, err := natsd.Connect(natsd.ExternalOptions{URL: n.ClientURL(), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := open(t, c, Options{})
	return n, s, NewTable[thing](s, "thing")
}

// changes collects what OnChange tells.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(key string, old, new *thing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := func(v *thing) string {
		if v == nil {
			return "-"
		}
		return v.Name
	}
	c.list = append(c.list, fmt.Sprintf("%s:%s>%s", key, name(old), name(new)))
}

func (c *changes) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := strings.Join(c.list, " ")
	c.list = nil
	return got
}

func TestWritesFailFastWhileNATSIsAwayAndTheViewRecovers(t *testing.T) {
	n, s, things := external(t)
	var seen changes
	things.OnChange(seen.add)
	load(t, s)
	ctx := context.Background()
	for _, key := range []string{"kept", "changed", "purged"} {
		if _, err := things.Put(ctx, key, &thing{Name: "old"}); err != nil {
			t.Fatal(err)
		}
	}
	seen.take()
	n.stop()

	eventually.Holds(t, "the loss is noticed", func() bool { return !s.state.current().isUp() })
	began := time.Now()
	_, err := things.Put(ctx, "lost", &thing{})
	wantCode(t, err, protocol.StoreUnavailable)
	wantCode(t, s.Claims().Claim(ctx, claim(1, 10*time.Minute)), protocol.StoreUnavailable)
	wantCode(t, s.Atomic(ctx, things.PutOp("lost", &thing{}, 0), things.PutOp("lost2", &thing{}, 0)), protocol.StoreUnavailable)
	wantCode(t, things.Delete(ctx, "kept", 0), protocol.StoreUnavailable)
	if took := time.Since(began); took > eventually.Patience {
		t.Errorf("failing took %v", took)
	}
	if _, _, ok := things.Get("kept"); !ok || s.Check() == nil {
		t.Errorf("while NATS is away: kept is there: %t; check: %v", ok, s.Check())
	}

	// Meanwhile others change what is stored, one key without a trace.
	other := runNATS(t, n.dir, server.RANDOM_PORT)
	js := other.jetstream(t)
	stream, err := js.Stream(ctx, s.names.registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(s.names.registryRoot+"thing.purged")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"changed", "added"} {
		if _, err := js.Publish(ctx, s.names.registryRoot+"thing."+key, []byte(`{"v":1,"d":{"name":"new"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	other.stop()
	if got := seen.take(); got != "" {
		t.Errorf("changes while NATS was away: %s", got)
	}

	runNATS(t, n.dir, n.port)
	eventually.Holds(t, "the store works again", func() bool { return s.Check() == nil })
	if got, want := seen.take(), "changed:old>new added:->new purged:old>-"; got != want {
		t.Errorf("changes = %s, want %s", got, want)
	}
	if _, _, ok := things.Get("purged"); ok || things.Len() != 3 {
		t.Errorf("a ghost of the purged key is there: %t; %d things", ok, things.Len())
	}
	if _, err := things.Put(ctx, "kept", &thing{Name: "works"}); err != nil {
		t.Error(err)
	}
	if err := s.Claims().Claim(ctx, claim(1, 10*time.Minute)); err != nil {
		t.Error(err)
	}
	if _, _, ok := things.Get("lost"); ok {
		t.Error("a write that had failed happened later")
	}
}

func TestAWriteUnderWayFailsWhenNATSGoesAway(t *testing.T) {
	n, s, things := external(t)
	load(t, s)
	failed := make(chan error)
	go func() {
		for {
			if _, err := things.Put(context.Background(), "k", &thing{}); err != nil {
				failed <- err
				return
			}
		}
	}()
	eventually.Holds(t, "writing has begun", func() bool { return things.Len() > 0 })
	began := time.Now()
	n.stop()
	wantCode(t, <-failed, protocol.StoreUnavailable)
	if took := time.Since(began); took > eventually.Patience {
		t.Errorf("failing took %v", took)
	}
}

func TestTheViewBeginsAnewWhenTheServerForgetsIt(t *testing.T) {
	n, s, things := external(t)
	load(t, s)
	ctx := context.Background()
	if _, err := things.Put(ctx, "a", &thing{}); err != nil {
		t.Fatal(err)
	}
	js := n.jetstream(t)
	stream, err := js.Stream(ctx, s.names.registry)
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(ctx).Name() {
		if err := stream.DeleteConsumer(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(s.names.registryRoot+"thing.a")); err != nil {
		t.Fatal(err)
	}
	// No connection was lost: only the silence tells.
	eventually.Holds(t, "the ghost is gone", func() bool { return things.Len() == 0 })
	if got := testutil.ToFloat64(s.metrics.resyncs); got < 1 { // a busy machine is silent for a while as well
		t.Errorf("resyncs = %v", got)
	}
}

func TestTheViewFollowsAStreamThatWasMadeAnew(t *testing.T) {
	n, s, things := external(t)
	load(t, s)
	ctx := context.Background()
	for i := range 10 {
		if _, err := things.Put(ctx, fmt.Sprint(i), &thing{Name: "old"}); err != nil {
			t.Fatal(err)
		}
	}
	js := n.jetstream(t)
	if err := js.DeleteStream(ctx, s.names.registry); err != nil {
		t.Fatal(err)
	}
	if err := s.makeStreams(ctx); err != nil {
		t.Fatal(err)
	}
	// The same revision stands for another value now.
	if _, err := js.Publish(ctx, s.names.registryRoot+"thing.0", []byte(`{"v":1,"d":{"name":"new"}}`)); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the view has what the new stream has", func() bool {
		v, revision, ok := things.Get("0")
		return ok && revision == 1 && v.Name == "new" && things.Len() == 1
	})
	if _, err := things.Create(ctx, "1", &thing{}); err != nil {
		t.Error(err)
	}
}

func TestLoadFailsInTimeWhenNATSDoesNotAnswer(t *testing.T) {
	n, s, _ := external(t)
	n.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := s.Load(ctx)
	if err == nil || time.Since(began) > eventually.Patience {
		t.Errorf("Load = %v after %v", err, time.Since(began))
	}
	t.Log(err)
}

func TestBridgesWithOtherPrefixesShareANATS(t *testing.T) {
	n, s, things := external(t)
	load(t, s)
	c, err := natsd.Connect(natsd.ExternalOptions{URL: n.ClientURL(), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s2 := open(t, c, Options{Prefix: "second"})
	things2 := NewTable[thing](s2, "thing")
	load(t, s2)
	ctx := context.Background()
	if _, err := things.Create(ctx, "a", &thing{}); err != nil {
		t.Fatal(err)
	}
	if _, err := things2.Create(ctx, "a", &thing{}); err != nil {
		t.Fatal(err)
	}
	if things.Len() != 1 || things2.Len() != 1 {
		t.Errorf("%d and %d things", things.Len(), things2.Len())
	}
}
