package broker

import (
	"time"
	"unsafe"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
)

// publish handles PUBLISH: check, judge, show to handlers, route, acknowledge.
func (t *turn) publish(c *conn, h packet.Header, whole, body []byte) error {
	p := &t.pub
	if err := p.Decode(c.version, h, body); err != nil {
		return err
	}
	t.count.received[p.QoS]++
	name, err := c.topicOf(p)
	if err != nil {
		return err
	}
	r := t.fitRoute(stringOf(name))
	if r == nil && !topic.ValidName(name) {
		return &packet.Error{Reason: packet.TopicNameInvalid, Text: "invalid topic name"}
	}
	if p.QoS > 0 {
		if again, err := t.admit(c, p); again || err != nil {
			return err
		}
	}
	if r == nil {
		if topic.DeeperThan(t.b.options.Limits.TopicLevels, name) {
			t.refusePublish(c, p, Verdict{Reason: byte(packet.TopicNameInvalid), Text: tooDeep})
			return nil
		}
		r = t.route(name)
		r.fit = true
	}
	if v := t.b.options.Permissions.MayPublish(c.client, r.topic, p.Retain); !v.Allowed() {
		t.refusePublish(c, p, v)
		return nil
	}
	if v := t.admits(c.client, r.topic, p.Payload); !v.Allowed() {
		t.refusePublish(c, p, v)
		return nil
	}
	t.load(c, r.topic, whole)
	if len(r.inspectors) > 0 {
		if v := t.inspect(c.client, r.inspectors); !v.Allowed() {
			t.refusePublish(c, p, v)
			return nil
		}
	}
	t.publisher = c.session
	t.originate(c.session, p)
	v := t.publishLoaded(c.client, r)
	t.publisher = nil
	t.acceptPublish(c, p, v)
	t.waitForRoom(c)
	return nil
}

// tooDeep refuses a client whose topic names or filters have more
// levels than [Limits].TopicLevels.
const tooDeep = "the topic has too many levels"

// publishLoaded shows the turn's message to the handlers, keeps it if it is
// to be retained, and routes it. The verdict is for its publisher: success
// says that somebody has it, or that there is nobody.
func (t *turn) publishLoaded(client *Client, r *route) Verdict {
	seen := len(r.handlers) > 0
	t.publication.HearsMore = false
	if seen {
		t.publication.Client, t.publication.turn, t.publication.taken, t.publication.At = client, t, false, t.now
		t.publication.Absent = t.publisher == nil
		t.show(&t.publication.Message)
		for _, fn := range r.handlers {
			fn(&t.publication)
		}
		t.handled = true
		if t.publication.taken {
			return Verdict{}
		}
	}
	if t.msg.retain {
		who := client.Principal()
		t.msg.owner = who.Party().String()
		if whose := t.retainFor(who); whose != hasRoom {
			return t.noRoom(whose.text())
		}
	}
	best, _ := t.deliver(r)
	t.shareRetained()
	if seen && t.receipt != nil {
		t.receipt.best.Store(uint32(Taken))
	}
	switch {
	case seen || best >= waits:
		return Verdict{}
	case t.receipt != nil && (best == missed || !t.msg.retain): // which says what became of it
		return Verdict{Reason: byte(packet.NoMatchingSubscribers)}
	case best == missed:
		return Verdict{Reason: byte(packet.NoMatchingSubscribers)}
	case t.msg.retain || t.msg.qos == 0:
		return Verdict{}
	}
	t.count.overflowed++
	return t.noRoom("the queues of all it is for are full")
}

// noRoom refuses what cannot be kept, for a reason that a full disk overrides.
func (t *turn) noRoom(reason string) Verdict {
	if t.b.full() {
		reason = "the bridge's disk is nearly full"
	}
	return Verdict{Reason: byte(packet.QuotaExceeded), Text: reason}
}

