package a2a

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// An Arrival is a request of JSON-RPC that came over MQTT.
type Arrival struct {
	Principal *protocol.Principal
	Agent     string // set of skills that it is for, "" for the bridge
	Body      []byte
	Mode      string       // of artifacts, as asked for: [JSONMode], [BinaryMode], or "" for no word about it
	Reply     func(Answer) // sends an answer, or one event of a stream
}

// An Answer is a message on the reply path of MQTT: of JSON-RPC, or bytes of an artifact.
type Answer struct {
	Body       []byte
	MediaType  string // of an artifact, "" if it is not known
	Properties []protocol.UserProperty
}

// say sends an answer of JSON-RPC.
func (m *Arrival) say(body []byte) {
	m.Reply(Answer{Body: body, MediaType: jsonType, Properties: m.chosen()})
}

// An Interface is the address of an agent, and its binding.
type Interface struct{ URL, Binding, Tenant string }

// CardOver is the public card of the bridge with one more interface, before the others.
func (d *Door) CardOver(at Interface) (json.RawMessage, error) {
	c := d.base("", "")
	c.Interfaces = []agentInterface{{at.URL, at.Binding, at.Tenant, Version}}
	if d.opts.URL != "" {
		c.Interfaces = append(c.Interfaces, d.base("", "").Interfaces...)
	}
	c.Capabilities.Push = false
	return json.Marshal(c)
}

// Take answers a request that came over MQTT. There the requester makes the id of a
// task (A2A over MQTT 0.1, Request/Reply Mapping).
func (d *Door) Take(ctx context.Context, m Arrival) {
	x := &exchange{rpc: true}
	r, err := readRPC(m.Body)
	if r != nil {
		x.id = r.id
	}
	if err != nil {
		m.inJSON()
		m.say(x.response(nil, asError(err)))
		return
	}
	if full := d.places.TryAcquire(fair.Of(m.Principal), 1); full != nil {
		m.say(x.response(nil, overMQTT(full)))
		return
	}
	defer d.places.Release(fair.Of(m.Principal), 1)
	ctx, release := grant.While(ctx, d.opts.Grants, grant.Of(m.Principal))
	defer release()
	c := &caller{env: tools.Environment{Principal: m.Principal, Space: m.Principal.Home()}, agent: m.Agent, names: true}
	op := operations[r.method]
	if op.stream == nil {
		m.inJSON()
		result, err := op.run(d, ctx, c, r.params)
		if err != nil {
			m.say(x.response(nil, overMQTT(err)))
			return
		}
		m.say(x.response(result, nil))
		return
	}
	s, err := op.stream(d, ctx, c, r.params)
	if err != nil {
		m.say(x.response(nil, overMQTT(err)))
		return
	}
	defer s.leave()
	d.pass(ctx, x, s, &m)
}

// pass sends the events of a stream until it ends: at the end of the task, or when the
// task waits for an input.
func (d *Door) pass(ctx context.Context, x *exchange, s *stream, m *Arrival) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.opts.Leaving.Done():
			return
		case event, ok := <-s.listener.events:
			if !ok {
				return
			}
			if event.Task != nil {
				event.Task.cut(s.cut)
			}
			for _, piece := range m.pieces(x, &event) {
				m.Reply(piece)
			}
			if state := event.state(); state.terminal() || state.interrupted() {
				return
			}
		}
	}
}

// Refuse answers a request that is not admitted.
func (d *Door) Refuse(m Arrival, err error) {
	m.inJSON()
	x := &exchange{rpc: true}
	if r, _ := readRPC(m.Body); r != nil {
		x.id = r.id
	}
	m.say(x.response(nil, overMQTT(err)))
}

// Unfit is the answer to a request without a property that MQTT demands.
func (d *Door) Unfit(body []byte, what string) []byte {
	x := &exchange{rpc: true}
	if r, _ := readRPC(body); r != nil {
		x.id = r.id
	}
	return x.response(nil, &Error{kind: &kind{"", -32005, http.StatusBadRequest, "INVALID_ARGUMENT"}, Message: what, transport: "transport_protocol_error"})
}

// overMQTT is an error as the profile has it.
func overMQTT(err error) *Error {
	e := asError(err)
	if e.kind.http == http.StatusServiceUnavailable || e.kind.http == http.StatusTooManyRequests {
		return &Error{kind: &kind{"", -32004, e.kind.http, "UNAVAILABLE"}, Message: e.Message, transport: "responder_unavailable"}
	}
	return e
}
