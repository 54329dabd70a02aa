package broker

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/broker/packet"
)

func TestSessionsAreListedShownAndKicked(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "b", kept, as("ann"))
	p.subscribe("x", 1)
	n.connect(4, "a")
	m := text("x", "1")
	m.QoS = 1
	p.send((&publish{Topic: []byte("x"), QoS: 1, PacketID: 1}).Append(nil, 5))
	p.packet()
	p.packet()
	all := n.Sessions()
	if len(all) != 2 || all[0].ClientID != "a" || all[1].ClientID != "b" {
		t.Fatalf("sessions %+v", all)
	}
	b, ok := n.Session(home("b"))
	if !ok || !b.Connected || b.Principal != "user:ann" || b.Inflight != 1 || len(b.Subscriptions) != 1 || b.Remote == "" {
		t.Errorf("session %+v", b)
	}
	if !n.Kick(home("b"), false) || n.Kick(home("nobody"), true) {
		t.Error("kick")
	}
	if r := p.ended(); r != packet.AdministrativeAction {
		t.Errorf("told %v", r)
	}
	if b, _ = n.Session(home("b")); b.Connected || b.Expires.IsZero() {
		t.Errorf("after kick %+v", b)
	}
	n.Kick(home("b"), true)
	if _, ok := n.Session(home("b")); ok {
		t.Error("session is left")
	}
}

func TestMetricsCountByListenerAndQoS(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := newNode(t, 1, func(o *Options) { o.Registerer = registry })
	p := n.connect(5, "a")
	m := text("x", "1")
	m.QoS = 1
	p.publish(m)
	p.quiet()
	n.Disconnect(home("a"), 0x98, "")
	n.gone("a")
	const want = `
# HELP aibridge_mqtt_disconnects_total Connections ended by the server, by reason.
# TYPE aibridge_mqtt_disconnects_total counter
aibridge_mqtt_disconnects_total{reason="administrative action"} 1
# HELP aibridge_mqtt_received_total Messages that clients published.
# TYPE aibridge_mqtt_received_total counter
aibridge_mqtt_received_total{qos="0"} 0
aibridge_mqtt_received_total{qos="1"} 1
aibridge_mqtt_received_total{qos="2"} 0
# HELP aibridge_mqtt_accepted_total Connections accepted.
# TYPE aibridge_mqtt_accepted_total counter
aibridge_mqtt_accepted_total{listener="mqtt"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"aibridge_mqtt_disconnects_total", "aibridge_mqtt_received_total", "aibridge_mqtt_accepted_total"); err != nil {
		t.Error(err)
	}
}