// topicOf resolves the topic alias. Whether the name is valid is asked with the route.
func (c *conn) topicOf(p *packet.Publish) ([]byte, error) {
	if p.Properties.Has(packet.SubscriptionID) { // [MQTT-3.3.4-6]
		return nil, &packet.Error{Reason: packet.ProtocolError, Text: "subscription identifier from a client"}
	}
	if rt := p.Properties.Bytes(packet.ResponseTopic); rt != nil && !topic.ValidName(rt) { // [MQTT-3.3.2-14]
		return nil, &packet.Error{Reason: packet.ProtocolError, Text: "response topic with wildcards"}
	}
	if p.Properties.Has(packet.TopicAlias) {
		return c.aliased(p)
	}
	if len(p.Topic) == 0 && c.version == packet.V5 {
		return nil, &packet.Error{Reason: packet.ProtocolError, Text: "no topic and no topic alias"}
	}
	return p.Topic, nil
}

// aliased keeps [MQTT-3.3.2-7] and [MQTT-3.3.2-9]: aliases belong to the
// connection and go no further than announced.
func (c *conn) aliased(p *packet.Publish) ([]byte, error) {
	alias := int(p.Properties.Number(packet.TopicAlias, 0))
	if alias > c.b.options.Limits.TopicAliases {
		return nil, &packet.Error{Reason: packet.TopicAliasInvalid, Text: "topic alias above the maximum"}
	}
	if len(p.Topic) > 0 {
		if !topic.ValidName(p.Topic) {
			return nil, &packet.Error{Reason: packet.TopicNameInvalid, Text: "invalid topic name"}
		}
		for len(c.inAlias) < alias {
			c.inAlias = append(c.inAlias, "")
		}
		if c.inAlias[alias-1] != string(p.Topic) {
			c.inAlias[alias-1] = string(p.Topic)
		}
		return p.Topic, nil
	}
	if alias > len(c.inAlias) || c.inAlias[alias-1] == "" {
		return nil, &packet.Error{Reason: packet.ProtocolError, Text: "unknown topic alias"}
	}
	name := c.inAlias[alias-1]
	return unsafe.Slice(unsafe.StringData(name), len(name)), nil // is only read
}

// load makes the publish in t.pub the turn's message.
func (t *turn) load(c *conn, name string, whole []byte) {
	p, m := &t.pub, &t.msg
	*m = message{}
	m.topic, m.payload, m.qos, m.retain = name, p.Payload, p.QoS, p.Retain
	m.from, m.to = c.client.ID, everybody(c.session.owner.Space)
	t.fresh()
	if p.QoS == 0 {
		t.raw = whole
		t.rawShape = 0
		if c.version == packet.V5 {
			t.rawShape = 1
		}
		if p.Retain {
			t.rawShape += 2
		}
	}
	if p.Properties.Empty() {
		return
	}
	m.props, t.read = p.RawProps, &p.Properties
	if p.Properties.Has(packet.MessageExpiry) {
		seconds := p.Properties.Number(packet.MessageExpiry, 0)
		m.expires = t.now + int64(seconds)*int64(time.Second)
		if seconds == 0 {
			m.expires = t.now + 1 // for receivers that can take it now
		}
	}
	if p.Properties.Has(packet.TopicAlias) || p.Properties.Has(packet.MessageExpiry) {
		if p.Properties.Has(packet.TopicAlias) {
			t.raw = nil
		}
		p.Properties.Drop(packet.TopicAlias)
		p.Properties.Drop(packet.MessageExpiry)
		t.propBytes = p.Properties.Append(t.propBytes[:0])
		m.props = t.propBytes
	}
}

// use makes a message that lasts the turn's.
func (t *turn) use(m *message) {
	t.msg = *m
	t.msg.id = 0
	t.fresh()
}

// fresh forgets what was made of the message before.
func (t *turn) fresh() {
	t.kept, t.looked, t.frames, t.raw, t.read = nil, false, [4][]byte{}, nil, nil
	t.origin, t.numbered = origin{}, nil
}

