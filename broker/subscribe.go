package broker

import (
	"strings"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
)

// subscribe handles SUBSCRIBE: one reason code per filter, in order
// [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-6] [MQTT-3.8.4-7].
func (t *turn) subscribe(c *conn) error {
	s, p := c.session, &t.sub
	if err := c.answerable(len(p.Filters)); err != nil {
		return err
	}
	id := uint32(0)
	if len(p.Properties.SubscriptionIDs) > 0 {
		id = p.Properties.SubscriptionIDs[0]
	}
	for i := range p.Filters {
		filter := string(p.Filters[i].Filter)
		if p.Filters[i].NoLocal && topic.IsShared(filter) { // [MQTT-3.8.3-4]
			return &packet.Error{Reason: packet.ProtocolError, Text: "no local on a shared subscription"}
		}
		plain, _, _ := t.b.split(filter)
		if err := c.grammatical(plain); err != nil {
			return err
		}
	}
	subs := make([]*subscription, 0, len(p.Filters))
	for i := range p.Filters {
		f := &p.Filters[i]
		filter := string(f.Filter)
		sub := &subscription{
			session: s, filter: filter, where: t.b.conditionOf(filter), id: id, qos: f.QoS,
			noLocal: f.NoLocal, retainAs: f.RetainAsPublished, handling: f.RetainHandling,
		}
		if t.b.shared != nil {
			sub.answer = new(retainedAnswer)
		}
		subs = append(subs, sub)
	}
	if topics := t.wantedAlone(c, subs); len(topics) > 0 {
		b, packetID := t.b, p.PacketID
		c.job = func() { b.subscribeAlone(c, packetID, subs, topics) }
		return nil
	}
	t.grantAll(c, p.PacketID, subs, nil)
	return nil
}

// grantAll makes subscriptions and answers. Those whose filter is refused are not made.
func (t *turn) grantAll(c *conn, packetID uint16, subs []*subscription, refused map[string]refusedAlone) {
	s := c.session
	answer := packet.Suback{PacketID: packetID, Reasons: make([]packet.Reason, 0, len(subs))}
	var text string
	var granted []*subscription
	for _, sub := range subs {
		why, no := refused[sub.filter]
		if !no {
			why.reason, why.text = t.grant(c, sub)
		}
		if why.text != "" && text == "" {
			text = why.text
		}
		if why.reason.Failed() {
			c.topicRefused(OfSubscribe, string(cutText(sub.filter)), why.reason, why.text)
		} else {
			granted = append(granted, sub)
		}
		answer.Reasons = append(answer.Reasons, why.reason)
	}
	if text != "" && c.problem {
		answer.Properties.SetBytes(packet.ReasonString, cutText(text))
	}
	encoded := answer.Append(nil, c.version, packet.SUBACK)
	if len(encoded) > c.maxPacket { // [MQTT-3.9.2-1]
		answer.Properties.Reset()
		encoded = answer.Append(encoded[:0], c.version, packet.SUBACK)
	}
	s.events.told()
	now := t.recordAndAnswer(c, pendingAck{typ: packet.SUBACK, encoded: encoded, granted: granted, receipt: t.announced(s, granted)})
	t.acknowledge(c)
	if now {
		for _, sub := range granted {
			t.sendRetained(c, sub)
		}
	}
}

// answerable fails when the client takes no answer with so many reason codes
// [MQTT-3.1.2-24].
func (c *conn) answerable(reasons int) error {
	const before = 1 + 2 + 1 // type, packet id, length of no properties
	if body := 3 + reasons; before+packet.VarintLen(body)+reasons > c.maxPacket {
		return &packet.Error{Reason: packet.PacketTooLarge, Text: "the answer exceeds the client's maximum packet size"}
	}
	return nil
}

// grammatical fails for a malformed filter of a 3.1.1 client, where a protocol
// violation ends the connection whatever it is [MQTT-4.8.0-1]. MQTT 5 clients
// are refused the one filter and told why.
func (c *conn) grammatical(filter string) error {
	if c.version == packet.V5 || topic.ValidFilter(filter) {
		return nil
	}
	return &packet.Error{Reason: packet.TopicFilterInvalid, Text: "malformed topic filter"}
}

