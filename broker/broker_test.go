package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func ptr[T any](v T) *T { return &v }

func TestRequestAndAnswerKeepEveryProperty(t *testing.T) {
	t.Parallel()
	got := make(chan broker.Publication, 1)
	n := newHandlingNode(t, func(b *broker.Broker) {
		b.Handle("bridge/+", func(p *broker.Publication) {
			copied := *p
			copied.Payload = slices.Clone(p.Payload)
			got <- copied
		})
	})
	caller := n.connect("caller", as("ann"))
	caller.subscribe("client/caller/response", 1)
	caller.publish(&paho.Publish{
		Topic: "bridge/request", QoS: 1, Payload: []byte("question"),
		Properties: &paho.PublishProperties{
			ResponseTopic:   "client/caller/response",
			CorrelationData: []byte{0, 1, 2},
			ContentType:     "application/json",
			MessageExpiry:   ptr(uint32(30)),
			User:            paho.UserProperties{{Key: "k", Value: "1"}, {Key: "trace_id", Value: "t"}, {Key: "k", Value: "2"}},
		},
	})

	p := <-got
	if p.Client.ID != "caller" || p.Client.Principal().ID != "user:ann" || p.Client.Version != 5 || p.Client.Listener != "mqtt" {
		t.Errorf("client %+v", p.Client)
	}
	if p.Topic != "bridge/request" || string(p.Payload) != "question" || p.QoS != 1 || p.Retain {
		t.Errorf("message %+v", p.Message)
	}
	if p.ResponseTopic != "client/caller/response" || string(p.CorrelationData) != "\x00\x01\x02" || p.ContentType != "application/json" || p.Expiry != 30*time.Second {
		t.Errorf("properties %+v", p.Message)
	}
	if p.Property("trace_id") != "t" || p.Property("k") != "1" || len(p.UserProperties) != 3 {
		t.Errorf("user properties %v", p.UserProperties)
	}

	receivers, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{
		Topic: p.ResponseTopic, Payload: []byte("answer"), QoS: 1, Expiry: 1500 * time.Millisecond,
		ContentType: p.ContentType, CorrelationData: p.CorrelationData, UserProperties: p.UserProperties,
	})
	if err != nil || receivers != 1 {
		t.Fatalf("publish: %d receivers, %v", receivers, err)
	}
	m := caller.receive()
	if string(m.Payload) != "answer" || m.QoS != 1 || string(m.Properties.CorrelationData) != "\x00\x01\x02" ||
		m.Properties.ContentType != "application/json" || *m.Properties.MessageExpiry == 0 || *m.Properties.MessageExpiry > 2 {
		t.Errorf("answer %+v %+v", m, m.Properties)
	}
	if !slices.Equal(m.Properties.User, paho.UserProperties{{Key: "k", Value: "1"}, {Key: "trace_id", Value: "t"}, {Key: "k", Value: "2"}}) {
		t.Errorf("user properties %v", m.Properties.User)
	}
}

func TestPublishCountsConnectedReceivers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.connect("a").subscribe("x/+", 0)
	n.connect("b").subscribe("x/y", 1)
	n.connect("s1").subscribe("$share/g/x/y", 0)
	n.connect("s2").subscribe("$share/g/x/y", 0)
	away := n.connect("away", keepSession)
	away.subscribe("x/y", 1)
	_ = away.Disconnect(&paho.Disconnect{})
	eventually.Holds(t, "away is gone", func() bool { return countClients(n) == 4 })

	for topic, want := range map[string]int{"x/y": 3, "x/z": 1, "nobody": 0} {
		if got, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: topic}); err != nil || got != want {
			t.Errorf("Publish(%s) = %d, %v; want %d", topic, got, err, want)
		}
	}
	for _, topic := range []string{"", "a/+", "#"} {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: topic}); err == nil {
			t.Errorf("Publish(%q) was accepted", topic)
		}
	}
}