// admit checks a QoS 1 or 2 publish before it is routed. again reports that a
// QoS 2 message was routed before and is only acknowledged once more
// [MQTT-4.3.3-10].
func (t *turn) admit(c *conn, p *packet.Publish) (again bool, err error) {
	s := c.session
	if p.QoS == 2 {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if s.conn.Load() != c {
		return true, errDetached
	}
	if p.QoS == 2 {
		if _, ok := s.inbound[p.PacketID]; ok {
			t.answerLocked(c, s, pendingAck{typ: packet.PUBREC, id: p.PacketID, at: s.recordedAt, receipt: s.accepting[p.PacketID]})
			return true, nil
		}
	}
	if c.version == packet.V5 && int(s.waiting.Load()+s.receiving.Load()) >= t.b.options.Limits.ReceiveMaximum { // [MQTT-3.3.4-8]
		return true, &packet.Error{Reason: packet.ReceiveMaximumExceeded, Text: "more unacknowledged messages than the receive maximum"}
	}
	return false, nil
}

// acceptPublish acknowledges a publish that was routed, when it is stored for
// everyone who needs that.
func (t *turn) acceptPublish(c *conn, p *packet.Publish, v Verdict) {
	switch p.QoS {
	case 1:
		before := len(t.acks)
		t.answerPublish(c, packet.PUBACK, p.PacketID, v, t.receiptOf(c.session, p))
		if n := len(t.acks) - before; n > 0 && t.publication.HearsMore && v.Allowed() {
			t.patient += n
		}
	case 2:
		if packet.Reason(v.Reason).Failed() {
			t.numbered.finish(0)
		} else {
			t.inbound(c, p.PacketID)
		}
		t.answerPublish(c, packet.PUBREC, p.PacketID, v, t.receiptOf(c.session, p))
	}
}

func (t *turn) inbound(c *conn, id uint16) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if s.inbound == nil {
		s.inbound = make(map[uint16]bool)
	}
	here := s.conn.Load() == c // or the session has been taken over meanwhile
	if s.inbound[id] = here; here {
		s.receiving.Add(1)
	}
	switch {
	case t.receipt != nil: // it is recorded once peers have it, see accepted
	case t.numbered != nil && len(s.accepting) > 0: // or after those before it
		t.receipt = &Receipt{b: t.b, s: s}
		t.receipt.left.Store(1)
	default:
		t.recordReceived(s, id, t.numbered)
	}
}

// refusePublish answers a publish that is not routed. MQTT 3.1.1 can say no
// only by closing the connection, to which devices answer by trying again for
// ever; there it is acknowledged and dropped [MQTT-3.3.5-2].
func (t *turn) refusePublish(c *conn, p *packet.Publish, v Verdict) {
	t.count.refused++
	t.tellRefusal(c, p, v)
	c.topicRefused(OfPublish, string(cutText(string(p.Topic))), packet.Reason(v.Reason), v.Text)
	if p.QoS == 0 {
		return
	}
	typ := packet.PUBACK
	if p.QoS == 2 {
		typ = packet.PUBREC
		if c.version != packet.V5 { // the client will go on with PUBREL
			t.inbound(c, p.PacketID)
		}
	}
	t.answerPublish(c, typ, p.PacketID, v, nil)
}

// answerPublish sends PUBACK or PUBREC, with the verdict's text where there is
// one and the client wants it [MQTT-3.4.2-2] [MQTT-3.5.2-2].
func (t *turn) answerPublish(c *conn, typ packet.Type, id uint16, v Verdict, receipt *Receipt) {
	if v.Text == "" && t.mayAnswer(c, receipt, 0) {
		t.acks = packet.AppendAck(t.acks, c.version, typ, id, packet.Reason(v.Reason))
		return
	}
	a := pendingAck{typ: typ, id: id, reason: packet.Reason(v.Reason), receipt: receipt}
	if v.Text != "" && c.version == packet.V5 && c.problem {
		full := packet.Ack{PacketID: id, Reason: a.reason}
		full.Properties.SetBytes(packet.ReasonString, cutText(v.Text))
		if b := full.Append(nil, c.version, typ); len(b) <= c.maxPacket {
			a.encoded = b
		}
	}
	t.answer(c, a)
}

// publishOwn gives the turn's message, which does not come from a client, to those on
// its route.
func (t *turn) publishOwn(r *route) (receivers int) {
	t.msg.topic = r.topic
	if t.msg.retain {
		t.retain(retainLimits{bytes: t.b.options.Limits.RetainedBytes})
	}
	_, receivers = t.deliver(r)
	t.shareRetained()
	return receivers
}
