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
}

func (a *pendingAck) append(dst []byte, version byte) []byte {
	if a.encoded != nil {
		return append(dst, a.encoded...)
	}
	return packet.AppendAck(dst, version, a.typ, a.id, a.reason)
}

// answer acknowledges to the connection being read, when everything recorded
// for the packet is stored. Acknowledgements keep their order [MQTT-4.6.0-2]
// [MQTT-4.6.0-3].
func (t *turn) answer(c *conn, a pendingAck) {
	if t.b.journal == nil {
		t.acks = a.append(t.acks, c.version)
		return
	}
	s := c.session
	s.mu.Lock()
	t.answerLocked(c, s, a)
	s.mu.Unlock()
}

func (t *turn) answerLocked(c *conn, s *session, a pendingAck) (now bool) {
	if t.b.journal == nil {
		t.acks = a.append(t.acks, c.version)
		return true
	}
	a.at = max(a.at, t.packetAt)
	if t.b.stored(a.at) && !c.owes() {
		t.acks = a.append(t.acks, c.version)
		return true
	}
	if a.typ == packet.PUBACK {
		s.waiting++
	}
	t.owe(c, a)
	return false
}

// owe keeps an acknowledgement until it may be sent. When many are kept, the
// reader of the connection waits before it goes on: a client of MQTT 3.1.1
// knows no Receive Maximum, and none of MQTT 5 bounds SUBSCRIBE.
func (t *turn) owe(c *conn, a pendingAck) {
	most := t.b.options.Limits.ReceiveMaximum
	if c.version == packet.V5 {
		most *= 2
	}
	c.mu.Lock()
	first := len(c.owed) == 0
	c.owed = append(c.owed, a)
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
	if first {
		t.b.journal.await(c)
		t.recorded = max(t.recorded, a.at)
	}
}

func (c *conn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owed) > 0
}

// settleOwed sends the acknowledgements whose time has come.
func (t *turn) settleOwed(c *conn) {
	c.mu.Lock()
	n, waiting := 0, 0
	var granted []*subscription
	for n < len(c.owed) && t.b.stored(c.owed[n].at) {
		if !c.closed {
			answer := c.owed[n].append(nil, c.version)
			c.out.add(answer)
			c.noteOut(answer)
		}
		if c.owed[n].typ == packet.PUBACK {
			waiting++
		}
		granted = append(granted, c.owed[n].granted...)
		n++
	}
	if n > 0 && !c.closed {
		t.touch(c)
	}
	c.owed = append(c.owed[:0], c.owed[n:]...)
	more := len(c.owed) > 0
	if !more {
		c.owed = nil
		if c.relief != nil {
			close(c.relief)
			c.relief = nil
		}
	}
	s := c.session
	c.mu.Unlock()
	if more {
		t.b.journal.await(c)
	}
	for _, sub := range granted {
		t.sendRetained(c, sub)
	}
	if waiting > 0 && s != nil {
		s.mu.Lock()
		if s.conn.Load() == c {
			s.waiting -= waiting
		}
		s.mu.Unlock()
	}
}
