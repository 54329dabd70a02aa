package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// A webCaller calls by HTTP and waits for each answer.
type webCaller struct {
	load     *load
	call     *webCall
	start    time.Time // origin of the loop's clock
	mark     uint64    // in the high bits of its calls' numbers, so that no other caller has their ids
	number   uint64
	answered stream
	latency  *histogram
}

// connectWeb opens the connections of the HTTP callers. HTTP/2 callers share one.
func (r *rig) connectWeb() error {
	s := r.scenario
	shared := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true}}
	for i := range s.Publishers {
		c := &webCaller{load: r.load, start: r.asking.start, mark: uint64(i) << 40, latency: &r.latency}
		if s.Over == OverLLM {
			c.call = newQuery(!r.target.bridge, s.Payload)
		} else {
			c.call = newWebCall(s.Over, s.Payload, i)
		}
		c.call.start = c.start
		r.web = append(r.web, c)
		if s.Over == OverHTTP2 {
			c.latency = new(histogram)
			r.http2 = append(r.http2, &http2Caller{webCaller: c, client: shared, to: r.target.web, fail: func(err error) {
				r.asking.lost.Add(1)
				r.asking.fail(err)
			}})
			continue
		}
		l := &webLine{webCaller: c, request: c.call.request(r.target.web), chained: s.Rate == 0}
		var err error
		if l.c, err = r.asking.dialWeb(r.target.web, l); err != nil {
			return err
		}
		r.pump.senders = append(r.pump.senders, l)
	}
	return nil
}

// note judges the answer to the call that was sent last.
func (c *webCaller) note(now, sent int64, body []byte) {
	d := garbled
	if c.call.answers(body, c.mark|c.number) {
		d = c.answered.take(c.number)
	} else {
		text := string(body[:min(len(body), 400)])
		c.load.complaint.CompareAndSwap(nil, &text)
	}
	if c.load.measuring.Load() {
		c.latency.add(now - sent)
	}
	c.number++
	c.load.arrived(d, 0)
}

// A webLine is a caller with an HTTP/1.1 connection of its own, which is kept alive.
type webLine struct {
	*webCaller
	c       *conn
	request []byte
	chained bool // an answer lets the next call go
	open    bool // a call is not answered
	due     int64
}

func (l *webLine) conn() *conn { return l.c }

func (l *webLine) room() int {
	if l.open {
		return 0
	}
	return 1
}

func (l *webLine) send(due int64) {
	l.open, l.due = true, due
	l.call.write(l.mark|l.number, due)
	copy(l.request[l.call.atHead:], l.call.body)
	l.c.out = append(l.c.out, l.request...)
}

func (l *webLine) packet(c *conn, first byte, body []byte) {
	if first != answeredOK || !l.open {
		c.end(fmt.Errorf("%w: %.400s", errStatus, body))
		return
	}
	l.open = false
	l.note(c.loop.now, l.due, body)
	if l.chained && l.load.take(1) == 1 {
		l.send(c.loop.now)
	}
}

var errStatus = errors.New("not answered with status 200")

// First bytes that [httpAnswer] gives an answer.
const (
	answeredOK    = 2 // status 200
	answeredOther = 0
)

// httpAnswer is the [framing] of answers of HTTP/1.1 whose length is declared.
func httpAnswer(in []byte) (first byte, body []byte, size int, err error) {
	head, _, whole := bytes.Cut(in, []byte("\r\n\r\n"))
	if !whole {
		return 0, nil, 0, nil
	}
	status, fields, _ := bytes.Cut(head, []byte("\r\n"))
	length := -1
	for line := range bytes.SplitSeq(fields, []byte("\r\n")) {
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, 0, err
			}
		}
	}
	if length < 0 || length > largestPacket {
		return 0, nil, 0, fmt.Errorf("an answer of %d bytes: %.400s", length, in)
	}
	at := len(head) + 4
	if len(in) < at+length {
		return 0, nil, 0, nil
	}
	if bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		first = answeredOK
	}
	return first, in[at : at+length], at + length, nil
}

// An http2Caller is a caller with a goroutine of its own and a client that all share.
type http2Caller struct {
	*webCaller
	client *http.Client
	to     netip.AddrPort
	fail   func(error)
	over   atomic.Bool
}

// run calls until stop.
func (c *http2Caller) run() {
	defer c.client.CloseIdleConnections()
	for !c.over.Load() {
		if c.load.take(1) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		sent := int64(time.Since(c.start))
		c.call.write(c.mark|c.number, sent)
		body, err := c.exchange()
		if err != nil {
			if !c.over.Load() {
				c.fail(fmt.Errorf("%w: %.400s", err, body))
			}
			return
		}
		c.note(int64(time.Since(c.start)), sent, body)
	}
}

// stop ends the caller and its current call.
func (c *http2Caller) stop() {
	c.over.Store(true)
	c.client.CloseIdleConnections()
}

// exchange sends the call and returns the body of its answer.
func (c *http2Caller) exchange() ([]byte, error) {
	answer, err := c.client.Post("https://"+c.to.String()+c.call.path, "application/json", bytes.NewReader(c.call.body))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestPacket))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return body, errStatus
	case answer.ProtoMajor != 2:
		return body, fmt.Errorf("answered in %s", answer.Proto)
	}
	return body, nil
}
