package conformance

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A bridge plays the bridge to one device. It answers commands as a script
// says, and keeps a record of all it sees.
type bridge struct {
	agent  protocol.AgentID
	secret string // the API key of the device
	topics protocol.Topics
	check  func(command string, params json.RawMessage) error

	broker  *broker.Broker
	proxy   *proxy
	stopped context.CancelFunc

	record record

	mu          sync.Mutex
	script      map[string][]reply // what to answer to the next requests, by command
	heartbeat   float64            // the interval that the device is told, in seconds
	tokens      []string           // the tokens that are good; none takes the key alone
	onSubscribe func()             // once, when the device subscribes to its requests
}

// A reply is what the bridge does with a request; the zero value is what it
// does by itself.
type reply struct {
	silent   bool // does not answer
	cut      bool // cuts the connection instead
	err      *protocol.Error
	result   string // JSON
	revision uint64 // of the state behind a write, in metadata
}

// quiet is a heartbeat interval in which nothing happens that a clause does
// not make happen.
const quiet = 3600

func newBridge(agent protocol.AgentID, check func(string, json.RawMessage) error) (*bridge, error) {
	b := &bridge{
		agent: agent, secret: "aibk_" + protocol.NewID(), topics: protocol.NewTopics(""),
		check: check, script: make(map[string][]reply), heartbeat: quiet,
	}
	b.record.changed = make(chan struct{})
	engine, err := broker.New(broker.Options{
		Authenticate: b.authenticate,
		Permissions:  b,
		Presence:     b,
		Enhanced:     map[string]broker.Method{"JWT": tokenMethod{b}, "APIKEY": tokenMethod{b}},
		Renewed:      func(c *broker.Client, _ *protocol.Principal) { b.record.add(sighting{kind: renewed, client: c.ID}) },
		ResponseInfo: func(c *broker.Client) string { return b.topics.ClientResponse(c.ID) },
	})
	if err != nil {
		return nil, err
	}
	b.broker = engine
	engine.Handle(b.topics.BridgeRequest(), b.requested)
	engine.Handle(b.topics.AgentResponse(agent), b.replied)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, b.stopped = context.WithCancel(context.Background())
	go func() { _ = engine.Serve(ctx, "mqtt", l) }() // ends with close
	b.proxy, err = newProxy(l.Addr().String())
	if err != nil {
		b.close()
	}
	return b, err
}

func (b *bridge) close() {
	if b.proxy != nil {
		b.proxy.close()
	}
	b.stopped()
	_ = b.broker.Close(context.Background())
}

// next sets what the bridge does with the next requests of a command.
func (b *bridge) next(command string, replies ...reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script[command] = replies
}

// set changes what the bridge does by itself.
func (b *bridge) set(change func(b *bridge)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *bridge) authenticate(_ context.Context, shown broker.Credentials) (*protocol.Principal, error) {
	secret := string(shown.Password)
	if b.good(secret) {
		b.record.add(sighting{kind: authenticated, client: shown.ClientID, text: secret})
		return &protocol.Principal{Kind: protocol.KindAgent, ID: string(b.agent)}, nil
	}
	b.record.add(sighting{kind: refused, client: shown.ClientID, text: secret})
	return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not the device's")
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// good says whether a secret is the device's.
func (b *bridge) good(secret string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tokens) == 0 {
		return same(secret, b.secret)
	}
	return slices.ContainsFunc(b.tokens, func(token string) bool { return same(secret, token) })
}

// tokenMethod takes a key or token by enhanced authentication.
type tokenMethod struct{ bridge *bridge }

func (m tokenMethod) Start(_ context.Context, shown broker.Credentials) (broker.Exchange, error) {
	return tokenExchange{m.bridge, shown}, nil
}

type tokenExchange struct {
	bridge *bridge
	shown  broker.Credentials
}

func (e tokenExchange) Next(ctx context.Context, data []byte) ([]byte, *broker.Identity, error) {
	shown := e.shown
	shown.Password = data
	who, err := e.bridge.authenticate(ctx, shown)
	if err != nil {
		return nil, nil, err
	}
	return nil, &broker.Identity{Principal: who}, nil
}

// MayPublish holds the device to docs/protocol.md#who-may-do-what.
func (b *bridge) MayPublish(_ *broker.Client, topic string, retain bool) broker.Verdict {
	_, ours := b.topics.Under(topic)
	if (!ours || topic == b.topics.BridgeRequest() || topic == b.topics.AgentResponse(b.agent)) && !(ours && retain) {
		return broker.Verdict{}
	}
	b.record.add(sighting{kind: violation, text: fmt.Sprintf("the device publishes on %s (retained: %v)", topic, retain)})
	return broker.NotAuthorized("a device publishes on its own response topic and on that of requests")
}

