package broker

import (
	"context"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// PublishFor publishes a message in the name of a client, which need not be
// connected, to the client's space. The message is judged like the client's Will: by
// MayWill, permissions, quota and inspectors. Stored waits until everything that the
// message left is on record, or ctx ends.
func (b *Broker) PublishFor(client *Client, m protocol.Message) (_ Verdict, stored func(ctx context.Context)) {
	nothing := func(context.Context) {}
	switch {
	case b.stopped.Load():
		return Verdict{Reason: byte(packet.ServerShuttingDown), Text: "the bridge stops"}, nothing
	case !topic.ValidName(m.Topic) || !packet.ValidString(bytesOf(m.Topic)) || m.QoS > 2:
		return Verdict{Reason: byte(packet.TopicNameInvalid), Text: "invalid topic name"}, nothing
	case topic.DeeperThan(b.options.Limits.TopicLevels, m.Topic):
		return Verdict{Reason: byte(packet.TopicNameInvalid), Text: tooDeep}, nothing
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	t.loadOwn(protocol.Everybody(client.Principal().Home()), &m)
	t.msg.from = client.ID
	r := t.routeOf(t.msg.topic)
	v := t.mayWill(client, &t.msg)
	if v.Allowed() {
		v = t.admits(client, t.msg.topic, t.msg.payload)
	}
	if v.Allowed() {
		v = t.inspect(client, r.inspectors)
	}
	if v.Allowed() {
		v = t.publishLoaded(client, r)
	}
	at := t.recorded
	if at == 0 {
		return v, nothing
	}
	return v, func(ctx context.Context) { b.journal.wait(ctx, at) }
}
