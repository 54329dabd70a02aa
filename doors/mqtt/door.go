// Package mqtt is the door of MQTT clients.
//
// [NewServer] gives the broker the rules of the bridge: who comes in, which
// topics they use, how much they take. [Clients] are those who are in, for the
// parts of the bridge that publish to them or end what they have. A [Door]
// takes their commands: a publication on the bridge's request topic becomes a
// command, its answer a publication on the requester's response topic.
package mqtt

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
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

// A Southbound answers requests of the southbound dialect, as a [Router] does.
type Southbound interface {
	Submit(in commands.Inbound, reply func(*protocol.SouthboundResponse))
}

// A Publisher sends messages of the bridge's own. It keeps nothing of them.
type Publisher interface {
	Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error)
}

// Options configure a [Door].
type Options struct {
	Router Router
	// Southbound takes requests of that dialect
	// (docs/protocol.md#the-southbound-dialect). Optional.
	Southbound Southbound
	Publisher  Publisher
	Topics     protocol.Topics
	BridgeID   string
	Limits     protocol.Limits
	// MayRespond reports whether answers to the principal may go to a topic
	// (docs/protocol.md#mqtt-5): the bridge is nobody's deputy.
	MayRespond func(who *protocol.Principal, topic string) bool
	// Gone returns a context that ends when no answer to a client on a topic
	// is of use any more, nil if that will not be known. Optional.
	Gone func(of broker.SessionID, topic string) context.Context
	// Held says that nothing leaves the publisher before what the auditor took
	// is on record, see [broker.Broker.BeforeWrite].
	Held bool
	Log  *slog.Logger
}

// Name marks calls by this door.
const Name = "mqtt"

// A Door takes commands from MQTT clients.
type Door struct{ Options }

// New returns a door.
func New(o Options) *Door { return &Door{o} }

// Open has a broker hand in what its clients publish. Call it before
// [broker.Broker.Serve].
func (d *Door) Open(b *broker.Broker) {
	b.Handle(d.Topics.BridgeRequest(), d.Request)
	b.AfterHandlers(d.Flush)
}

// Request takes one publication on the request topic. It does not block: the
// answer is published when there is one.
func (d *Door) Request(p *broker.Publication) {
	who, memory := p.Client.Principal(), memoryOf(p.Client, d.Topics)
	p.HearsMore = true // the answer
	refused := p.ResponseTopic != "" && p.ResponseTopic != memory.answers && !d.MayRespond(who, p.ResponseTopic)
	to := requesters.Get().(*requester)
	to.door, to.party, to.client, to.topic, to.qos = d, who.Party(), p.Client.ID, p.ResponseTopic, p.QoS
	if to.methods.reply == nil {
		to.methods = methods{to.reply, to.emit, to.free}
	}
	if n := len(p.CorrelationData); n > 0 {
		to.correlation = append(to.room[:0], p.CorrelationData...)
	}
	if p.Expiry > 0 {
		to.expires = time.Now().Add(p.Expiry)
	}
	if to.topic == "" || refused {
		to.topic = memory.answers
	}
	if refused {
		d.refuse(to, p)
		return
	}
	in := commands.Inbound{
		Principal:   who,
		Body:        p.Payload,
		Expiry:      p.Expiry,
		Arrived:     p.At,
		Door:        Name,
		Client:      p.Client.ID,
		Address:     p.Client.Address(),
		Traceparent: p.Property(protocol.TraceparentProperty),
		Emit:        to.methods.emit,
		Audience:    to,
		Matched:     len(to.correlation) > 0,
		Batched:     true,
		Held:        d.Held,
		Plans:       &memory.plans,
		Free:        to.methods.free,
	}
	if d.Southbound != nil && protocol.IsSouthbound(p.Payload) {
		d.Southbound.Submit(in, to.replySouthbound)
		return
	}
	d.Router.Submit(in, to.methods.reply)
}

// Flush lets the commands go on that came since it was called last. It is for
// [broker.Broker.AfterHandlers]: what they have to write to disk is written
// together.
func (d *Door) Flush() { d.Router.Flush() }

