package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

const (
	maxTraces    = 16   // clients of a bridge that are traced at once
	maxHeadlines = 1000 // of a trace that are kept, the newest
	maxNamed     = 8    // filters or reasons that one headline has
	maxHeadTopic = 256  // bytes of a topic in a headline
)

// A Headline tells of one packet what it is and what it is about. What it
// carries is not in it: no payload, no properties, no credential.
type Headline struct {
	N        uint64 // number in its trace, from 1
	At       time.Time
	Inbound  bool // from the client
	Type     string
	Size     int // bytes of the whole packet
	PacketID uint16
	Topic    string   // of PUBLISH, cut to 256 bytes
	QoS      byte     // of PUBLISH
	Retain   bool     // of PUBLISH
	Dup      bool     // of PUBLISH
	Filters  []string // of SUBSCRIBE and UNSUBSCRIBE, the first eight
	Reasons  []string // of answers and DISCONNECT, the first eight
}

// A Trace is what is known of the packets of one client, for a while.
type Trace struct {
	Ends   time.Time
	Missed uint64 // headlines that made room for newer ones
	Lines  []Headline
}

// A tracer takes note of the packets of one session.
type tracer struct {
	ends    time.Time
	stopped atomic.Bool // before that

	mu    sync.Mutex
	lines []Headline // a ring, once it is full
	last  uint64     // number of the newest
}

// traces are those that run, and those that were not read yet.
type traces struct {
	any atomic.Bool // there may be one: what every connection asks
	mu  sync.Mutex
	of  map[SessionID]*tracer
}

// StartTrace takes note of the packets of a session until a time, anew if that
// was being done. It reports whether there is the session, and whether there is
// room for one more trace.
func (b *Broker) StartTrace(id SessionID, ends time.Time) (found, room bool) {
	s := b.session(id)
	if s == nil {
		return false, false
	}
	tr := &tracer{ends: ends}
	if !b.traces.put(id, tr, time.Now()) {
		return true, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conn.Load(); c != nil {
		c.trace.Store(tr)
	}
	return true, true
}

// StopTrace forgets a trace. It reports whether there was one.
func (b *Broker) StopTrace(id SessionID) bool {
	b.traces.mu.Lock()
	tr := b.traces.of[id]
	delete(b.traces.of, id)
	b.traces.any.Store(len(b.traces.of) > 0)
	b.traces.mu.Unlock()
	if tr == nil {
		return false
	}
	tr.stopped.Store(true) // a client that is just connecting may have found it before
	if s := b.session(id); s != nil {
		if c := s.conn.Load(); c != nil {
			c.trace.CompareAndSwap(tr, nil)
		}
	}
	return true
}

// Trace returns up to limit headlines of a session's trace after the one with a
// number. It reports whether there is a trace.
func (b *Broker) Trace(id SessionID, after uint64, limit int) (Trace, bool) {
	b.traces.mu.Lock()
	tr := b.traces.of[id]
	b.traces.mu.Unlock()
	if tr == nil {
		return Trace{}, false
	}
	return tr.read(after, limit), true
}

// put keeps a trace in place of an older one. One that is over makes room for it.
func (t *traces) put(id SessionID, tr *tracer, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[SessionID]*tracer)
	}
	if t.of[id] == nil && len(t.of) >= maxTraces {
		for other, old := range t.of {
			if !now.Before(old.ends) {
				delete(t.of, other)
			}
		}
		if len(t.of) >= maxTraces {
			return false
		}
	}
	t.of[id] = tr
	t.any.Store(true)
	return true
}

// running is the trace of a session that goes on, or nil.
func (t *traces) running(id SessionID, now time.Time) *tracer {
	if !t.any.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.of[id]; tr != nil && now.Before(tr.ends) {
		return tr
	}
	return nil
}

func (t *tracer) read(after uint64, limit int) Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := Trace{Ends: t.ends}
	after = min(after, t.last)
	first := t.last - uint64(len(t.lines)) + 1
	if after+1 < first {
		found.Missed = first - after - 1
	}
	for n := max(after+1, first); n <= t.last && len(found.Lines) < limit; n++ {
		found.Lines = append(found.Lines, t.lines[(n-1)%maxHeadlines])
	}
	return found
}

func (t *tracer) add(h Headline) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	h.N = t.last
	if len(t.lines) < maxHeadlines {
		t.lines = append(t.lines, h)
		return
	}
	t.lines[(t.last-1)%maxHeadlines] = h
}

// traced is the trace that a connection's packets are noted in, nil without one.
// A trace that is over, or was stopped, is let go of.
func (c *conn) traced() *tracer {
	tr := c.trace.Load()
	if tr == nil {
		return nil
	}
	if tr.stopped.Load() || !time.Now().Before(tr.ends) {
		c.trace.CompareAndSwap(tr, nil)
		return nil
	}
	return tr
}

