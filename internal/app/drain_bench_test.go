package app_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// BenchmarkDrain drains a bridge with clients that keep their sessions, over a
// second. It measures how long after the request the bridge has ended, and how long
// after it all clients are back at the bridge that each was sent to; and counts who
// was told where to go, and whose session was there.
func BenchmarkDrain(b *testing.B) {
	for _, clients := range []int{100, 10_000} {
		b.Run(fmt.Sprint(clients, " sessions"), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				n := threeFor(b, clients)
				caller := n[0].Caller(b, "caller")
				fleet := connectFleet(b, n[2], clients)
				b.StartTimer()
				began := time.Now()
				must(b, caller, "bridge.drain", `{"bridge_id":"c","window_seconds":1}`)
				var sent, present atomic.Int64
				var coming sync.WaitGroup
				places := make(chan struct{}, 64)
				for i, c := range fleet {
					coming.Go(func() {
						told := <-c.Dismissed
						if told.ReasonCode == 0x9D {
							sent.Add(1)
						}
						places <- struct{}{}
						defer func() { <-places }()
						if comesBack(b, n[:2], told, i) {
							present.Add(1)
						}
					})
				}
				if err := n[2].Ended(b); err != nil {
					b.Error(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/ended")
				coming.Wait()
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/all-back")
				b.ReportMetric(float64(sent.Load()), "sent-elsewhere")
				b.ReportMetric(float64(present.Load()), "sessions-kept")
				b.StopTimer()
				for _, node := range n[:2] {
					node.Stop(b)
				}
				b.StartTimer()
			}
		})
	}
}

// threeFor starts three bridges, of which each lets so many clients in.
func threeFor(b *testing.B, clients int) (all [3]*bridgetest.Node) {
	b.Helper()
	url, room := startNATS(b), func(c *app.Config) {
		c.Quotas.Principal.Connections, c.Quotas.Principal.Sessions = 2*clients, 2*clients
	}
	all[0] = bridgetest.Start(b, beside(b, url, "a", nil), room)
	all[1] = bridgetest.Start(b, beside(b, url, "b", all[0]), room)
	all[2] = bridgetest.Start(b, beside(b, url, "c", all[0]), room)
	return all
}

func sleeperID(i int) string { return fmt.Sprint("sleeper-", i) }

// connectFleet connects clients that keep a session with a subscription.
func connectFleet(b *testing.B, at *bridgetest.Node, count int) []*bridgetest.Raw {
	b.Helper()
	fleet := make([]*bridgetest.Raw, count)
	var connecting sync.WaitGroup
	for worker := range 16 {
		connecting.Go(func() {
			for i := worker; i < count; i += 16 {
				c, err := at.TryConnect(b, sleeperID(i), kept)
				if err == nil {
					_, err = c.Subscribe(context.Background(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "news", QoS: 1}}})
				}
				if err != nil {
					b.Error(err)
					return
				}
				fleet[i] = c
			}
		})
	}
	connecting.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return fleet
}

// comesBack connects a client to the first bridge that it was told, or to any, until
// one lets it in. It reports whether its session was there.
func comesBack(b *testing.B, to []*bridgetest.Node, told *paho.Disconnect, i int) bool {
	node := to[i%len(to)]
	for _, n := range to {
		if told.Properties != nil && len(told.Properties.ServerReference) >= len(n.MQTT) && told.Properties.ServerReference[:len(n.MQTT)] == n.MQTT {
			node = n
		}
	}
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); {
		c, err := node.TryConnect(b, sleeperID(i), kept)
		if err != nil {
			continue
		}
		if c.Connack.ReasonCode == packets.ConnackSuccess {
			return c.Connack.SessionPresent
		}
		c.Drop()
	}
	b.Errorf("client %d does not come back", i)
	return false
}
