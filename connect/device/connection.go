package device

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
)

// A connection is an MQTT connection of the bridge to its own broker. Its rights
// are decided as for other clients.
type connection struct {
	client *paho.Client
	ended  chan struct{}
}

// Patience bounds one exchange with the broker, which is in this process.
const patience = time.Minute

// A received is a message as a subscription got it.
type received struct {
	topic   string
	payload []byte
	retain  bool
	at      time.Time
}

// connect opens a connection. take is called for every message, in order, and
// must neither block nor use the connection.
func connect(ctx context.Context, dial func() (net.Conn, error), id string, take func(received)) (*connection, error) {
	nc, err := dial()
	if err != nil {
		return nil, err
	}
	c := &connection{ended: make(chan struct{})}
	c.client = paho.NewClient(paho.ClientConfig{
		ClientID: id,
		Conn:     packets.NewThreadSafeConn(nc),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			take(received{topic: p.Packet.Topic, payload: p.Packet.Payload, retain: p.Packet.Retain, at: time.Now()})
			return true, nil
		}},
		PacketTimeout: patience,
	})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := c.client.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60})
	if err != nil {
		_ = nc.Close()
		if answer != nil {
			err = fmt.Errorf("the broker refuses the connection with 0x%02x", answer.ReasonCode)
		}
		return nil, err
	}
	go func() {
		<-c.client.Done()
		close(c.ended)
	}()
	return c, nil
}

// close ends the connection and waits for its running callbacks.
func (c *connection) close() {
	_ = c.client.Disconnect(&paho.Disconnect{})
	<-c.ended
}

// subscribe asks for messages, retained ones included. refused are the filters
// that the broker does not allow, with its reason code.
func (c *connection) subscribe(ctx context.Context, filters []string) (refused map[string]byte, err error) {
	if len(filters) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := new(paho.Subscribe)
	for _, f := range filters {
		s.Subscriptions = append(s.Subscriptions, paho.SubscribeOptions{Topic: f, QoS: 1})
	}
	answer, err := c.client.Subscribe(ctx, s)
	if answer == nil {
		return nil, err
	}
	refused = map[string]byte{}
	for i, reason := range answer.Reasons {
		if reason >= 0x80 && i < len(filters) {
			refused[filters[i]] = reason
		}
	}
	return refused, nil
}

func (c *connection) unsubscribe(ctx context.Context, filters []string) error {
	if len(filters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: filters})
	return err
}

// The reason codes of MQTT 5 that become errors of their own.
const (
	noSubscribers = 0x10
	notAuthorized = 0x87
	quotaExceeded = 0x97
)

// publish sends a message, and reports whether it may have reached a subscriber.
func (c *connection) publish(ctx context.Context, m *Message) *protocol.Error {
	answer, err := c.client.Publish(ctx, &paho.Publish{Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Retain: m.Retain})
	switch {
	case answer == nil && err != nil:
		return protocol.Errorf(protocol.OutcomeUnknown, "the message was sent, and what became of it is not known")
	case answer == nil:
		return nil
	}
	switch reason := answer.ReasonCode; {
	case reason == noSubscribers && !m.Retain:
		return protocol.Errorf(protocol.TargetUnavailable, "the device does not listen: nobody subscribes to the topic that it is asked on")
	case reason == notAuthorized:
		return protocol.Errorf(protocol.PermissionDenied, "the bridge may not publish to the topic of the device")
	case reason == quotaExceeded:
		return protocol.Errorf(protocol.TargetUnavailable, "the broker has no room for the message")
	case reason >= 0x80:
		return protocol.Errorf(protocol.TargetUnavailable, "the broker refuses the message with 0x%02x", reason)
	}
	return nil
}
