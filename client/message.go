package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
)

// A Message is one application message on any topic.
type Message = protocol.Message

// A UserProperty is one MQTT 5 user property. Order and repeats are kept.
type UserProperty = protocol.UserProperty

// packet is a message as a PUBLISH packet.
func packet(m *Message) *paho.Publish {
	p := &paho.Publish{
		Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Retain: m.Retain,
		Properties: &paho.PublishProperties{
			ContentType:     m.ContentType,
			ResponseTopic:   m.ResponseTopic,
			CorrelationData: m.CorrelationData,
		},
	}
	if m.Expiry > 0 {
		seconds := uint32(min((m.Expiry+time.Second-1)/time.Second, math.MaxUint32))
		p.Properties.MessageExpiry = &seconds
	}
	for _, u := range m.UserProperties {
		p.Properties.User = append(p.Properties.User, paho.UserProperty{Key: u.Key, Value: u.Value})
	}
	return p
}

// message is a PUBLISH packet as a message.
func message(p *paho.Publish) Message {
	m := Message{Topic: p.Topic, Payload: p.Payload, QoS: p.QoS, Retain: p.Retain}
	if p.Properties == nil {
		return m
	}
	m.ContentType = p.Properties.ContentType
	m.ResponseTopic = p.Properties.ResponseTopic
	m.CorrelationData = p.Properties.CorrelationData
	if p.Properties.MessageExpiry != nil {
		m.Expiry = time.Duration(*p.Properties.MessageExpiry) * time.Second
	}
	for _, u := range p.Properties.User {
		m.UserProperties = append(m.UserProperties, UserProperty{Key: u.Key, Value: u.Value})
	}
	return m
}

// Publish sends a message. With QoS 1 and 2 it returns when the bridge has acknowledged
// it; a refusal is 2003. It waits for a connection, but a message in flight when one was
// lost is not sent again: that error is 4012.
func (c *Client) Publish(ctx context.Context, m Message) error {
	if reason := protocol.CheckTopic(m.Topic); reason != "" {
		return protocol.InvalidParam("topic", reason)
	}
	if m.QoS > 2 {
		return protocol.InvalidParam("qos", fmt.Sprintf("must be 0, 1 or 2, is %d", m.QoS))
	}
	l, err := c.online(ctx)
	if err != nil {
		return err
	}
	err = c.send(ctx, l, &m)
	var known *protocol.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return protocol.Wrap(protocol.CodeOf(ctx.Err()), err, "not acknowledged in time")
	}
	return protocol.Wrap(protocol.OutcomeUnknown, err, "the connection was lost before the message was acknowledged")
}

// send publishes over a connection. Refusals are protocol errors; any other error
// means that the connection is gone or going.
func (c *Client) send(ctx context.Context, l *connection, m *Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(l.ctx, cancel)
	defer stop()
	ack, err := c.mqtt.Publish(ctx, packet(m))
	if ack == nil || ack.ReasonCode < 0x80 {
		return err
	}
	code := protocol.Internal
	switch ack.ReasonCode {
	case 0x87:
		code = protocol.PermissionDenied
	case 0x90, 0x99, 0x9A:
		code = protocol.InvalidParameter
	case 0x95:
		code = protocol.PayloadTooLarge
	case 0x97:
		code = protocol.RateLimited
	}
	text := fmt.Sprintf("reason %#x", ack.ReasonCode)
	if ack.Properties != nil && ack.Properties.ReasonString != "" {
		text = ack.Properties.ReasonString
	}
	return protocol.Wrap(code, err, "the bridge refuses to publish to "+m.Topic+": "+text)
}

// subscribe sends a SUBSCRIBE for one filter.
func subscribe(ctx context.Context, m *autopaho.ConnectionManager, filter string, qos byte) error {
	return subscribeWith(ctx, m, paho.SubscribeOptions{Topic: filter, QoS: qos})
}

func subscribeWith(ctx context.Context, m *autopaho.ConnectionManager, o paho.SubscribeOptions) error {
	ack, err := m.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{o}})
	if ack == nil || len(ack.Reasons) == 0 || ack.Reasons[0] < 0x80 {
		return err
	}
	code := protocol.PermissionDenied
	if ack.Reasons[0] != 0x87 {
		code = protocol.InvalidParameter
	}
	text := fmt.Sprintf("reason %#x", ack.Reasons[0])
	if ack.Properties != nil && ack.Properties.ReasonString != "" {
		text = ack.Properties.ReasonString
	}
	return protocol.Wrap(code, err, "the bridge refuses the subscription to "+o.Topic+": "+text)
}

// received takes every message. It runs on the connection's goroutine for
// messages, on which nothing may wait that a message ends.
func (c *Client) received(r paho.PublishReceived) (bool, error) {
	m := message(r.Packet)
	if c.options.intake != nil {
		c.options.intake.add(delivery{m, r.Packet, r.Client})
		return true, nil
	}
	switch {
	case m.Topic == c.Topics().ClientResponse(c.ID()):
		c.inbox.deliver(&m)
	default:
		if s := c.serverOf(m.Topic); s != nil {
			s.receive(&m)
		}
	}
	if c.cache != nil && !m.Retain {
		if family, ok := eventFamily(c.Topics(), m.Topic); ok {
			c.cache.drop(family)
		}
	}
	c.subscriptions.deliver(m)
	return true, nil
}

// clone makes a message the holder's own.
func clone(m Message) Message {
	m.Payload = slices.Clone(m.Payload)
	m.UserProperties = slices.Clone(m.UserProperties)
	return m
}
