package app_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkRevocationAtThreeBridges revokes API keys at one bridge, and measures how long
// after the answer a connection at another one has ended: with NATS on the same
// machine, and with that bridge far from it.
func BenchmarkRevocationAtThreeBridges(b *testing.B) {
	for _, away := range []time.Duration{0, 100 * time.Millisecond} {
		b.Run(fmt.Sprintf("away=%v", away), func(b *testing.B) {
			url := startNATS(b)
			first := bridgetest.Start(b, beside(b, url, "a", nil), func(c *app.Config) { c.Dev = false })
			far := bridgetest.Start(b, beside(b, farAway(b, url, away), "b", first), func(c *app.Config) { c.Dev = false })
			bridgetest.Start(b, beside(b, url, "c", first), func(c *app.Config) { c.Dev = false })
			admin := first.Caller(b, "admin", withPassword("apikey", adminKey(b, first)))
			var took []time.Duration
			for b.Loop() {
				made := must(b, admin, "key.create", fmt.Sprintf(`{"principal_id":"who-%s","kind":"operator","roles":["operator"]}`, protocol.NewID()[:8]))
				var held *bridgetest.Raw
				eventually.Holds(b, "the key opens the other bridge", func() bool {
					var err error
					held, err = far.TryConnect(b, "held", withPassword("apikey", field(b, made, "key")))
					return err == nil
				})
				must(b, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, field(b, made, "key_id")))
				answered := time.Now()
				<-held.Dismissed
				took = append(took, time.Since(answered))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
		})
	}
}

// farAway is the address of NATS behind a line that takes a time for each direction.
func farAway(b *testing.B, url string, away time.Duration) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var lines sync.WaitGroup
	b.Cleanup(func() { _ = listener.Close(); lines.Wait() })
	lines.Go(func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", url[len("nats://"):])
			if err != nil {
				_ = here.Close()
				continue
			}
			lines.Go(func() { carry(there, here, away) })
			lines.Go(func() { carry(here, there, away) })
		}
	})
	return "nats://" + listener.Addr().String()
}

// carry passes on what comes, a time later.
func carry(to, from net.Conn, away time.Duration) {
	defer to.Close()
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1<<12)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{time.Now().Add(away), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due)) // the line
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close() // the rest goes nowhere
		}
	}
}
