// Package plainhttp exchanges HTTP/1.1 without TLS on the goroutine that asks.
//
// [http.Transport] has two goroutines for each connection, one that writes and one that
// reads, so that an exchange is handed over three times, each time perhaps to another
// processor. Services in the same network, such as a model's, answer in less time than
// that takes.
package plainhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"
)

// A Transport is an [http.RoundTripper]. The zero value is not usable: Beside and Dial
// are needed. It is safe for use by many goroutines.
type Transport struct {
	// Beside makes all exchanges that are not made here: over TLS, through a proxy, with
	// a trace, of bodies that are long or of unknown length.
	Beside http.RoundTripper
	// Proxy returns the proxy of a request, as [http.Transport].Proxy does. Optional.
	Proxy func(*http.Request) (*url.URL, error)
	// Dial opens a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	MaxIdle        int           // connections to all hosts that are kept between exchanges
	MaxIdlePerHost int           // and to one
	IdleTimeout    time.Duration // time that they are kept

	mu    sync.Mutex
	idle  map[string][]*line // by address, the last used at the end
	kept  int                // in idle
	sweep *time.Timer        // nil while none is kept
}

// maxBody is the longest body that is sent here, in bytes. A service that refuses a longer
// one answers before it has read all of it, for which somebody has to read meanwhile.
const maxBody = 64 << 10

// serves reports whether the exchange of a request is made here.
func (t *Transport) serves(r *http.Request) bool {
	if r.URL.Scheme != "http" || r.ContentLength > maxBody || r.ContentLength < 0 || (r.Body != nil && r.Body != http.NoBody && r.ContentLength == 0) {
		return false
	}
	if r.Close || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil || r.Method == http.MethodConnect || r.Trailer != nil || httptrace.ContextClientTrace(r.Context()) != nil {
		return false
	}
	if t.Proxy == nil {
		return true
	}
	proxy, err := t.Proxy(r)
	return proxy == nil && err == nil
}

// RoundTrip implements [http.RoundTripper]. The answer is not decompressed, and none that
// is compressed is asked for.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.serves(r) {
		return t.Beside.RoundTrip(r)
	}
	defer closeBody(r)
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	address := addressOf(r.URL)
	for {
		l := t.take(address)
		used := l != nil
		if !used {
			conn, err := t.Dial(ctx, "tcp", address)
			if err != nil {
				return nil, err
			}
			l = newLine(conn, address)
		}
		answer, err := l.exchange(t, r)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !used || !errors.Is(err, errGone) || !repeatable(r) {
			return nil, err
		}
	}
}

// repeatable reports whether a request may be sent once more when nothing has come back
// of it, as [http.Transport] does.
func repeatable(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody) && (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// addressOf is the host and port of a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// take returns a connection to an address that is idle, or nil.
func (t *Transport) take(address string) *line {
	for {
		t.mu.Lock()
		all := t.idle[address]
		if len(all) == 0 {
			t.mu.Unlock()
			return nil
		}
		l := all[len(all)-1]
		all[len(all)-1] = nil
		t.idle[address] = all[:len(all)-1]
		t.kept--
		t.mu.Unlock()
		if alive(l.conn) {
			return l
		}
		l.close()
	}
}

// keep makes a connection idle, or closes it if enough are.
func (t *Transport) keep(l *line) {
	t.mu.Lock()
	if all := t.idle[l.address]; t.kept < t.MaxIdle && len(all) < t.MaxIdlePerHost {
		if t.idle == nil {
			t.idle = make(map[string][]*line)
		}
		l.since = time.Now()
		t.idle[l.address] = append(all, l)
		if t.kept++; t.sweep == nil {
			t.sweep = time.AfterFunc(t.IdleTimeout, t.expire)
		}
		l = nil
	}
	t.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// expire closes the connections that were idle for too long.
func (t *Transport) expire() {
	var over []*line
	t.mu.Lock()
	now, next := time.Now(), time.Duration(-1)
	for address, all := range t.idle {
		n := 0
		for n < len(all) && now.Sub(all[n].since) >= t.IdleTimeout {
			n++
		}
		over = append(over, all[:n]...)
		all = append([]*line(nil), all[n:]...)
		if len(all) == 0 {
			delete(t.idle, address)
			continue
		}
		t.idle[address] = all
		if left := t.IdleTimeout - now.Sub(all[0].since); next < 0 || left < next {
			next = left
		}
	}
	t.kept -= len(over)
	if t.sweep = nil; next >= 0 {
		t.sweep = time.AfterFunc(next, t.expire)
	}
	t.mu.Unlock()
	for _, l := range over {
		l.close()
	}
}

// CloseIdleConnections closes the connections that are idle, and those of Beside.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	idle := t.idle
	t.idle, t.kept = nil, 0
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	t.mu.Unlock()
	for _, all := range idle {
		for _, l := range all {
			l.close()
		}
	}
	if beside, ok := t.Beside.(interface{ CloseIdleConnections() }); ok {
		beside.CloseIdleConnections()
	}
}

// A line is a connection, used by one goroutine at a time.
type line struct {
	conn    net.Conn
	address string
	in      *bufio.Reader // from the line
	out     *bufio.Writer // to conn
	left    int           // bytes that the head of an answer may still have; less than 0 is any number
	got     bool          // something of the answer has come
	since   time.Time     // when it became idle
}

// maxHead is the largest head of an answer, with those of interim answers (status 1xx)
// before it, in bytes.
const maxHead = 1 << 20

var (
	errGone = errors.New("the service closed the connection")
	errHead = errors.New("the head of the answer is too large")
)

func newLine(conn net.Conn, address string) *line {
	l := &line{conn: conn, address: address, out: bufio.NewWriterSize(conn, 4<<10)}
	l.in = bufio.NewReaderSize(l, 4<<10)
	return l
}

func (l *line) close() { _ = l.conn.Close() }

// Read reads from the connection what belongs to an answer.
func (l *line) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errHead
	}
	if l.left > 0 && len(p) > l.left {
		p = p[:l.left]
	}
	n, err := l.conn.Read(p)
	l.got = l.got || n > 0
	if l.left > 0 {
		l.left -= n
	}
	return n, err
}

// longAgo is a deadline that ends what is under way.
var longAgo = time.Unix(1, 0)

// exchange sends a request and returns its answer, whose body gives the connection back.
// The end of the context ends the exchange, also the reading of the body.
func (l *line) exchange(t *Transport, r *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), func() { _ = l.conn.SetDeadline(longAgo) })
	fail := func(err error) (*http.Response, error) {
		stop()
		l.close()
		if !l.got {
			err = fmt.Errorf("%w before it answered: %v", errGone, err) //nolint:errorlint // an answer that never began is not one that broke off
		}
		return nil, err
	}
	l.got, l.left = false, maxHead
	sent := r.Write(l.out)
	if sent == nil {
		sent = l.out.Flush()
	}
	answer, err := l.head(r)
	if err != nil {
		return fail(errors.Join(sent, err))
	}
	l.left = -1
	answer.Request = r
	b := &body{t: t, line: l, stop: stop, ctx: r.Context(), from: answer.Body, again: sent == nil && !answer.Close}
	if answer.Body == http.NoBody {
		b.end(true)
		return answer, nil
	}
	answer.Body = b
	return answer, nil
}

// head reads the answer as far as its head.
func (l *line) head(r *http.Request) (*http.Response, error) {
	for {
		answer, err := http.ReadResponse(l.in, r)
		switch {
		case err != nil:
			return nil, err
		case answer.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the service switched to another protocol unasked")
		case answer.StatusCode >= 200:
			return answer, nil
		}
	}
}