// MaySubscribe lets the device listen to its requests, its answers and public events.
func (b *bridge) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	switch _, ours := b.topics.Under(filter); {
	case filter == b.topics.AgentRequest(b.agent):
		b.mu.Lock()
		hook := b.onSubscribe
		b.onSubscribe = nil
		b.mu.Unlock()
		if hook != nil {
			hook()
		}
		return broker.Verdict{}
	case !ours, filter == b.topics.ClientResponse(c.ID):
		return broker.Verdict{}
	}
	b.record.add(sighting{kind: violation, text: "the device subscribes to " + filter})
	return broker.NotAuthorized("a device subscribes to its own requests and answers")
}

// Connected and the following implement [broker.Presence].
func (b *bridge) Connected(c *broker.Client) {
	b.record.add(sighting{kind: connected, client: c.ID})
}

func (b *bridge) Disconnected(c *broker.Client, reason string) {
	if b.proxy.hasCut(c.Remote) {
		b.record.add(sighting{kind: cut, client: c.ID})
		return
	}
	b.record.add(sighting{kind: disconnected, client: c.ID, text: reason})
}

func (b *bridge) Subscribed(c *broker.Client, filter string) {
	if filter == b.topics.AgentRequest(b.agent) && !b.proxy.hasCut(c.Remote) {
		b.record.add(sighting{kind: listening, client: c.ID})
	}
}

func (b *bridge) Unsubscribed(*broker.Client, string) {}

// publish sends a message to the device and says whether somebody listens.
func (b *bridge) publish(m protocol.Message) bool {
	n, err := b.broker.Publish(protocol.Everybody(protocol.DefaultSpace), m)
	return err == nil && n > 0
}

// severed says whether the broker has yet to learn that a connection was cut. What
// is sent to the device by then goes with that connection.
func (b *bridge) severed() bool {
	for c := range b.broker.Clients() {
		if b.proxy.hasCut(c.Remote) {
			return true
		}
	}
	return false
}

// requested takes a command of the device.
func (b *bridge) requested(p *broker.Publication) {
	request, err := protocol.DecodeRequest(bytes.Clone(p.Payload), protocol.Limits{})
	if err != nil {
		b.record.add(sighting{kind: violation, text: fmt.Sprintf("the device sends a request that is none: %v: %.200s", err, p.Payload)})
		return
	}
	if len(request.Deprecations) > 0 {
		b.record.add(sighting{kind: violation, text: "the device sends a request of an old form: " + strings.Join(request.Deprecations, ", ")})
	}
	r := reply{silent: true} // to a connection that is cut
	if !b.proxy.hasCut(p.Client.Remote) {
		r = b.replyTo(request)
	}
	b.record.add(sighting{kind: command, client: p.Client.ID, request: request, answered: !r.silent && !r.cut && r.err == nil})
	switch {
	case r.cut:
		b.proxy.cut()
		return
	case r.silent:
		return
	}
	response := request.Answer("bridge", time.Now())
	response.Err = r.err
	if r.err == nil {
		response.Result, response.Metadata.Revision = []byte(r.result), r.revision
	}
	topic := b.topics.ClientResponse(p.Client.ID)
	if p.ResponseTopic != "" {
		topic = p.ResponseTopic
	}
	b.publish(protocol.Message{
		Topic: topic, Payload: response.Append(nil), QoS: 1, CorrelationData: bytes.Clone(p.CorrelationData), ContentType: protocol.ContentJSON,
	})
}

// replyTo is the reply of the script, or of a bridge by itself.
func (b *bridge) replyTo(request *protocol.Request) reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.script[request.Command]; len(queue) > 0 {
		b.script[request.Command] = queue[1:]
		if queue[0] != (reply{}) {
			return queue[0]
		}
	}
	if b.check != nil {
		if err := b.check(request.Command, request.Params); err != nil {
			b.record.add(sighting{kind: violation, text: fmt.Sprintf("the params of %s are not as declared: %v", request.Command, err)})
			return reply{err: protocol.AsError(err)}
		}
	}
	status := fmt.Sprintf(`{"agent_id":%q,"status":"online","heartbeat_interval":%g}`, b.agent, b.heartbeat)
	switch request.Command {
	case "agent.register", "agent.heartbeat":
		return reply{result: status}
	case "skill.register":
		return reply{result: fmt.Sprintf(`{"skill_id":%q}`, Skill)}
	case "skill.unregister", "agent.unregister":
		return reply{result: `{}`}
	}
	return reply{err: protocol.Errorf(protocol.UnknownCommand, "this bridge knows no %s", request.Command)}
}

// replied takes an answer or an event of the device.
func (b *bridge) replied(p *broker.Publication) {
	payload := bytes.Clone(p.Payload)
	envelope, err := protocol.DecodeEnvelope(payload, protocol.Limits{})
	if err != nil || envelope.Request != nil {
		b.record.add(sighting{kind: violation, text: fmt.Sprintf("the device answers with what is no envelope: %v: %.200s", err, payload)})
		return
	}
	if envelope.Response != nil && len(envelope.Response.Deprecations) > 0 {
		b.record.add(sighting{kind: violation, text: "the device answers in an old form: " + strings.Join(envelope.Response.Deprecations, ", ")})
	}
	b.record.add(sighting{kind: answer, client: p.Client.ID, envelope: envelope, payload: payload})
}
