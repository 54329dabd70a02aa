package bench

import (
	"bytes"
	"fmt"
	"strconv"
)

// A question is JSON with its number and the time of sending at fixed places. Its
// answer is the same text, so that neither needs a parser.
const (
	questionHead = `{"id":"`
	atID         = len(questionHead)
	questionAt   = `","sent":"`
	atSent       = atID + 16 + len(questionAt)
	questionText = `","command":"bench.ask","params":{"text":"`
	questionTail = `"}}`
)

// writeQuestion puts a number and a time where they belong.
func writeQuestion(payload []byte, number uint64, now int64) {
	putHex(payload[atID:], number)
	putHex(payload[atSent:], uint64(now))
}

// readQuestion reads the number and the time of sending from the answer to a question
// of a size.
func readQuestion(payload []byte, size int) (number uint64, sent int64, ok bool) {
	if len(payload) != size {
		return 0, 0, false
	}
	number, ok1 := getHex(payload[atID:])
	at, ok2 := getHex(payload[atSent:])
	return number, int64(at), ok1 && ok2
}

func newQuestion(size int) []byte {
	q := make([]byte, 0, size)
	q = append(q, questionHead...)
	q = append(q, "0000000000000000"...)
	q = append(q, questionAt...)
	q = append(q, "0000000000000000"...)
	q = append(q, questionText...)
	for len(q) < size-len(questionTail) {
		q = append(q, 'x')
	}
	return append(q, questionTail...)
}

// A requester asks and waits for answers on its own topic.
type requester struct {
	load *load
	c    *conn
	t    template
	qos  byte

	write func(payload []byte, number uint64, now int64)
	read  func(payload []byte) (number uint64, sent int64, ok bool)

	window   int
	chained  bool // an answer lets the next question go
	inFlight int  // unanswered
	unacked  int
	number   uint64
	answers  stream
	latency  *histogram
}

func newRequester(l *load, s Scenario, version byte, index int, h *histogram) *requester {
	return &requester{
		load: l, qos: s.QoS, window: s.Window, chained: s.Rate == 0, latency: h,
		t:     publishTemplate(version, askPrefix+strconv.Itoa(index), s.QoS, nil, newQuestion(s.Payload)),
		write: writeQuestion,
		read:  func(answer []byte) (uint64, int64, bool) { return readQuestion(answer, s.Payload) },
	}
}

func (r *requester) conn() *conn { return r.c }
func (r *requester) room() int   { return min(r.window-r.inFlight, r.c.receiveMaximum-r.unacked) }

func (r *requester) send(due int64) {
	r.write(r.t.packet[r.t.payload:], r.number, due)
	r.number++
	r.inFlight++
	if r.qos > 0 {
		r.t.setID(r.c.nextID())
		r.unacked++
	}
	r.c.out = append(r.c.out, r.t.packet...)
}

func (r *requester) packet(c *conn, first byte, body []byte) {
	if first == packetPuback {
		r.unacked--
		if _, reason, ok := acknowledgement(body); !ok || reason >= 0x80 {
			r.load.refused.Add(1)
		}
		r.next()
		return
	}
	p, ok := parsePublish(c.version, first, body)
	if first&0xF0 != packetPublish || !ok {
		c.end(fmt.Errorf("a requester was sent % x", first))
		return
	}
	acknowledge(c, p)
	d := r.note(c.loop.now, p.payload)
	r.load.arrived(d, 0)
	if d == repeated {
		return // its question was answered before
	}
	r.inFlight--
	r.next()
}

func (r *requester) note(now int64, payload []byte) delivery {
	number, sent, ok := r.read(payload)
	if !ok {
		return garbled
	}
	if r.load.measuring.Load() {
		r.latency.add(now - sent)
	}
	return r.answers.take(number)
}

// next asks again for each answer that came.
func (r *requester) next() {
	if r.chained && r.room() > 0 && r.load.take(1) == 1 {
		r.send(r.c.loop.now)
	}
}

// A responder answers every question with its own text.
type responder struct {
	qos     byte
	replies []template // by requester
	replier
}

func newResponder(s Scenario, version byte) *responder {
	r := &responder{qos: s.QoS}
	for i := range s.Publishers {
		r.replies = append(r.replies, publishTemplate(version, replyPrefix+strconv.Itoa(i), s.QoS, nil, make([]byte, s.Payload)))
	}
	return r
}

func (r *responder) packet(c *conn, first byte, body []byte) {
	if first == packetPuback {
		r.acknowledged(c)
		return
	}
	p, ok := parsePublish(c.version, first, body)
	index, err := strconv.Atoi(string(bytes.TrimPrefix(p.topic, []byte(askPrefix))))
	if first&0xF0 != packetPublish || !ok || err != nil || index < 0 || index >= len(r.replies) {
		c.end(fmt.Errorf("the responder was sent % x about %q", first, p.topic))
		return
	}
	acknowledge(c, p)
	t := &r.replies[index]
	if len(p.payload) != len(t.packet)-t.payload {
		return // will be missed
	}
	copy(t.packet[t.payload:], p.payload)
	if r.qos == 0 {
		c.out = append(c.out, t.packet...)
		return
	}
	t.setID(c.nextID())
	r.publish(c, t.packet)
}

// A replier publishes answers of QoS 1, no more unacknowledged than the broker
// takes.
type replier struct {
	unacked int
	waiting [][]byte
}

func (r *replier) publish(c *conn, packet []byte) {
	if r.unacked >= c.receiveMaximum {
		r.waiting = append(r.waiting, bytes.Clone(packet))
		return
	}
	r.unacked++
	c.out = append(c.out, packet...)
}

// acknowledged makes room for the next answer.
func (r *replier) acknowledged(c *conn) {
	r.unacked--
	if len(r.waiting) > 0 {
		packet := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.publish(c, packet)
	}
}
