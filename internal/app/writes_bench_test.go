//go:build unix

package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
)

// BenchmarkCommandsAtThreeBridges is commands over HTTP at one bridge and at three on
// three servers of NATS, by 30 and by 300 callers: one that reads, one that writes a record and one
// that acts and does nothing. Processor time is that of all bridges, servers and callers
// together; own is without what they use while nobody calls.
func BenchmarkCommandsAtThreeBridges(b *testing.B) {
	act := commands.New(commands.Spec{Name: "test.act", Summary: "Test.", Effect: commands.Act, Action: "test:act", Example: `{}`},
		func(context.Context, *commands.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	read := commands.New(commands.Spec{Name: "test.read", Summary: "Test.", Effect: commands.Read, Action: "test:read", Example: `{}`},
		func(context.Context, *commands.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	write := commands.New(commands.Spec{Name: "test.write", Summary: "Test.", Effect: commands.Write, Action: "test:write", Example: `{}`},
		func(context.Context, *commands.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	with := []app.Option{app.WithCommands(act, read, write)}
	b.Run("one", func(b *testing.B) {
		benchmarkCommands(b, bridgetest.StartWith(b, with))
	})
	b.Run("three", func(b *testing.B) {
		url := natsCluster(b)
		replicas := func(c *app.Config) { c.NATS.Replicas = 3 }
		first := bridgetest.StartWith(b, with, beside(b, url, "a", nil), replicas)
		benchmarkCommands(b, first, bridgetest.StartWith(b, with, beside(b, url, "b", first), replicas), bridgetest.StartWith(b, with, beside(b, url, "c", first), replicas))
	})
}

func benchmarkCommands(b *testing.B, nodes ...*bridgetest.Node) {
	for _, c := range []struct{ name, command, params string }{
		{"read", "test.read", `{}`}, {"write", "test.write", `{}`}, {"record", "agent.register", `{"agent_id":"a%d","type":"end_agent"}`}, {"act", "test.act", `{}`},
	} {
		for _, callers := range []int{30, 300} {
			b.Run(fmt.Sprintf("%s/callers=%d", c.name, callers), func(b *testing.B) { benchmarkCommand(b, nodes, callers, c.command, c.params) })
		}
	}
}

// made numbers registrations, so that each is another.
var made atomic.Int64

func benchmarkCommand(b *testing.B, nodes []*bridgetest.Node, callers int, command, params string) {
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var calling sync.WaitGroup
	idle := idleTime(b)
	before, began := processorTime(b), time.Now()
	b.ResetTimer()
	for i := range callers {
		calling.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			at := nodes[i%len(nodes)].HTTPURL("/api/v1/commands/" + command)
			for next.Add(1) <= int64(b.N) {
				body := params
				if strings.Contains(params, "%d") {
					body = fmt.Sprintf(params, made.Add(1))
				}
				began := time.Now()
				response, err := client.Post(at, "application/json", strings.NewReader(body))
				if err != nil || response.StatusCode != http.StatusOK {
					b.Error(response, err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body) // so that the connection stays
				_ = response.Body.Close()
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	calling.Wait()
	b.StopTimer()
	slices.Sort(took)
	used := processorTime(b) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64((used-time.Duration(idle*float64(time.Since(began)))).Microseconds())/float64(b.N), "own-cpu-µs/op")
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	}
}

// idleTime is the processor time that everything uses while nobody calls, by time. On a
// machine that is busy otherwise a benchmark lasts long, and that counts for much.
func idleTime(b *testing.B) (share float64) {
	b.Helper()
	const look = 2 * time.Second
	before, began := processorTime(b), time.Now()
	time.Sleep(look)
	return float64(processorTime(b)-before) / float64(time.Since(began))
}

// processorTime is the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// natsCluster runs three servers of NATS until the benchmark ends.
func natsCluster(b *testing.B) (urls string) {
	b.Helper()
	host := fmt.Sprintf("127.%d.%d.2", 64+os.Getpid()>>8%64, os.Getpid()%256)
	var routes []*url.URL
	var listeners []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			b.Skipf("no loopback address of its own: %v", err)
		}
		listeners = append(listeners, l)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
	}
	var servers []*server.Server
	for i, l := range listeners {
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: b.TempDir(), MaxPayload: natsd.MaxPayload,
			Cluster: server.ClusterOpts{Name: "C", Host: host, Port: port}, Routes: routes,
		})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		b.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	var all []string
	for _, s := range servers {
		eventually.Holds(b, "NATS comes up", func() bool { return s.JetStreamIsCurrent() && s.ReadyForConnections(time.Second) })
		all = append(all, s.ClientURL())
	}
	return strings.Join(all, ",")
}
