package mqtt

import (
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// Clients are the MQTT clients that are connected, and what the bridge says to
// them. The domains are given them before there is a server ([NewServer]):
// until then nobody is connected, and nothing is published.
type Clients struct {
	topics protocol.Topics
	log    *slog.Logger
	server atomic.Pointer[server]

	connected     sync.Map // of *broker.Client by broker.SessionID
	subscriptions subscriptions
	leaving       departures
	reviews       chan struct{} // asks for a review of all subscriptions
	published     []func(protocol.Recipients, protocol.Message)
}

// NewClients returns clients of whom none is connected.
func NewClients(topics protocol.Topics, log *slog.Logger) *Clients {
	return &Clients{topics: topics, log: log, reviews: make(chan struct{}, 1)}
}

// Topics are the bridge's.
func (c *Clients) Topics() protocol.Topics { return c.topics }

// OnPublish has f told of every message of the bridge before it is sent. f must
// not block, and keep nothing of the message. It is set before there is a
// server.
func (c *Clients) OnPublish(f func(protocol.Recipients, protocol.Message)) {
	c.published = append(c.published, f)
}

// Publish sends a message of the bridge to those of the recipients who listen,
// and tells how many connected clients get it. It keeps nothing of the message.
func (c *Clients) Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error) {
	s := c.server.Load()
	if s == nil {
		return 0, nil
	}
	for _, tell := range c.published {
		tell(to, m)
	}
	return s.broker.Publish(to, m)
}

// Retained yields the topics, covered by a filter, that a message is retained
// on, with its space.
func (c *Clients) Retained(filter string) iter.Seq2[string, protocol.SpaceID] {
	s := c.server.Load()
	if s == nil {
		return func(func(string, protocol.SpaceID) bool) {}
	}
	return s.broker.Retained(filter)
}

// Owner is the principal whose client uses an id of a space right now.
func (c *Clients) Owner(space protocol.SpaceID, clientID string) (*protocol.Principal, bool) {
	client, ok := c.connected.Load(broker.SessionID{Space: space, Client: clientID})
	if !ok {
		return nil, false
	}
	return client.(*broker.Client).Principal(), true
}

// isConnected reports whether a client has not been replaced or disconnected.
func (c *Clients) isConnected(client *broker.Client) bool {
	current, ok := c.connected.Load(client.Session())
	return ok && current == client
}
