package client

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Channel is the channel of a Cap, on which its members exchange messages.
type Channel struct {
	client *Client
	id     protocol.CapID
}

// Channel is the Cap channel with an id. The right to speak and listen there is
// the bridge's to decide.
func (c *Client) Channel(id protocol.CapID) (*Channel, error) {
	if reason := id.Rule().Check(string(id)); reason != "" {
		return nil, protocol.InvalidParam("cap_id", reason)
	}
	return &Channel{c, id}, nil
}

// Publish publishes a message under a topic of the channel's own, one level or
// several joined by slashes. The message's topic is ignored.
func (ch *Channel) Publish(ctx context.Context, topic string, m Message) error {
	m.Topic = ch.client.Topics().CapMessage(ch.id, topic)
	return ch.client.Publish(ctx, m)
}

// Subscribe has messages handled whose topic in the channel matches a filter,
// "#" for all. Their Topic is the one in the channel.
func (ch *Channel) Subscribe(ctx context.Context, filter string, handle func(context.Context, Message)) (*Subscription, error) {
	prefix := ch.client.Topics().CapMessage(ch.id, "")
	return ch.client.Subscribe(ctx, prefix+filter, func(ctx context.Context, m Message) {
		m.Topic = strings.TrimPrefix(m.Topic, prefix)
		handle(ctx, m)
	})
}