// A requester is where the answer to a request goes. It outlives the publication
// it was made from.
type requester struct {
	door        *Door
	party       protocol.Party // that asks, who alone hears the answer
	client      string         // that asks
	topic       string
	qos         byte
	correlation []byte
	expires     time.Time // zero when the request had no Message Expiry

	room [24]byte // for the Correlation Data of most

	methods methods // its own
}

// methods are those of a requester as functions, which are made once.
type methods struct {
	reply func(*protocol.Response)
	emit  func(*protocol.Event)
	free  func()
}

var requesters = sync.Pool{New: func() any { return new(requester) }}

// free lets another request have the memory.
func (a *requester) free() {
	*a = requester{methods: a.methods}
	requesters.Put(a)
}

func (a *requester) reply(r *protocol.Response) {
	l := answerBuffers.Get().(*answerBuffer)
	l.payload = r.Append(l.payload[:0])
	a.send(l, r.Metadata.TraceID)
}

func (a *requester) replySouthbound(r *protocol.SouthboundResponse) {
	l := answerBuffers.Get().(*answerBuffer)
	l.payload = r.Append(l.payload[:0])
	a.send(l, r.TraceID)
}

// Gone implements [commands.Audience].
func (a *requester) Gone() context.Context {
	if a.door.Options.Gone == nil {
		return nil
	}
	return a.door.Options.Gone(broker.SessionID{Space: a.party.Space, Client: a.client}, a.topic)
}

// ReturnAddress implements [commands.Addressed].
func (a *requester) ReturnAddress() commands.ReturnAddress {
	return commands.ReturnAddress{Topic: a.topic, Correlation: bytes.Clone(a.correlation), QoS: a.qos}
}

func (a *requester) emit(e *protocol.Event) {
	l := answerBuffers.Get().(*answerBuffer)
	l.payload = e.Append(l.payload[:0])
	a.send(l, e.Metadata.TraceID)
}

// An answerBuffer holds the parts of one answer. Buffers are used again.
type answerBuffer struct {
	payload    []byte
	properties []protocol.UserProperty
}

var answerBuffers = sync.Pool{New: func() any { return new(answerBuffer) }}

// maxAnswerBuffer is the largest buffer that is kept for reuse, in bytes.
const maxAnswerBuffer = 64 << 10

// send publishes an answer.
func (a *requester) send(l *answerBuffer, traceID string) {
	l.properties = append(l.properties[:0], protocol.UserProperty{Key: "version", Value: protocol.Version})
	if traceID != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "trace_id", Value: traceID})
	}
	m := protocol.Message{
		Topic:           a.topic,
		Payload:         l.payload,
		QoS:             a.qos,
		ContentType:     protocol.ContentJSON,
		CorrelationData: a.correlation,
		UserProperties:  l.properties,
	}
	if !a.expires.IsZero() {
		// At the deadline itself the router answers 4007, which deserves to arrive.
		m.Expiry = max(time.Until(a.expires), time.Second)
	}
	if _, err := a.door.Publisher.Publish(protocol.Only(a.party), m); err != nil {
		a.door.Log.Warn("answer not published", "topic", a.topic, "error", err)
	}
	if cap(l.payload) <= maxAnswerBuffer {
		answerBuffers.Put(l)
	}
}

// refuse tells the requester, on its own response topic, that the Response
// Topic it asked for is not its to name. The command is not run.
func (d *Door) refuse(to *requester, p *broker.Publication) {
	why := protocol.Errorf(protocol.PermissionDenied, "the response topic is not one of yours").
		With("property", "response_topic").
		With("reason", "answers go under client/ of one of your own clients, or outside the bridge's root")
	if d.Southbound != nil && protocol.IsSouthbound(p.Payload) {
		if request, _ := protocol.DecodeSouthbound(p.Payload, d.Limits); request != nil {
			response := request.Answer(request.Destination, time.Now())
			response.Err = why
			to.replySouthbound(response)
			return
		}
	}
	response := protocol.Response{
		Version:   protocol.Version,
		Timestamp: time.Now().UnixMilli(),
		Err:       why,
		Metadata:  protocol.Metadata{SenderID: d.BridgeID},
	}
	if request, _ := protocol.DecodeRequest(p.Payload, d.Limits); request != nil {
		response.ID, response.Metadata.TraceID = request.ID, request.Metadata.TraceID
	}
	to.reply(&response)
}