// noteIn takes note of a packet from the client. The reader's.
func (c *conn) noteIn(h packet.Header, size int, body []byte) {
	tr := c.traced()
	if tr == nil {
		return
	}
	line := headline(c.version, h, size, body, func(alias uint16) string { // as publish reads it
		if int(alias) <= len(c.inAlias) && alias > 0 {
			return c.inAlias[alias-1]
		}
		return ""
	})
	line.Inbound = true
	tr.add(line)
}

// noteEntry begins to take note of the packets of a client that enters a session
// that is traced: with its CONNECT, and the answer. c.mu is held.
func (c *conn) noteEntry(tr *tracer, connack []byte) {
	if tr == nil {
		return
	}
	tr.add(Headline{At: time.Now(), Inbound: true, Type: packet.CONNECT.String()})
	c.trace.Store(tr)
	c.noteOut(connack)
}

// noteOut takes note of whole packets for the client. c.mu is held.
func (c *conn) noteOut(b []byte) {
	tr := c.traced()
	if tr == nil {
		return
	}
	for len(b) > 0 {
		n := packetLen(b)
		h, size, err := packet.ParseHeader(b[:n])
		if err != nil {
			return // the bridge writes none
		}
		tr.add(headline(c.version, h, n, b[size:n], c.outTopic))
		b = b[n:]
	}
}

// outTopic is the topic that an alias of ours stands for. c.mu is held.
func (c *conn) outTopic(alias uint16) string {
	for topic, a := range c.outAlias {
		if a == alias {
			return topic
		}
	}
	return ""
}

// headline makes a headline of a packet; of one that breaks the rules it is only
// what it claims to be.
func headline(version byte, h packet.Header, size int, body []byte, aliased func(uint16) string) Headline {
	line := Headline{At: time.Now(), Type: h.Type().String(), Size: size}
	switch typ := h.Type(); typ {
	case packet.PUBLISH:
		line.publish(version, h, body, aliased)
	case packet.PUBACK, packet.PUBREC, packet.PUBREL, packet.PUBCOMP:
		var p packet.Ack
		if p.Decode(version, typ, body) == nil {
			line.PacketID, line.Reasons = p.PacketID, []string{p.Reason.String()}
		}
	case packet.SUBSCRIBE:
		var p packet.Subscribe
		if p.Decode(version, body) == nil {
			line.PacketID = p.PacketID
			for _, f := range p.Filters[:min(len(p.Filters), maxNamed)] {
				line.Filters = append(line.Filters, cutTopic(f.Filter))
			}
		}
	case packet.UNSUBSCRIBE:
		var p packet.Unsubscribe
		if p.Decode(version, body) == nil {
			line.PacketID = p.PacketID
			for _, f := range p.Filters[:min(len(p.Filters), maxNamed)] {
				line.Filters = append(line.Filters, cutTopic(f))
			}
		}
	case packet.SUBACK, packet.UNSUBACK:
		line.granted(version, typ, body)
	case packet.CONNACK:
		if len(body) > 1 {
			line.Reasons = []string{packet.Reason(body[1]).String()}
		}
	case packet.DISCONNECT:
		if version == packet.V5 {
			reason := packet.NormalDisconnection
			if len(body) > 0 {
				reason = packet.Reason(body[0])
			}
			line.Reasons = []string{reason.String()}
		}
	}
	return line
}

func (h *Headline) publish(version byte, header packet.Header, body []byte, aliased func(uint16) string) {
	var p packet.Publish
	if p.Decode(version, header, body) != nil {
		return
	}
	h.Topic, h.PacketID, h.QoS, h.Retain, h.Dup = cutTopic(p.Topic), p.PacketID, p.QoS, p.Retain, p.Dup
	if len(p.Topic) == 0 && p.Properties.Has(packet.TopicAlias) {
		h.Topic = cutTopic([]byte(aliased(uint16(p.Properties.Number(packet.TopicAlias, 0)))))
	}
}

// granted reads the answer to a SUBSCRIBE or UNSUBSCRIBE.
func (h *Headline) granted(version byte, typ packet.Type, body []byte) {
	var p packet.Suback
	if p.Decode(version, typ, body) != nil {
		return
	}
	h.PacketID = p.PacketID
	for _, r := range p.Reasons[:min(len(p.Reasons), maxNamed)] {
		if typ == packet.SUBACK && r <= 2 {
			h.Reasons = append(h.Reasons, [...]string{"QoS 0", "QoS 1", "QoS 2"}[r])
		} else {
			h.Reasons = append(h.Reasons, r.String())
		}
	}
}

// cutTopic keeps topics to a size that a list has room for.
func cutTopic(topic []byte) string {
	if len(topic) <= maxHeadTopic {
		return string(topic)
	}
	topic = topic[:maxHeadTopic]
	for len(topic) > 0 && !packet.ValidString(topic) {
		topic = topic[:len(topic)-1]
	}
	return string(topic) + "…"
}
