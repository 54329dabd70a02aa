package app

import (
	"bytes"
	"context"
	"time"

	"github.com/aibridge/aibridge/broker"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/protocol"
)

// openMCPTopic serves MCP over MQTT: one JSON-RPC message on the topic, its
// answer on the Response Topic with the same Correlation Data.
func (a *App) openMCPTopic() {
	var stop context.CancelFunc
	a.mcp.gone, stop = context.WithCancel(context.Background())
	a.life.add("MCP over MQTT", func(context.Context) error { stop(); return nil })
	a.broker.Handle(a.mqtt.Topics().BridgeMCP(), a.mcpMessage)
}

// mcpMessage takes one message. It does not block.
func (a *App) mcpMessage(p *broker.Publication) {
	who := p.Client.Principal()
	to := protocol.Message{
		Topic: p.ResponseTopic, QoS: p.QoS, ContentType: protocol.ContentJSON, CorrelationData: bytes.Clone(p.CorrelationData),
	}
	refused := to.Topic != "" && !a.rights.MayRespond(who, to.Topic)
	if to.Topic == "" || refused {
		to.Topic = a.mqtt.Topics().ClientResponse(p.Client.ID)
	}
	waits := protocol.MaxTimeout
	if p.Expiry > 0 {
		waits = min(waits, p.Expiry)
	}
	expires := time.Now().Add(waits)
	m := mcpdoor.Message{Principal: who, Client: p.Client.ID, Body: bytes.Clone(p.Payload), Reply: func(body []byte) {
		answer := to
		answer.Payload, answer.Expiry = body, max(time.Until(expires), time.Second)
		if _, err := a.broker.Publish(protocol.Only(who.Party()), answer); err != nil {
			a.log.Warn("an answer to an MCP client is not published", "topic", answer.Topic, "error", err)
		}
	}}
	if refused {
		a.mcp.door.Refuse(m, protocol.Errorf(protocol.PermissionDenied, "the response topic is not one of yours"))
		return
	}
	ctx, cancel := context.WithDeadline(a.mcp.gone, expires)
	stop := func() bool { return true }
	if gone := a.mqtt.Gone(p.Client.Session(), to.Topic); gone != nil {
		stop = context.AfterFunc(gone, cancel)
	}
	go func() {
		defer cancel()
		defer stop() // a client that stays has many calls
		a.mcp.door.Take(ctx, m)
	}()
}
