//go:build unix

package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// BenchmarkAPacedCommand is a command that acts, called every 15 ms or so at each
// bridge by one caller, so that nobody waits for a processor: what is left of the time to
// an answer is what it waits for. Beside it is what three writers wait at the same pace
// who store a group of ten claims each in the same servers of NATS, and who wait until
// they have it back, as a bridge does before it knows that its claim was the first.
func BenchmarkAPacedCommand(b *testing.B) {
	act := commands.New(commands.Spec{Name: "test.act", Summary: "Test.", Effect: commands.Act, Action: "test:act", Example: `{}`},
		func(context.Context, *commands.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	with := []app.Option{app.WithCommands(act)}
	url := natsCluster(b)
	replicas := func(c *app.Config) { c.NATS.Replicas = 3 }
	first := bridgetest.StartWith(b, with, beside(b, url, "a", nil), replicas)
	three := []*bridgetest.Node{first, bridgetest.StartWith(b, with, beside(b, url, "b", first), replicas), bridgetest.StartWith(b, with, beside(b, url, "c", first), replicas)}
	one := []*bridgetest.Node{bridgetest.StartWith(b, with)}
	writers := appenders(b, url, 3)
	b.Run("one bridge", func(b *testing.B) { paced(b, callers(b, one, "test.act", 3)) })
	b.Run("three bridges", func(b *testing.B) { paced(b, callers(b, three, "test.act", 3)) })
	b.Run("append", func(b *testing.B) { paced(b, appends(b, writers, false)) })
	b.Run("append and follow", func(b *testing.B) { paced(b, appends(b, writers, true)) })
}

// paced has each of some do something every 5 to 25 ms, and tells how long that took.
func paced(b *testing.B, each []func() error) {
	took := make([][]time.Duration, len(each))
	var working sync.WaitGroup
	b.ResetTimer()
	for i, do := range each {
		working.Go(func() {
			for range b.N/len(each) + 1 {
				time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond)) // so that nothing falls into step
				began := time.Now()
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	working.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	for name, part := range map[string]int{"p25-µs": 25, "p50-µs": 50, "p99-µs": 99} {
		b.ReportMetric(float64(all[len(all)*part/100].Microseconds()), name)
	}
}

// callers call a command, each over a connection of its own.
func callers(b *testing.B, nodes []*bridgetest.Node, command string, n int) (each []func() error) {
	for i := range n {
		client := &http.Client{Transport: &http.Transport{}}
		b.Cleanup(client.CloseIdleConnections)
		at := nodes[i%len(nodes)].HTTPURL("/api/v1/commands/" + command)
		each = append(each, func() error { return callOver(client, at, `{}`) })
	}
	return each
}

// callOver calls a command at an address.
func callOver(client *http.Client, at, body string) error {
	response, err := client.Post(at, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body) // so that the connection stays
	return err
}

// appenders are clients of NATS with a stream of three copies.
func appenders(b *testing.B, url string, n int) (clients []jetstream.JetStream) {
	for range n {
		nc, err := nats.Connect(url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			b.Fatal(err)
		}
		clients = append(clients, js)
	}
	eventually.Holds(b, "a stream has three copies", func() bool {
		_, err := clients[0].CreateOrUpdateStream(b.Context(), jetstream.StreamConfig{Name: "groups", Subjects: []string{"groups.*"}, Replicas: 3})
		return err == nil
	})
	return clients
}

// appends store ten claims each, and wait until they have them back if they follow.
func appends(b *testing.B, clients []jetstream.JetStream, follow bool) (each []func() error) {
	const group = 10 * 100 // bytes
	for i, js := range clients {
		subject := fmt.Sprint("groups.", i)
		back := func() error { return nil }
		if follow {
			c, err := js.OrderedConsumer(b.Context(), "groups", jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverNewPolicy})
			if err != nil {
				b.Fatal(err)
			}
			messages, err := c.Messages()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(messages.Stop)
			back = func() error { _, err := messages.Next(); return err }
		}
		each = append(each, func() error {
			if _, err := js.Publish(b.Context(), subject, make([]byte, group)); err != nil {
				return err
			}
			return back()
		})
	}
	return each
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
				if err := callOver(client, at, body); err != nil {
					b.Error(err)
					return
				}
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
