// Package topic serves MCP over MQTT: one JSON-RPC message on the topic of the
// bridge, its answer on the Response Topic with the same Correlation Data.
package topic

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/broker"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Topic]. All are needed.
type Options struct {
	Door   *mcpdoor.Door
	Broker *broker.Broker
	Topics protocol.Topics
	// MayRespond reports whether answers to the principal may go to a topic.
	MayRespond func(who *protocol.Principal, topic string) bool
	// Gone returns a context that ends when no answer to a client on a topic is
	// of use any more, nil if that will not be known.
	Gone func(of broker.SessionID, topic string) context.Context
	Log  *slog.Logger
}

// A Topic takes messages of MCP clients from the broker.
type Topic struct {
	Options
	open  context.Context // ends with Close
	close context.CancelFunc
}

// Open registers the topic at the broker. Call it before [broker.Broker.Serve].
func Open(o Options) *Topic {
	t := &Topic{Options: o}
	t.open, t.close = context.WithCancel(context.Background())
	o.Broker.Handle(o.Topics.BridgeMCP(), t.take)
	return t
}

// Close ends the calls that came by the topic.
func (t *Topic) Close(context.Context) error {
	t.close()
	return nil
}

// take takes one message. It does not block.
func (t *Topic) take(p *broker.Publication) {
	who := p.Client.Principal()
	to := protocol.Message{
		Topic: p.ResponseTopic, QoS: p.QoS, ContentType: protocol.ContentJSON, CorrelationData: bytes.Clone(p.CorrelationData),
	}
	refused := to.Topic != "" && !t.MayRespond(who, to.Topic)
	if to.Topic == "" || refused {
		to.Topic = t.Topics.ClientResponse(p.Client.ID)
	}
	waits := protocol.MaxTimeout
	if p.Expiry > 0 {
		waits = min(waits, p.Expiry)
	}
	expires := time.Now().Add(waits)
	m := mcpdoor.Message{Principal: who, Client: p.Client.ID, Body: bytes.Clone(p.Payload), Reply: func(body []byte) {
		answer := to
		answer.Payload, answer.Expiry = body, max(time.Until(expires), time.Second)
		if _, err := t.Broker.Publish(protocol.Only(who.Party()), answer); err != nil {
			t.Log.Warn("an answer to an MCP client is not published", "topic", answer.Topic, "error", err)
		}
	}}
	if refused {
		t.Door.Refuse(m, protocol.Errorf(protocol.PermissionDenied, "the response topic is not one of yours"))
		return
	}
	ctx, cancel := context.WithDeadline(t.open, expires)
	stop := func() bool { return true }
	if gone := t.Gone(p.Client.Session(), to.Topic); gone != nil {
		stop = context.AfterFunc(gone, cancel)
	}
	go func() {
		defer cancel()
		defer stop() // a client that stays has many calls
		t.Door.Take(ctx, m)
	}()
}