func TestSharedSubscriptionDeliversToOneConnectedMember(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	away := n.connect("away", keepSession)
	away.subscribe("$share/g/work", 1)
	_ = away.Disconnect(&paho.Disconnect{})
	eventually.Holds(t, "away is gone", func() bool { return countClients(n) == 0 })
	here := n.connect("here")
	here.subscribe("$share/g/work", 1)
	for i := range 10 {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "work", Payload: fmt.Append(nil, i), QoS: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if m := here.receive(); string(m.Payload) != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, m.Payload)
		}
	}
}

func countClients(n *node) int {
	count := 0
	for range n.Clients() {
		count++
	}
	return count
}

func TestPresenceIsToldInOrder(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev")
	c.subscribe("a/#", 0)
	c.subscribe("$share/g/b", 0)
	if _, err := c.trySubscribe("forbidden/x", 0); err == nil {
		t.Error("forbidden filter was granted")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{"a/#"}}); err != nil {
		t.Fatal(err)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	n.seen.expect(t, "dev connected v5", "dev subscribed a/#", "dev subscribed $share/g/b", "dev unsubscribed a/#", "dev disconnected: client disconnected")
}

func TestClientIsKnownWhenItsConnackArrives(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for i := range 50 {
		id := fmt.Sprint("c", i)
		n.connect(id)
		if !slices.ContainsFunc(slices.Collect(n.Clients()), func(c *broker.Client) bool { return c.ID == id }) {
			t.Fatalf("%s is not among the clients", id)
		}
	}
}

func TestLostConnectionEndsPresence(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev")
	_ = c.conn.Close()
	n.seen.expect(t, "dev connected v5", "dev disconnected: connection lost")
}

func TestResumedSessionTellsItsSubscriptions(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev", keepSession)
	c.subscribe("a", 1)
	_ = c.conn.Close()
	eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 0 })
	_, ack, err := n.dial("dev", keepSession)
	if err != nil || !ack.SessionPresent {
		t.Fatalf("session present %v, %v", ack.SessionPresent, err)
	}
	n.seen.expect(t, "dev connected v5", "dev subscribed a", "dev disconnected: connection lost", "dev connected v5", "dev subscribed a")
}

func TestRefusedPublishIsNotRoutedAndSaysWhy(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	listener := n.connect("listener")
	listener.subscribe("#", 2)
	c := n.connect("dev")
	for qos := range byte(3) {
		r, err := c.tryPublish(&paho.Publish{Topic: "forbidden/x", QoS: qos, Payload: []byte("x")})
		if qos == 0 {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		if code, text := reasonOf(t, r, err); code != 0x87 || text != "not your topic" {
			t.Errorf("QoS %d: reason %#x %q", qos, code, text)
		}
	}
	r, err := c.tryPublish(&paho.Publish{Topic: "fleeting/x", QoS: 1, Retain: true})
	if code, text := reasonOf(t, r, err); code != 0x9A || text != "nothing is retained here" {
		t.Errorf("retained: reason %#x %q", code, text)
	}
	c.publish(&paho.Publish{Topic: "fleeting/x", QoS: 2, Payload: []byte("fine")})
	if m := listener.receive(); string(m.Payload) != "fine" {
		t.Errorf("routed %s on %s", m.Payload, m.Topic)
	}
	n.nothingElse(listener)
}

func TestRefusedSubscriptionSaysWhyAndOthersOfThePacketStand(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ack, _ := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: "fine", QoS: 1}, {Topic: "forbidden/#"}, {Topic: "$share/g/forbidden/x"},
	}})
	if ack == nil || !slices.Equal(ack.Reasons, []byte{1, 0x87, 0x87}) || ack.Properties.ReasonString != "not your filter" {
		t.Fatalf("SUBACK %+v", ack)
	}
	_, _ = n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "forbidden/x"})
	_, _ = n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "fine"})
	if m := c.receive(); m.Topic != "fine" {
		t.Errorf("received %s", m.Topic)
	}
}

