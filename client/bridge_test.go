package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience bounds every wait; nothing comes near it unless it fails.
const patience = eventually.Patience

// A bridge is a broker with a script behind it.
type bridge struct {
	t      testing.TB
	addr   string // stays the same when it is started again
	engine atomic.Pointer[broker.Broker]

	mu       sync.Mutex
	script   map[string]script
	requests []*protocol.Request // as they came
	agents   chan protocol.Envelope
}

// A script answers a command: with a result or an error, or not at all when
// it returns errSilent.
type script func(*protocol.Request, *broker.Publication) (any, error)

var errSilent = protocol.Errorf(protocol.Internal, "silence")

func newBridge(t testing.TB) *bridge {
	t.Helper()
	b := &bridge{t: t, script: make(map[string]script), agents: make(chan protocol.Envelope, 100)}
	for _, command := range []string{"agent.register", "agent.heartbeat", "skill.register", "skill.unregister"} {
		b.on(command, func(*protocol.Request, *broker.Publication) (any, error) { return struct{}{}, nil })
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *bridge) start() {
	b.t.Helper()
	engine, err := broker.New(broker.Options{
		Authenticate: func(_ context.Context, shown broker.Credentials) (*protocol.Principal, error) {
			if shown.Username != "" && (shown.Username != "apikey" || string(shown.Password) != "good") {
				return nil, protocol.Errorf(protocol.CredentialInvalid, "no")
			}
			return &protocol.Principal{ID: "tester", Space: protocol.DefaultSpace}, nil
		},
		Permissions: rights{},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	engine.Handle("aibridge/bridge/request", b.request)
	engine.Handle("aibridge/agent/+/response", func(p *broker.Publication) {
		m, err := protocol.DecodeEnvelope(p.Payload, protocol.Limits{})
		if err != nil {
			b.t.Errorf("an agent published %s: %v", p.Payload, err)
		}
		b.agents <- m
	})
	l := b.listen()
	b.engine.Store(engine)
	go func() { _ = engine.Serve(context.Background(), "mqtt", l) }()
}

// listen takes a port the first time, and the same one from then on.
func (b *bridge) listen() net.Listener {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		address := b.addr
		if address == "" {
			address = freeport.Address()
		}
		l, err := net.Listen("tcp", address)
		if err == nil {
			if b.addr == "" {
				b.addr = address
			}
			return l
		}
		if time.Now().After(deadline) {
			b.t.Fatal(err)
		}
	}
}

func (b *bridge) publish(m protocol.Message) (int, error) {
	return b.engine.Load().Publish(protocol.Everybody(protocol.DefaultSpace), m)
}

func (b *bridge) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.engine.Load().Close(ctx); err != nil {
		b.t.Errorf("close the broker: %v", err)
	}
}

// rights refuse forbidden/… to all.
type rights struct{}

func (rights) MayPublish(_ *broker.Client, topic string, _ bool) broker.Verdict {
	return rights{}.MaySubscribe(nil, topic)
}

func (rights) MaySubscribe(_ *broker.Client, filter string) broker.Verdict {
	if strings.HasPrefix(filter, "forbidden/") {
		return broker.NotAuthorized("not yours")
	}
	return broker.Verdict{}
}

func (b *bridge) url() string { return "mqtt://" + b.addr }

func (b *bridge) on(command string, s script) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script[command] = s
}

// request answers as the script says.
func (b *bridge) request(p *broker.Publication) {
	request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
	if err != nil {
		b.t.Errorf("request %s: %v", p.Payload, err)
		return
	}
	b.mu.Lock()
	b.requests = append(b.requests, request)
	answer := b.script[request.Command]
	b.mu.Unlock()
	response := request.Answer("bridge", time.Now())
	if answer == nil {
		response.Err = protocol.Errorf(protocol.UnknownCommand, "no script for %s", request.Command)
	} else if result, err := answer(request, p); err == errSilent {
		return
	} else if err != nil {
		response.Err = protocol.AsError(err)
	} else {
		response.Result, _ = json.Marshal(result)
	}
	b.reply(p, response.Append(nil))
}

