package app

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/quota"
)

// guests may use the channel of every Cap, as long as they are in.
type guests struct {
	security.Standing
	in atomic.Pointer[map[string]bool]
}

func (g *guests) MayUseChannel(who *protocol.Principal, _ protocol.CapID, _ bool) bool {
	return (*g.in.Load())[who.ID]
}

// byName lets everybody in as the user it says it is.
type byName struct{ mqttdoor.Authenticator }

// Recognise implements [mqttdoor.Authenticator].
func (byName) Recognise(_ security.Shown, user string, _ []byte) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindSkill, ID: user, Space: protocol.DefaultSpace, Method: protocol.MethodAnonymous}
}

// TestWhoLosesMembershipLosesTheSubscription has real clients on a broker
// that knows them by their user names.
func TestWhoLosesMembershipLosesTheSubscription(t *testing.T) {
	t.Parallel()
	members := new(guests)
	members.in.Store(&map[string]bool{"in": true, "out": true})
	engine, err := policy.New(policy.Options{Actions: Commands()})
	if err != nil {
		t.Fatal(err)
	}
	quotas, err := quota.New(quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	credentials := security.NewCredentials(clock.New())
	credentials.Use(security.Sources{Dev: true})
	clients := mqttdoor.NewClients(protocol.NewTopics(""), slog.New(slog.DiscardHandler))
	rights := security.NewTopicRights(security.TopicOptions{Topics: clients.Topics(), Policies: engine, Owner: clients.Owner, Standing: members})
	agents, err := registry.New(registry.Options{
		Agents: recordstest.New[registry.Agent](), Skills: recordstest.New[registry.SkillRecord](), Resources: recordstest.New[registry.ResourceRecord](), Publisher: clients,
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := mqttdoor.NewServer(mqttdoor.ServerOptions{
		Clients: clients, Agents: agents, Authenticator: byName{}, Credentials: credentials, Rights: rights, Quotas: quotas,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(context.Background(), "mqtt", l) }()
	t.Cleanup(func() { _ = server.Close(context.Background()) })

	in, out := dialAs(t, l.Addr(), "in"), dialAs(t, l.Addr(), "out")
	for _, c := range []*member{in, out} {
		if code := c.subscribe(t, "aibridge/cap/home/message/#"); code != 1 {
			t.Fatalf("SUBACK %#x", code)
		}
	}
	if code := in.subscribe(t, "aibridge/cap/+/message/#"); code != 0x87 {
		t.Errorf("a wildcard for all Caps: SUBACK %#x", code)
	}
	in.publish(t, "aibridge/cap/home/message/a")
	in.expect(t)
	out.expect(t)

	members.in.Store(&map[string]bool{"in": true})
	engine.FactsChanged()
	clients.ReviewCap("home")
	out.ended(t, clients)
	in.publish(t, "aibridge/cap/home/message/b")
	in.expect(t)
	if code := out.subscribe(t, "aibridge/cap/home/message/#"); code != 0x87 { // on the same connection
		t.Errorf("who left subscribes again: SUBACK %#x", code)
	}
	if code := out.subscribe(t, "elsewhere/#"); code != 1 {
		t.Errorf("who left may not listen elsewhere: SUBACK %#x", code)
	}
	in.publish(t, "elsewhere/c")
	if topic := out.expect(t); topic != "elsewhere/c" {
		t.Errorf("who left still hears %s", topic)
	}
}

type member struct {
	*paho.Client
	received chan string
}

func dialAs(t *testing.T, addr net.Addr, user string) *member {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m := &member{received: make(chan string, 16)}
	m.Client = paho.NewClient(paho.ClientConfig{
		Conn: conn, PacketTimeout: time.Minute,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			m.received <- p.Packet.Topic
			return true, nil
		}},
	})
	if _, err := m.Connect(t.Context(), &paho.Connect{ClientID: user, CleanStart: true, UsernameFlag: true, Username: user}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) subscribe(t *testing.T, filter string) byte {
	t.Helper()
	ack, err := m.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil {
		t.Fatalf("subscribe to %s: %v", filter, err)
	}
	return ack.Reasons[0]
}

func (m *member) publish(t *testing.T, topic string) {
	t.Helper()
	if _, err := m.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
}

func (m *member) expect(t *testing.T) (topic string) {
	t.Helper()
	select {
	case topic = <-m.received:
	case <-time.After(eventually.Patience):
		t.Fatal("a member hears nothing")
	}
	return topic
}

// ended waits until the client has no subscription left.
func (m *member) ended(t *testing.T, clients *mqttdoor.Clients) {
	t.Helper()
	deadline := time.Now().Add(eventually.Patience)
	for {
		if s, ok := clients.Session(protocol.DefaultSpace, "out"); ok && s.Subscriptions == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the subscription does not end")
		}
		time.Sleep(time.Millisecond) // the pace of the poll
	}
}
