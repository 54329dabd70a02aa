package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// threeServers runs three NATS servers that know each other. Each must know where
// the others are before it starts, so the ports are chosen first, on a loopback
// address where nobody else takes one meanwhile.
func threeServers(t *testing.T) (nodes []*server.Server) {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.1", 64+os.Getpid()>>8%64, os.Getpid()%256)
	ports := make([]int, 3)
	var routes []*url.URL
	var listeners []net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Skipf("no loopback address of its own: %v", err)
		}
		listeners = append(listeners, l)
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
	}
	for _, l := range listeners {
		_ = l.Close()
	}
	for i, port := range ports {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), MaxPayload: natsd.MaxPayload,
			Cluster: server.ClusterOpts{Name: "C", Host: host, Port: port}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() {
			srv.Shutdown()
			srv.WaitForShutdown()
		})
		nodes = append(nodes, srv)
	}
	eventually.Holds(t, "the cluster has a leader", func() bool {
		for _, n := range nodes {
			if n.JetStreamIsLeader() {
				return len(n.JetStreamClusterPeers()) == len(nodes)
			}
		}
		return false
	})
	return nodes
}

// TestWhatAClusterAcknowledgedIsThereWhenItsLeaderIsLost stops the server that
// leads the registry, while everything is written at once. The servers elect
// each other by the clock, which on a machine that is busy otherwise may not
// come to an end, so it runs when it is asked for:
//
//	AIBRIDGE_CLUSTER=1 go test -run Cluster ./internal/store
func TestWhatAClusterAcknowledgedIsThereWhenItsLeaderIsLost(t *testing.T) {
	if os.Getenv("AIBRIDGE_CLUSTER") == "" {
		t.Skip("AIBRIDGE_CLUSTER is not set")
	}
	nodes := threeServers(t)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.ClientURL())
	}
	c, err := natsd.Connect(natsd.ExternalOptions{URL: strings.Join(urls, ","), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := open(t, c, Options{Replicas: 3, WriteTimeout: time.Second})
	things := NewTable[thing](s, "thing")
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	load(t, s)
	if err := s.Claims().Claim(t.Context(), claim(1, 10*time.Minute)); err != nil {
		t.Fatal(err)
	}

	var (
		lost    atomic.Bool // the leader
		writers sync.WaitGroup
		content = func(i int) string { return strings.Repeat(fmt.Sprintln("content", i), 30_000) }
		acked   [3][]int
		keys    []string // of blobs
	)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Each writes until five writes were acknowledged after the loss.
	for kind, write := range []func(i int) error{
		func(i int) error {
			_, err := things.Put(ctx, fmt.Sprint(i), &thing{N: i})
			return err
		},
		func(i int) error { return s.Claims().Claim(ctx, claim(2+i, 10*time.Minute)) },
		func(i int) error {
			b, err := blobs.New(ctx)
			if err != nil {
				return err
			}
			defer b.Abort()
			if _, err := io.WriteString(b, content(i)); err != nil {
				return err
			}
			key, err := b.Commit(vfs.Sum{})
			if err == nil {
				keys = append(keys, key)
			}
			return err
		},
	} {
		writers.Go(func() {
			for i, after := 0, 0; after < 5 && ctx.Err() == nil; i++ {
				began := lost.Load()
				err := write(i)
				switch code := protocol.CodeOf(err); {
				case err == nil:
					acked[kind] = append(acked[kind], i)
					if began {
						after++
					}
				case code != protocol.StoreUnavailable && code != protocol.VFSUnavailable:
					t.Errorf("writing %d: %v", kind, err)
				}
			}
		})
	}
	eventually.Holds(t, "writing has begun", func() bool { return things.Len() > 20 })
	for _, n := range nodes {
		if n.JetStreamIsStreamLeader("$G", s.names.registry) {
			n.Shutdown()
			lost.Store(true)
			break
		}
	}
	writers.Wait()
	if ctx.Err() != nil || !lost.Load() {
		t.Fatalf("writing did not go on: %d, %d and %d writes", len(acked[0]), len(acked[1]), len(acked[2]))
	}
	for _, i := range acked[0] {
		if v, _, ok := things.Get(fmt.Sprint(i)); !ok || v.N != i {
			t.Errorf("thing %d is lost", i)
		}
	}
	for at, i := range acked[2] {
		r, err := blobs.Open(t.Context(), keys[at])
		if err != nil {
			t.Fatalf("blob %d: %v", i, err)
		}
		data, err := io.ReadAll(r)
		if string(data) != content(i) {
			t.Errorf("blob %d has %d bytes that are not its own, %v", i, len(data), err)
		}
		_ = r.Close()
	}
	again := open(t, c, Options{Replicas: 3})
	NewTable[thing](again, "thing")
	load(t, again)
	known := pending(again)
	for _, i := range acked[1] {
		if _, ok := known[claim(2+i, 10*time.Minute).RequestID]; !ok {
			t.Errorf("claim %d is lost", i)
		}
	}
}
