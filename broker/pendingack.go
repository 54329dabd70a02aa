package broker

import "github.com/aibridge/aibridge/broker/packet"

// A pendingAck is an acknowledgement that waits until what it acknowledges is
// stored.
type pendingAck struct {
	typ     packet.Type
	reason  packet.Reason
	id      uint16
	encoded []byte          // instead of the above, where it has properties
	granted []*subscription // whose retained messages follow
	at      uint64          // position in the journal
	receipt *Receipt        // of peers, nil for none
}

func (a *pendingAck) append(dst []byte, version byte) []byte {
	if a.encoded != nil {
		return append(dst, a.encoded...)
	}
	return packet.AppendAck(dst, version, a.typ, a.id, a.outcome())
}

// outcome is the reason that is told, once the acknowledgement is ready.
func (a *pendingAck) outcome() packet.Reason {
	if a.receipt == nil {
		return a.reason
	}
	if refused := packet.Reason(a.receipt.verdict.Load()); refused.Failed() {
		return refused
	}
	if a.reason == packet.NoMatchingSubscribers {
		return a.receipt.reason()
	}
	return a.reason
}

// withheld reports whether the acknowledgement is not sent, but the connection ends: it
// would be a refusal, which a client of this version cannot tell from success.
func (a *pendingAck) withheld(version byte) bool {
	return version == packet.V311 && a.receipt != nil && a.receipt.unstored.Load()
}

// ready reports whether the acknowledgement may be sent.
func (b *Broker) ready(a *pendingAck) bool { return a.receipt.done() && b.stored(a.at) }

// answer acknowledges to the connection being read, when everything recorded
// for the packet is stored. Acknowledgements keep their order [MQTT-4.6.0-2]
// [MQTT-4.6.0-3].
func (t *turn) answer(c *conn, a pendingAck) {
	if t.mayAnswer(c, a.receipt, a.at) {
		t.acks = a.append(t.acks, c.version)
		return
	}
	s := c.session
	s.mu.Lock()
	t.answerLocked(c, s, a)
	s.mu.Unlock()
}

// mayAnswer reports whether an acknowledgement to the connection being read need not
// wait, as nearly always: not for peers, nor for records up to a position, nor for others.
func (t *turn) mayAnswer(c *conn, receipt *Receipt, at uint64) bool {
	return receipt == nil && t.b.stored(max(at, t.packetAt)) && !c.owes()
}

func (t *turn) answerLocked(c *conn, s *session, a pendingAck) (now bool) {
	if t.b.journal == nil && t.b.index.peers == nil {
		t.acks = a.append(t.acks, c.version)
		return true
	}
	a.at = max(a.at, t.packetAt)
	if t.b.ready(&a) && !c.owes() && !a.withheld(c.version) {
		if a.receipt != nil {
			t.accepted(s, &a)
		}
		t.acks = a.append(t.acks, c.version)
		return true
	}
	if a.typ == packet.PUBACK && s.conn.Load() == c { // or the session has been taken over meanwhile
		s.waiting.Add(1)
	}
	t.owe(c, a)
	return false
}

// owe keeps an acknowledgement until it may be sent. When many are kept, the
// reader of the connection waits before it goes on: a client of MQTT 3.1.1
// knows no Receive Maximum, and none of MQTT 5 bounds SUBSCRIBE.
func (t *turn) owe(c *conn, a pendingAck) {
	t.acknowledge(c) // what is collected goes first, and whoever stores may be faster
	most := t.b.options.Limits.ReceiveMaximum
	if c.version == packet.V5 {
		most *= 2
	}
	c.mu.Lock()
	first := len(c.owed) == 0
	c.owed = append(c.owed, a)
	c.owing.Store(true)
	if len(c.owed) >= most && c.job == nil {
		relief := make(chan struct{})
		c.relief = relief
		c.job = func() {
			select {
			case <-relief:
			case <-t.b.closing:
			}
		}
	}
	c.mu.Unlock()
	switch {
	case !first:
	case !t.b.stored(a.at):
		t.b.journal.await(c)
		t.recorded = max(t.recorded, a.at)
	case a.receipt.done(): // since it was asked, or those before it have left meanwhile
		t.resettle = append(t.resettle, c)
	}
}

// owes reports whether the client is owed an acknowledgement. Only who reads the
// connection can rely on a no: it alone adds one.
func (c *conn) owes() bool { return c.owing.Load() }

// settleReady sends the acknowledgements that were to wait and need not any more.
func (t *turn) settleReady() {
	for _, c := range t.resettle {
		t.settleOwed(c)
	}
	clear(t.resettle)
	t.resettle = t.resettle[:0]
}

// settleOwed sends the acknowledgements whose time has come.
func (t *turn) settleOwed(c *conn) {
	c.mu.Lock()
	n, waiting, withheld := 0, int32(0), false
	var granted []*subscription
	var accepted []pendingAck
	for n < len(c.owed) && t.b.ready(&c.owed[n]) {
		if c.owed[n].withheld(c.version) {
			withheld = true
		} else if !c.closed {
			answer := c.owed[n].append(nil, c.version)
			c.out.add(answer)
			c.noteOut(answer)
		}
		if c.owed[n].typ == packet.PUBACK {
			waiting++
		}
		granted = append(granted, c.owed[n].granted...)
		if c.owed[n].receipt != nil && c.owed[n].typ == packet.PUBREC {
			accepted = append(accepted, c.owed[n])
		}
		n++
	}
	if n > 0 && !c.closed {
		t.touch(c)
	}
	c.owed = append(c.owed[:0], c.owed[n:]...)
	more := len(c.owed) > 0
	var bye *farewell
	storing, at := false, uint64(0)
	if more {
		storing, at = t.b.journal != nil && c.owed[0].receipt.done(), c.owed[0].at
	}
	if !more {
		c.owed = nil
		c.owing.Store(false)
		if c.relief != nil {
			close(c.relief)
			c.relief = nil
		}
		bye, c.farewell = c.farewell, nil
	}
	s := c.session
	c.mu.Unlock()
	if storing {
		t.b.journal.await(c)
		if t.b.stored(at) { // since it was asked: whoever writes has looked already
			t.recorded = max(t.recorded, at)
		}
	}
	for _, sub := range granted {
		t.sendRetained(c, sub)
	}
	if (waiting > 0 || len(accepted) > 0) && s != nil {
		s.mu.Lock()
		for i := range accepted {
			t.accepted(s, &accepted[i])
		}
		if s.conn.Load() == c {
			s.waiting.Add(-waiting)
		}
		s.mu.Unlock()
	}
	switch {
	case bye != nil:
		t.sayFarewell(c, bye)
	case withheld:
		t.stop(c, packet.ImplementationSpecific, "", "a message is not stored")
	}
}

// accepted notes that peers have answered for an inbound message of QoS 2. Not
// before that is it recorded as received: if the bridge ends, what its client sends
// again has to reach who does not have it. What none of them took is not received:
// its identifier is free again. The session's mu is held.
func (t *turn) accepted(s *session, a *pendingAck) {
	if a.typ == packet.PUBREC && s.accepting[a.id] == a.receipt {
		t.receivedInbound(s, a.id, a.outcome().Failed())
	}
}