func TestWillIsJudgedWhenItFires(t *testing.T) {
	t.Parallel()
	var handled recorder
	n := newHandlingNode(t, func(b *broker.Broker) {
		b.Handle("#", func(p *broker.Publication) { handled.add("%s %s %s", p.Client.ID, p.Topic, p.Payload) })
	})
	listener := n.connect("listener")
	listener.subscribe("#", 0)
	for _, topic := range []string{"forbidden/will", "wills/dev"} {
		c := n.connect("dev", func(c *paho.Connect) {
			c.WillMessage = &paho.WillMessage{Topic: topic, Payload: []byte("gone")}
		})
		_ = c.conn.Close()
		eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 1 })
	}
	if m := listener.receive(); m.Topic != "wills/dev" || string(m.Payload) != "gone" {
		t.Errorf("will %s %s", m.Topic, m.Payload)
	}
	handled.expect(t, "dev wills/dev gone")
	n.nothingElse(listener)
}

func TestTakeoverIsForTheSamePrincipalOnly(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	first := n.connect("dev", as("ann"))
	_, ack, err := n.dial("dev", as("bob"))
	if err == nil || ack == nil || ack.ReasonCode != 0x87 {
		t.Fatalf("bob took over: %+v, %v", ack, err)
	}
	n.connect("dev", as("ann"))
	if d := <-first.dropped; d.ReasonCode != 0x8E {
		t.Errorf("first was told %#x", d.ReasonCode)
	}
	n.seen.expect(t, "dev connected v5", "dev disconnected: session takeover", "dev connected v5")
	if countClients(n) != 1 {
		t.Errorf("%d clients", countClients(n))
	}
}

func TestKeptSessionBelongsToItsPrincipal(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev", as("ann"), keepSession)
	_ = c.Disconnect(&paho.Disconnect{})
	eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 0 })
	if _, ack, err := n.dial("dev", as("bob")); err == nil || ack.ReasonCode != 0x87 {
		t.Fatalf("bob took ann's session: %+v", ack)
	}
	c = n.connect("dev", as("ann")) // clean start, no expiry: gives the id up at the end
	_ = c.Disconnect(&paho.Disconnect{})
	eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 0 })
	eventually.Holds(t, "the id is free", func() bool {
		_, _, err := n.dial("dev", as("bob"))
		return err == nil
	})
}

func TestConnectIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *broker.Options) {
		o.Authenticate = func(ctx context.Context, shown broker.Credentials) (*protocol.Principal, error) {
			if shown.ClientID == "away" {
				return nil, errors.New("the store is away")
			}
			return authenticate(ctx, shown)
		}
	})
	for _, c := range []struct {
		id, password string
		want         byte
	}{
		{"dev", "wrong", 0x86},
		{"away", "ann", 0x88},
		{strings.Repeat("x", 257), "ann", 0x85},
	} {
		_, ack, err := n.dial(c.id, as("ann"), func(p *paho.Connect) { p.Password = []byte(c.password) })
		if err == nil || ack == nil || ack.ReasonCode != c.want {
			t.Errorf("%.10s/%s: %+v, want %#x", c.id, c.password, ack, c.want)
		}
	}
	if lines := n.seen.all(); len(lines) != 0 {
		t.Errorf("presence was told %q", lines)
	}
}

func TestEmptyClientIDIsAssigned(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	_, ack, err := n.dial("")
	if err != nil || ack.Properties.AssignedClientID == "" {
		t.Fatalf("%+v, %v", ack, err)
	}
	for c := range n.Clients() {
		if c.ID != ack.Properties.AssignedClientID {
			t.Errorf("client %s, assigned %s", c.ID, ack.Properties.AssignedClientID)
		}
	}
}

func TestDisconnectTellsReason(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev")
	if !n.Disconnect(home("dev"), 0x98, "certificate revoked") {
		t.Error("dev was not found")
	}
	d := <-c.dropped
	if d.ReasonCode != 0x98 || d.Properties.ReasonString != "certificate revoked" {
		t.Errorf("DISCONNECT %#x %+v", d.ReasonCode, d.Properties)
	}
	n.seen.expect(t, "dev connected v5", "dev disconnected: certificate revoked")
	if n.Disconnect(home("dev"), 0x98, "") || n.Disconnect(home("nobody"), 0x98, "") {
		t.Error("disconnected who is not there")
	}
}

