package bridgetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
)

// A Raw is a plain MQTT 5 client that knows nothing of the protocol's SDK:
// it sends and gets bytes on topics.
type Raw struct {
	*paho.Client
	ID       string
	Received chan *paho.Publish // messages on subscribed topics
	Connack  *paho.Connack      // how the bridge answered CONNECT, nil if it did not
	// Dismissed has the DISCONNECT of the bridge, if it sends one.
	Dismissed chan *paho.Disconnect
	conn      net.Conn

	mu   sync.Mutex
	seen []string // the last events of the connection, for a test that fails
}

// note keeps an event of the connection.
func (r *Raw) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen[max(len(r.seen)-4, 0):], fmt.Sprintf(format, args...))
}

// last is the last event of the connection.
func (r *Raw) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, "\n\t")
}

// silent adds nothing to the test's own CONNECT and AUTH.
type silent struct{}

func (silent) Authenticate(a *paho.Auth) *paho.Auth { return a }
func (silent) Authenticated()                       {}

// Connect opens a plain MQTT 5 connection, until the test ends. change may
// add to the CONNECT packet.
func (n *Node) Connect(t testing.TB, id string, change ...func(*paho.Connect)) *Raw {
	t.Helper()
	r, err := n.TryConnect(t, id, change...)
	if err != nil {
		t.Fatalf("connect %s: %v", id, err)
	}
	return r
}

// TryConnect is Connect for a client that may be refused.
func (n *Node) TryConnect(t testing.TB, id string, change ...func(*paho.Connect)) (*Raw, error) {
	t.Helper()
	conn, err := net.Dial("tcp", n.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, conn, id, change...)
}

// ConnectOver is [Node.TryConnect] over a connection that is made.
func ConnectOver(t testing.TB, conn net.Conn, id string, change ...func(*paho.Connect)) (*Raw, error) {
	t.Helper()
	return connect(t, conn, id, change...)
}

// TryConnectTLS is [Node.TryConnect] over TLS.
func (n *Node) TryConnectTLS(t testing.TB, config *tls.Config, id string, change ...func(*paho.Connect)) (*Raw, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", n.MQTTS, config)
	if err != nil {
		return nil, err
	}
	return connect(t, conn, id, change...)
}

func connect(t testing.TB, conn net.Conn, id string, change ...func(*paho.Connect)) (*Raw, error) {
	t.Helper()
	r := &Raw{ID: id, Received: make(chan *paho.Publish, 1024), Dismissed: make(chan *paho.Disconnect, 1), conn: conn}
	r.Client = paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn), // packets of paho leave in several writes
		OnServerDisconnect: func(d *paho.Disconnect) {
			r.note("dismissed with %#x", d.ReasonCode)
			r.Dismissed <- d
		},
		OnClientError: func(err error) { r.note("connection lost: %v", err) },
		AuthHandler:   silent{},
		PacketTimeout: Patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			r.note("%.300s on %s", p.Packet.Payload, p.Packet.Topic)
			r.Received <- p.Packet
			return true, nil
		}},
	})
	t.Cleanup(r.Drop)
	packet := &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60}
	for _, f := range change {
		f(packet)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	answer, err := r.Client.Connect(ctx, packet)
	r.Connack = answer
	return r, err
}

// Drop cuts the connection without a word, as a device does that loses power.
func (r *Raw) Drop() { _ = r.conn.Close() }

// Listen subscribes with QoS 1.
func (r *Raw) Listen(t testing.TB, filters ...string) {
	t.Helper()
	packet := &paho.Subscribe{}
	for _, f := range filters {
		packet.Subscriptions = append(packet.Subscriptions, paho.SubscribeOptions{Topic: f, QoS: 1})
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := r.Subscribe(ctx, packet); err != nil {
		t.Fatalf("subscribe %v: %v", filters, err)
	}
}

// Send publishes a payload with QoS 1.
func (r *Raw) Send(t testing.TB, topic, payload string) {
	t.Helper()
	r.send(t, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload)})
}

// SendCorrelated publishes a payload with QoS 1 and Correlation Data.
func (r *Raw) SendCorrelated(t testing.TB, topic, payload, correlation string) {
	t.Helper()
	r.send(t, &paho.Publish{
		Topic: topic, QoS: 1, Payload: []byte(payload), Properties: &paho.PublishProperties{CorrelationData: []byte(correlation)},
	})
}

func (r *Raw) send(t testing.TB, p *paho.Publish) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	// A device may be answering when its test is over, and its bridge ends.
	if _, err := r.Publish(ctx, p); err != nil && t.Context().Err() == nil {
		t.Fatalf("publish to %s: %v", p.Topic, err)
	}
}

// Next is the next message that arrives.
func (r *Raw) Next(t testing.TB) *paho.Publish {
	t.Helper()
	select {
	case p := <-r.Received:
		return p
	case <-time.After(Patience):
		t.Fatalf("%s gets no message; the last things that happened to it:\n\t%s", r.ID, r.last())
		return nil
	}
}

// Ask sends a request envelope and returns the answer to it. The client must
// listen on its response topic.
func (r *Raw) Ask(t testing.TB, envelope string) *protocol.Response {
	t.Helper()
	r.Send(t, "aibridge/bridge/request", envelope)
	return r.Answer(t)
}

// Answer is the next response that arrives.
func (r *Raw) Answer(t testing.TB) *protocol.Response {
	t.Helper()
	p := r.Next(t)
	response, err := protocol.DecodeResponse(p.Payload, protocol.Limits{})
	if err != nil {
		t.Fatalf("%s got no response but %s: %v", r.ID, p.Payload, err)
	}
	return response
}

// Caller connects a client that listens for answers.
func (n *Node) Caller(t testing.TB, id string, change ...func(*paho.Connect)) *Raw {
	t.Helper()
	r := n.Connect(t, id, change...)
	r.Listen(t, "aibridge/client/"+id+"/response")
	return r
}

// Request is a request envelope as text.
func Request(id, command, params string) string {
	return fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":%q,"params":%s,"metadata":{}}`, id, command, params)
}

// Device connects a plain MQTT client, registers it as an agent with one skill
// and listens for its requests. capabilities is a JSON list.
func (n *Node) Device(t testing.TB, agent, skill, capabilities string, change ...func(*paho.Connect)) *Raw {
	t.Helper()
	r := n.Caller(t, agent, change...)
	for _, envelope := range []string{
		Request("register-"+agent, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, agent)),
		Request("skill-"+agent, "skill.register", fmt.Sprintf(
			`{"agent_id":%q,"skill":{"skill_id":%q,"name":%q,"description":"for tests","version":"1.0.0","type":"custom","capabilities":%s}}`,
			agent, skill, skill, capabilities)),
	} {
		if answer := r.Ask(t, envelope); answer.Err != nil {
			t.Fatalf("%s: %v", envelope, answer.Err)
		}
	}
	r.Listen(t, "aibridge/agent/"+agent+"/request")
	return r
}

// Invocation is the next invocation a device gets.
func (r *Raw) Invocation(t testing.TB) *protocol.Request {
	t.Helper()
	p := r.Next(t)
	request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
	if err != nil {
		t.Fatalf("%s got no request but %s: %v", r.ID, p.Payload, err)
	}
	return request
}

// Reply answers an invocation with a result.
func (r *Raw) Reply(t testing.TB, agent string, to *protocol.Request, result any) {
	t.Helper()
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	answer := to.Answer(agent, time.Now())
	answer.Result = data
	r.Send(t, "aibridge/agent/"+agent+"/response", string(answer.Append(nil)))
}
