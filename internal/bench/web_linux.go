package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// A webCaller calls by HTTP and waits for each answer, on a goroutine of its own.
type webCaller struct {
	load     *load
	fail     func(error)
	start    time.Time
	call     *webCall
	exchange exchange
	every    time.Duration // between calls; 0 calls as soon as the answer has arrived

	number   uint64
	answered stream
	latency  histogram
	over     atomic.Bool
}

// An exchange sends a call and returns the body of its answer, good until the next.
type exchange interface {
	exchange(w *webCall) ([]byte, error)
	close()
}

// connectWeb opens the connections of the HTTP callers. HTTP/2 callers share one.
func (r *rig) connectWeb() error {
	s := r.scenario
	shared := &http2Exchange{to: r.target.web, client: http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true}}}
	for i := range s.Publishers {
		c := &webCaller{load: r.load, start: r.asking.start, exchange: shared}
		if s.Over == OverLLM {
			c.call = newQuery(!r.target.bridge, s.Payload)
		} else {
			c.call = newWebCall(s.Over, s.Payload, i)
		}
		if s.Rate > 0 {
			c.every = time.Duration(float64(s.Publishers) / s.Rate * float64(time.Second))
		}
		c.call.start = c.start
		c.fail = func(err error) {
			if !c.over.Load() {
				r.asking.lost.Add(1)
				r.asking.fail(err)
			}
		}
		if s.Over != OverHTTP2 {
			conn, err := net.Dial("tcp", r.target.web.String())
			if err != nil {
				return err
			}
			c.exchange = &http1Exchange{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), request: c.call.request(r.target.web)}
		}
		r.web = append(r.web, c)
	}
	return nil
}

// run calls until stop.
func (c *webCaller) run() {
	defer c.exchange.close()
	for due := time.Now(); !c.over.Load(); {
		if due = c.pace(due); c.load.take(1) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		sent := time.Since(c.start)
		c.call.write(c.number, int64(sent))
		body, err := c.exchange.exchange(c.call)
		if err != nil {
			c.fail(fmt.Errorf("%w: %.400s", err, body))
			return
		}
		d := garbled
		if c.call.answers(body, c.number) {
			d = c.answered.take(c.number)
		} else {
			text := string(body[:min(len(body), 400)])
			c.load.complaint.CompareAndSwap(nil, &text)
		}
		if c.load.measuring.Load() {
			c.latency.add(int64(time.Since(c.start) - sent))
		}
		c.number++
		c.load.arrived(d, 0)
	}
}

// pace waits until a call is due, and returns the due time of the next one. Late calls
// are caught up within a second, and then left out.
func (c *webCaller) pace(due time.Time) time.Time {
	if c.every == 0 {
		return due
	}
	now := time.Now()
	if now.Sub(due) > time.Second {
		due = now
	}
	time.Sleep(due.Sub(now))
	return due.Add(c.every)
}

// stop ends the caller and its current call.
func (c *webCaller) stop() {
	c.over.Store(true)
	c.exchange.close()
}

// An http1Exchange is a connection that is kept alive.
type http1Exchange struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	answer  []byte
}

var errStatus = errors.New("not answered with status 200")

func (e *http1Exchange) exchange(w *webCall) ([]byte, error) {
	copy(e.request[w.atHead:], w.body)
	if _, err := e.conn.Write(e.request); err != nil {
		return nil, err
	}
	length, ok := -1, false
	for first := true; ; first = false {
		line, err := e.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if first {
			ok = bytes.HasPrefix(line, []byte("HTTP/1.1 200 "))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(": ")); found && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		}
	}
	if length < 0 || length > largestPacket {
		return nil, fmt.Errorf("an answer of %d bytes", length)
	}
	if cap(e.answer) < length {
		e.answer = make([]byte, length)
	}
	e.answer = e.answer[:length]
	if _, err := io.ReadFull(e.in, e.answer); err != nil {
		return nil, err
	}
	if !ok {
		return e.answer, errStatus
	}
	return e.answer, nil
}

func (e *http1Exchange) close() { _ = e.conn.Close() }

// An http2Exchange is a client that all callers share.
type http2Exchange struct {
	to     netip.AddrPort
	client http.Client
}

func (e *http2Exchange) exchange(w *webCall) ([]byte, error) {
	answer, err := e.client.Post("https://"+e.to.String()+w.path, "application/json", bytes.NewReader(w.body))
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

func (e *http2Exchange) close() { e.client.CloseIdleConnections() }