func TestPacketOverTheLimitEndsTheConnection(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *broker.Options) { o.MaxPacket = 2000 })
	c, ack, err := n.dial("dev")
	if err != nil || ack.Properties.MaximumPacketSize == nil || *ack.Properties.MaximumPacketSize != 2000 {
		t.Fatalf("CONNACK %+v, %v", ack, err)
	}
	c.publish(&paho.Publish{Topic: "x", QoS: 1, Payload: make([]byte, 1900)})
	// Written by hand: the client keeps the announced limit.
	_, _ = c.conn.Write(append([]byte{0x30, 0xD1, 0x0F, 0, 1, 'x', 0}, make([]byte, 2001-4)...))
	eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 0 })
}

func TestMalformedPacketCostsOnlyItsSender(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	other := n.connect("other")
	other.subscribe("x", 0)
	for name, packet := range map[string][]byte{
		"subscribe without options": {0x82, 6, 0, 1, 0, 0, 1, 'x'},
		"publish without topic":     {0x30, 0},
		"unknown property":          {0x30, 5, 0, 1, 'x', 1, 0x7f},
		"reserved type":             {0x00, 0},
		"endless length":            {0x30, 0xff, 0xff, 0xff, 0xff, 0xff},
		"second connect":            {0x10, 13, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0, 0, 0},
	} {
		c := n.connect("bad")
		_, _ = c.conn.Write(packet)
		_ = c.conn.SetReadDeadline(time.Now().Add(patience))
		eventually.Holds(t, name+": connection is ended", func() bool { return countClients(n) == 1 })
	}
	garbage, err := net.Dial("tcp", n.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	_, _ = garbage.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	_ = garbage.SetReadDeadline(time.Now().Add(patience))
	if _, err := garbage.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("HTTP on the MQTT port: %v", err)
	}
	if got, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x"}); err != nil || got != 1 {
		t.Fatalf("publish: %d, %v", got, err)
	}
	other.receive()
}

func TestCloseTellsClientsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.connect("dev")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if d := <-c.dropped; d.ReasonCode != 0x8B {
		t.Errorf("DISCONNECT %#x", d.ReasonCode)
	}
	if _, err := net.Dial("tcp", n.tcp); err == nil {
		t.Error("still listening")
	}
	if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x"}); err == nil {
		t.Error("still publishing")
	}
	n.seen.expect(t, "dev connected v5", "dev disconnected: server shutting down")
}

// A handler may bring about the stop of its broker, as the answer to the last
// call does; the message that it handles is acknowledged all the same.
func TestCloseAcknowledgesWhatItTook(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]int{"shared readers": 1, "a goroutine for each connection": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handling, listening := make(chan struct{}), make(chan struct{})
			n := newHandlingNode(t, func(b *broker.Broker) {
				b.Handle("last", func(*broker.Publication) {
					close(handling)
					<-listening
				})
			}, func(o *broker.Options) { o.Readers = readers })
			c := n.connect("dev")
			closed := make(chan error, 1)
			go func() {
				<-handling
				go func() {
					defer close(listening)
					eventually.Holds(t, "the close is under way", func() bool {
						_, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x"})
						return err != nil
					})
				}()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				closed <- n.Close(ctx)
			}()
			c.publish(&paho.Publish{Topic: "last", QoS: 1})
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if d := <-c.dropped; d.ReasonCode != 0x8B {
				t.Errorf("DISCONNECT %#x", d.ReasonCode)
			}
		})
	}
}

func TestCloseDoesNotWaitForConnectionsWithoutConnect(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	silent, err := net.Dial("tcp", n.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n.connect("dev")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("silent connection: %v", err)
	}
}

func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, err := net.Dial("tcp", n.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte{0x10, 16, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0, 0, 3, 'd', 'e', 'v'})
	_, _ = c.Write([]byte{0x82, 7, 0, 1, 0, 0, 1, 'x', 0})
	eventually.Holds(t, "dev subscribed", func() bool { return slices.Contains(n.seen.all(), "dev subscribed x") })
	for range 100 {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x", Payload: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	if !n.Disconnect(home("dev"), 0x98, "slow") {
		t.Error("dev was not found")
	}
	eventually.Holds(t, "dev is gone", func() bool { return countClients(n) == 0 })
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset") }

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx, "extra", l) }()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