// reply publishes to the requester.
func (b *bridge) reply(p *broker.Publication, payload []byte) {
	topic := p.ResponseTopic
	if topic == "" {
		topic = "aibridge/client/" + p.Client.ID + "/response"
	}
	if _, err := b.publish(protocol.Message{Topic: topic, Payload: payload, QoS: 1, CorrelationData: slices.Clone(p.CorrelationData)}); err != nil {
		b.t.Logf("reply: %v", err)
	}
}

// asked lists the requests of a command so far.
func (b *bridge) asked(command string) []*protocol.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*protocol.Request
	for _, r := range b.requests {
		if r.Command == command {
			found = append(found, r)
		}
	}
	return found
}

// connected lists the client ids that are connected.
func (b *bridge) connected() []string {
	var ids []string
	for c := range b.engine.Load().Clients() {
		ids = append(ids, c.ID)
	}
	return ids
}

func (b *bridge) dial(opts ...client.Option) *client.Client {
	b.t.Helper()
	c, err := client.Dial(soon(b.t), b.url(), opts...)
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Errorf("close: %v", err)
		}
	})
	return c
}

// invoke sends an invocation to the agent "a".
func (b *bridge) invoke(id, params string, change ...func(*protocol.Request)) {
	b.t.Helper()
	b.toAgent(id, "skill.invoke", params, change...)
}

// invokeFor is invoke on behalf of a caller.
func (b *bridge) invokeFor(caller, id, params string) {
	b.t.Helper()
	b.send(id, "skill.invoke", params, []protocol.UserProperty{{Key: "caller", Value: caller}})
}

func (b *bridge) toAgent(id, command, params string, change ...func(*protocol.Request)) {
	b.t.Helper()
	b.send(id, command, params, nil, change...)
}

func (b *bridge) send(id, command, params string, properties []protocol.UserProperty, change ...func(*protocol.Request)) {
	b.t.Helper()
	r := &protocol.Request{ID: id, Timestamp: time.Now().UnixMilli(), Command: command, Params: []byte(params)}
	r.Metadata = protocol.Metadata{TraceID: "trace-" + id, Timeout: patience, Events: true}
	for _, f := range change {
		f(r)
	}
	n, err := b.publish(protocol.Message{Topic: "aibridge/agent/a/request", Payload: r.Append(nil), QoS: 1, CorrelationData: []byte(id), UserProperties: properties})
	if err != nil || n != 1 {
		b.t.Fatalf("invocation reached %d agents, %v", n, err)
	}
}

// heard is the next message of an agent.
func (b *bridge) heard() protocol.Envelope {
	b.t.Helper()
	select {
	case m := <-b.agents:
		return m
	case <-time.After(patience):
		b.t.Fatal("the agent is silent")
		return protocol.Envelope{}
	}
}

// answer is the next message of an agent, which must be a response.
func (b *bridge) answer(id string) *protocol.Response {
	b.t.Helper()
	m := b.heard()
	if m.Response == nil || m.Response.ID != id {
		b.t.Fatalf("no answer to %s: %+v", id, m)
	}
	return m.Response
}

// event is the next message of an agent, which must be an event.
func (b *bridge) event(name string) *protocol.Event {
	b.t.Helper()
	m := b.heard()
	if m.Event == nil || m.Event.Name != name {
		b.t.Fatalf("no %s: %+v", name, m)
	}
	return m.Event
}

// soon is a context for what should work.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func expectCode(t *testing.T, err error, want protocol.Code) *protocol.Error {
	t.Helper()
	e := new(protocol.Error)
	if !errors.As(err, &e) || e.Code != want {
		t.Fatalf("error %v, want %s %s", err, want, want)
	}
	return e
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
