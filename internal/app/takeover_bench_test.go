package app_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// BenchmarkALiveTakeover has a client that is connected to one of three bridges, on three
// servers of NATS with three copies of everything, connect to the next, with a kept session, ten messages in flight to it, and measures the time
// from its TCP connection to CONNACK. Beside it, what it takes at the bridge that has
// the session already.
func BenchmarkALiveTakeover(b *testing.B) {
	url := natsCluster(b)
	replicas := func(c *app.Config) { c.NATS.Replicas = 3 }
	first := bridgetest.Start(b, beside(b, url, "a", nil), replicas)
	n := [3]*bridgetest.Node{first, bridgetest.Start(b, beside(b, url, "b", first), replicas), bridgetest.Start(b, beside(b, url, "c", first), replicas)}
	for name, next := range map[string]int{"elsewhere": 1, "at its bridge": 0} {
		b.Run(name, func(b *testing.B) {
			id := fmt.Sprint("walker-", next)
			walker := n[0].Connect(b, id, kept)
			walker.Listen(b, "news/"+id)
			walker.Drop()
			speaker := n[2].Connect(b, "speaker-"+id)
			for i := range 10 {
				publishes(b, speaker, &paho.Publish{Topic: "news/" + id, Payload: fmt.Append(nil, i), QoS: 1})
			}
			at, took := 0, make([]time.Duration, 0, 1024)
			old := enters(b, n[at], id)
			for b.Loop() {
				at = (at + next) % len(n)
				began := time.Now()
				fresh := enters(b, n[at], id)
				took = append(took, time.Since(began))
				_ = old.Close()
				old = fresh
			}
			_ = old.Close()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
		})
	}
}

// enters connects a client that keeps its session, and acknowledges nothing.
func enters(b *testing.B, n *bridgetest.Node, id string) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", n.MQTT)
	if err != nil {
		b.Fatal(err)
	}
	hour := uint32(3600)
	connect := packets.Connect{ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, Properties: &packets.Properties{SessionExpiryInterval: &hour}}
	if _, err := connect.WriteTo(conn); err != nil {
		b.Fatal(err)
	}
	p, err := packets.ReadPacket(conn)
	if err != nil {
		b.Fatal(err)
	}
	if connack, ok := p.Content.(*packets.Connack); !ok || connack.ReasonCode != 0 || !connack.SessionPresent {
		b.Fatalf("%s came: %v", p.PacketType(), p.Content)
	}
	return conn
}