// judge says whether a client may subscribe to a filter.
func (t *turn) judge(c *conn, filter string) (packet.Reason, string) {
	plain, text, conditional := t.b.split(filter)
	if !topic.ValidFilter(plain) {
		return packet.TopicFilterInvalid, "malformed topic filter"
	}
	if conditional {
		if why := refuseCondition(plain, text); why != "" {
			return packet.TopicFilterInvalid, why
		}
	}
	judged := topic.Inner(plain)
	if lent := t.b.options.Lending; lent != "" && judged != filter && strings.HasPrefix(judged, lent) {
		return packet.TopicFilterInvalid, "a subscription to what is lent is neither shared nor exclusive, and takes no condition"
	}
	if topic.DeeperThan(t.b.options.Limits.TopicLevels, judged) {
		return packet.TopicFilterInvalid, tooDeep
	}
	if v := t.b.options.Permissions.MaySubscribe(c.client, judged); !v.Allowed() {
		return packet.Reason(v.Reason), v.Text
	}
	return packet.Success, ""
}

// grant checks one subscription and makes it.
func (t *turn) grant(c *conn, sub *subscription) (packet.Reason, string) {
	if reason, why := t.judge(c, sub.filter); reason.Failed() {
		return reason, why
	}
	s := sub.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.conn.Load() != c {
		return packet.UnspecifiedError, ""
	}
	old := s.subs.get(sub.filter)
	if old == nil && s.subs.len() >= t.b.options.Limits.Subscriptions {
		return packet.QuotaExceeded, "too many subscriptions"
	}
	if old == nil && sub.where != nil && s.narrow() >= mostConditional {
		return packet.QuotaExceeded, "too many subscriptions with a condition"
	}
	if old == nil && sub.where != nil && t.b.index.compares(s.owner)+sub.where.Comparisons() > mostComparisons {
		return packet.QuotaExceeded, "the conditions of all subscriptions of the principal have too many comparisons"
	}
	if old != nil && sub.handling == 1 && old.answer != nil {
		*sub.answer = *old.answer // which stands, and may have been too early
	}
	if !t.b.index.add(sub, old) {
		return packet.QuotaExceeded, heldText
	}
	s.subs.set(sub)
	if old != nil && sub.handling == 1 {
		sub.handling = 2
	}
	client, filter := c.client, sub.filter
	s.events.push(func(p Presence) { p.Subscribed(client, filter) })
	return packet.Reason(sub.qos), ""
}

// unsubscribe handles UNSUBSCRIBE [MQTT-3.10.4-1] [MQTT-3.10.4-4]
// [MQTT-3.10.4-5] [MQTT-3.10.4-6].
func (t *turn) unsubscribe(c *conn) error {
	s, p := c.session, &t.unsub
	if err := c.answerable(len(p.Filters)); err != nil {
		return err
	}
	for _, f := range p.Filters {
		plain, _, _ := t.b.split(string(f))
		if err := c.grammatical(plain); err != nil {
			return err
		}
	}
	answer := packet.Suback{PacketID: p.PacketID, Reasons: make([]packet.Reason, 0, len(p.Filters))}
	var given []string
	for _, f := range p.Filters {
		filter := string(f)
		reason := t.dropSubscription(c, filter)
		if only, alone := topic.Exclusive(filter); alone && reason == packet.Success {
			given = append(given, only)
		}
		answer.Reasons = append(answer.Reasons, reason)
	}
	s.events.told()
	t.recordAndAnswer(c, pendingAck{typ: packet.UNSUBACK, encoded: answer.Append(nil, c.version, packet.UNSUBACK), receipt: t.givenBack(s, given)})
	return nil
}

// recordAndAnswer stores the session's subscriptions and then acknowledges.
func (t *turn) recordAndAnswer(c *conn, a pendingAck) (now bool) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	t.b.recordSession(t, s)
	return t.answerLocked(c, s, a)
}

func (t *turn) dropSubscription(c *conn, filter string) packet.Reason {
	if plain, _, _ := t.b.split(filter); !topic.ValidFilter(plain) {
		return packet.TopicFilterInvalid
	}
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs.get(filter)
	if sub == nil || s.conn.Load() != c {
		return packet.NoSubscriptionExisted
	}
	s.subs.remove(filter)
	t.b.index.remove(sub)
	client := c.client
	s.events.push(func(p Presence) { p.Unsubscribed(client, filter) })
	return packet.Success
}
