package broker

import (
	"context"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// PublishFor publishes a message in the name of a client, which need not be
// connected, to the client's space. The message is judged like the client's Will: by
// MayWill, permissions, quota and inspectors; that nobody hears it is no failure. Stored
// waits until everything that the message left is on record, here, at peers and with
// handlers that hold it, or ctx ends, and fails if it is not.
func (b *Broker) PublishFor(client *Client, m protocol.Message) (_ Verdict, stored func(ctx context.Context) error) {
	nothing := func(context.Context) error { return nil }
	switch {
	case b.stopped.Load():
		return Verdict{Reason: byte(packet.ServerShuttingDown), Text: "the bridge stops"}, nothing
	case !topic.ValidName(m.Topic) || !packet.ValidString(bytesOf(m.Topic)) || m.QoS > 2:
		return Verdict{Reason: byte(packet.TopicNameInvalid), Text: "invalid topic name"}, nothing
	case topic.DeeperThan(b.options.Limits.TopicLevels, m.Topic):
		return Verdict{Reason: byte(packet.TopicNameInvalid), Text: tooDeep}, nothing
	}
	done := make(chan struct{})
	r := &Receipt{b: b, then: func() { close(done) }}
	r.left.Store(1) // until the turn has found all
	v, at := b.publishWith(r, client, &m)
	r.Answer(Missed)
	b.AnswerReceipts()
	if !v.Allowed() {
		return v, nothing
	}
	return v, func(ctx context.Context) error {
		if at != 0 {
			b.journal.wait(ctx, at)
		}
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if reason := packet.Reason(r.verdict.Load()); reason.Failed() {
			return protocol.Errorf(protocol.StoreUnavailable, "the message is not stored: %s", reason)
		}
		return nil
	}
}

// publishWith publishes a message in the name of a client. The receipt is answered by
// whoever puts it on record elsewhere; at is its place in the journal, 0 for none.
func (b *Broker) publishWith(r *Receipt, client *Client, m *protocol.Message) (v Verdict, at uint64) {
	t := b.getTurn().begin()
	defer b.putTurn(t)
	to := protocol.Everybody(client.Principal().Home())
	t.loadOwn(&to, m)
	t.msg.from = client.ID
	route := t.routeOf(t.msg.topic)
	if v = t.mayWill(client, &t.msg); !v.Allowed() {
		return v, 0
	}
	if v = t.admits(client, t.msg.topic, t.msg.payload); !v.Allowed() {
		return v, 0
	}
	if v = t.inspect(client, route.inspectors); !v.Allowed() {
		return v, 0
	}
	t.receipt = r
	v = t.publishLoaded(client, route)
	t.receipt = nil
	if packet.Reason(v.Reason) == packet.NoMatchingSubscribers {
		v = Verdict{}
	}
	return v, t.recorded
}
