// Package mqttdoor is the front door for commands over MQTT. It only
// translates: a publication on the bridge's request topic becomes a command,
// its answer a publication on the requester's response topic.
package mqttdoor

import (
	"bytes"
	"log/slog"
	"strings"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Router runs commands. Submit must not block and must not keep Body.
type Router interface {
	Submit(in commands.Inbound, reply func(*protocol.Response))
	Flush()
}

// A Publisher sends messages of the bridge's own.
type Publisher interface {
	Publish(m broker.Message) (receivers int, err error)
}

// Options configure a [Door].
type Options struct {
	Router    Router
	Publisher Publisher
	Topics    protocol.Topics
	BridgeID  string
	Limits    protocol.Limits
	// MayRespond reports whether answers to the principal may go to a topic
	// (PROTOCOL §2): the bridge is nobody's deputy.
	MayRespond func(who *protocol.Principal, topic string) bool
	Log        *slog.Logger
}

// A Door takes commands from MQTT clients.
type Door struct{ Options }

// New returns a door.
func New(o Options) *Door { return &Door{o} }

// Request takes one publication on the request topic. It does not block: the
// answer is published when there is one.
func (d *Door) Request(p *broker.Publication) {
	refused := p.ResponseTopic != "" && !d.MayRespond(p.Client.Principal(), p.ResponseTopic)
	to := address{
		topic:       strings.Clone(p.ResponseTopic),
		qos:         p.QoS,
		correlation: bytes.Clone(p.CorrelationData),
	}
	if p.Expiry > 0 {
		to.expires = time.Now().Add(p.Expiry)
	}
	if to.topic == "" || refused {
		to.topic = d.Topics.ClientResponse(p.Client.ID)
	}
	if refused {
		d.refuse(to, p)
		return
	}
	d.Router.Submit(commands.Inbound{
		Principal:   p.Client.Principal(),
		Body:        p.Payload,
		Expiry:      p.Expiry,
		Door:        "mqtt",
		Client:      p.Client.ID,
		Address:     p.Client.Address(),
		Traceparent: strings.Clone(p.Property("traceparent")),
		Emit:        func(e *protocol.Event) { d.send(to, e.Append(nil), e.Metadata.TraceID) },
		Batched:     true,
	}, func(r *protocol.Response) {
		d.send(to, r.Append(nil), r.Metadata.TraceID)
	})
}

// Flush lets the commands go on that came since it was called last. It is for
// [broker.Broker.AfterHandlers]: what they have to write to disk is written
// together.
func (d *Door) Flush() { d.Router.Flush() }

// An address is where the answer to a request goes. It outlives the
// publication it was made from.
type address struct {
	topic       string
	qos         byte
	correlation []byte
	expires     time.Time // zero when the request had no Message Expiry
}

// refuse tells the requester, on its own response topic, that the Response
// Topic it asked for is not its to name. The command is not run.
func (d *Door) refuse(to address, p *broker.Publication) {
	response := protocol.Response{
		Version:   protocol.Version,
		Timestamp: time.Now().UnixMilli(),
		Err: protocol.Errorf(protocol.PermissionDenied, "the response topic is not one of yours").
			With("property", "response_topic").
			With("reason", "answers go under client/ of one of your own clients, or outside the bridge's root"),
		Metadata: protocol.Metadata{SenderID: d.BridgeID},
	}
	if request, _ := protocol.DecodeRequest(p.Payload, d.Limits); request != nil {
		response.ID, response.Metadata.TraceID = request.ID, request.Metadata.TraceID
	}
	d.send(to, response.Append(nil), response.Metadata.TraceID)
}

func (d *Door) send(to address, payload []byte, traceID string) {
	properties := append(make([]broker.UserProperty, 0, 2), broker.UserProperty{Key: "version", Value: protocol.Version})
	if traceID != "" {
		properties = append(properties, broker.UserProperty{Key: "trace_id", Value: traceID})
	}
	m := broker.Message{
		Topic:           to.topic,
		Payload:         payload,
		QoS:             to.qos,
		ContentType:     "application/json",
		CorrelationData: to.correlation,
		UserProperties:  properties,
	}
	if !to.expires.IsZero() {
		// At the deadline itself the router answers 4007, which deserves to arrive.
		m.Expiry = max(time.Until(to.expires), time.Second)
	}
	if _, err := d.Publisher.Publish(m); err != nil {
		d.Log.Warn("answer not published", "topic", to.topic, "error", err)
	}
}
