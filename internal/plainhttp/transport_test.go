package plainhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// refusing is the transport of exchanges that must not be made.
type refusing struct{ error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.error }

var errBeside = errors.New("beside")

func newTransport(t testing.TB) *Transport {
	tr := &Transport{
		Beside: refusing{errBeside}, Dial: new(net.Dialer).DialContext,
		MaxIdle: 8, MaxIdlePerHost: 4, IdleTimeout: time.Hour,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// serve answers the connections of a listener, each on a goroutine of its own, until the
// test ends.
func serve(t testing.TB, each func(conn net.Conn, in *bufio.Reader)) (url string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() {
				defer conn.Close()
				each(conn, bufio.NewReader(conn))
			}()
		}
	}()
	return "http://" + l.Addr().String(), accepted
}

// always answers each request of a connection with the same bytes.
func always(answer string) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

// post sends a body and returns the answer's.
func post(ctx context.Context, tr http.RoundTripper, url, body string) (status int, got string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := tr.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

func TestExchangesGoOverOneConnection(t *testing.T) {
	var accepted atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/stream" {
			for _, b := range body {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		_, _ = w.Write(body)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	tr := newTransport(t)
	defer tr.CloseIdleConnections()
	for _, path := range []string{"/", "/stream", "/", "/stream"} {
		for _, body := range []string{"", "hello", strings.Repeat("x", 50_000)} {
			if path == "/stream" && len(body) > 100 {
				body = body[:100]
			}
			if status, got, err := post(t.Context(), tr, server.URL+path, body); status != 200 || got != body || err != nil {
				t.Fatalf("%s: %d %.20q %v", path, status, got, err)
			}
		}
	}
	if accepted.Load() != 1 {
		t.Errorf("%d connections", accepted.Load())
	}
}

// TestAnswersAreWhatTheyAreToNetHTTP compares with its transport.
func TestAnswersAreWhatTheyAreToNetHTTP(t *testing.T) {
	for name, answer := range map[string]string{
		"with a length":           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"in chunks":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
		"an error":                "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno",
		"empty":                   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"without content":         "HTTP/1.1 204 No Content\r\n\r\n",
		"after interim ones":      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"no more than interim":    strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"last of its connection":  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"with something behind":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
		"no HTTP":                 "hello\r\n\r\n",
		"two lengths":             "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"a length of letters":     "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
		"chunks of another kind":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"an older HTTP with keep": "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, always(answer))
			ours, theirs := newTransport(t), &http.Transport{DisableKeepAlives: true}
			for range 2 {
				status, body, err := post(t.Context(), ours, url, "q")
				wantStatus, wantBody, wantErr := post(t.Context(), theirs, url, "q")
				if status != wantStatus || body != wantBody || (err == nil) != (wantErr == nil) {
					t.Errorf("%d %q %v, and to net/http %d %q %v", status, body, err, wantStatus, wantBody, wantErr)
				}
			}
		})
	}
}

func TestAnotherProtocolUnaskedIsRefused(t *testing.T) {
	url, _ := serve(t, always("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"))
	if _, _, err := post(t.Context(), newTransport(t), url, "q"); err == nil {
		t.Error("it is taken")
	}
}

func TestAHeadWithoutEndIsRefused(t *testing.T) {
	url, _ := serve(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "A: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	if _, _, err := post(t.Context(), newTransport(t), url, "q"); !errors.Is(err, errHead) {
		t.Error(err)
	}
}

// TestAConnectionThatTheServiceClosedIsNotUsed though a request of POST may not be
// repeated, and one of GET is when the service closes it at that moment.
func TestAConnectionThatTheServiceClosedIsNotUsed(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	url, accepted := serve(t, func(conn net.Conn, in *bufio.Reader) {
		if r, err := http.ReadRequest(in); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(conn, answer)
		}
		if r, err := http.ReadRequest(in); err == nil && r.URL.Path != "/once" {
			t.Error("a second request came on the connection")
		}
	})
	tr := newTransport(t)
	get := func(path string) error {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		answer, err := tr.RoundTrip(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.ReadAll(answer.Body)
		return err
	}
	if err := get("/"); err != nil {
		t.Fatal(err)
	}
	if err := get("/once"); err != nil || accepted.Load() != 2 { // closed in the face of the request, and repeated
		t.Fatalf("%v, %d connections", err, accepted.Load())
	}
	if _, _, err := post(t.Context(), tr, url+"/once", "q"); !errors.Is(err, errGone) {
		t.Errorf("a question that may have been read is asked again: %v", err)
	}
}

func TestTheEndOfTheContextEndsAnExchange(t *testing.T) {
	for name, answer := range map[string]string{"before an answer": "", "in its head": "HTTP/1.1 200 OK\r\n", "in its body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"} {
		t.Run(name, func(t *testing.T) {
			got := make(chan struct{}, 1)
			gone := make(chan struct{})
			url, _ := serve(t, func(conn net.Conn, in *bufio.Reader) {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, answer)
				got <- struct{}{}
				_, _ = io.Copy(io.Discard, in)
				close(gone)
			})
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-got; cancel(why) }()
			if _, _, err := post(ctx, newTransport(t), url, "q"); !errors.Is(err, why) {
				t.Error(err)
			}
			<-gone // the connection is closed
		})
	}
}

func TestABodyThatIsLeftClosesItsConnection(t *testing.T) {
	gone := make(chan struct{})
	url, _ := serve(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
		_, _ = io.Copy(io.Discard, in)
		close(gone)
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	answer, err := newTransport(t).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	<-gone
	if _, err := answer.Body.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

func TestOtherExchangesAreMadeBeside(t *testing.T) {
	tr := newTransport(t)
	long := bytes.Repeat([]byte("x"), maxBody+1)
	for name, r := range map[string]*http.Request{
		"over TLS":               httptest.NewRequest(http.MethodGet, "https://127.0.0.1:1/", nil),
		"of a long body":         httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1/", bytes.NewReader(long)),
		"of a body without size": httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1/", io.MultiReader(strings.NewReader("x"))),
		"that expect":            withHeader(httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1/", strings.NewReader("x")), "Expect", "100-continue"),
	} {
		if _, err := tr.RoundTrip(r); !errors.Is(err, errBeside) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tr.Proxy = func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "proxy"}, nil }
	if _, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/", nil)); !errors.Is(err, errBeside) {
		t.Errorf("through a proxy: %v", err)
	}
}

func withHeader(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

// TestIdleConnectionsAreBounded in number and in time.
func TestIdleConnectionsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := &Transport{MaxIdle: 3, MaxIdlePerHost: 2, IdleTimeout: time.Minute}
		var closed atomic.Int32
		kept := func(of string) (all, one int) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			return tr.kept, len(tr.idle[of])
		}
		keep := func(address string) { tr.keep(newLine(countedConn{&closed}, address)) }
		keep("a")
		keep("a")
		keep("a") // one too many to a host
		keep("b")
		keep("c") // and to all
		if n, _ := kept("a"); closed.Load() != 2 || n != 3 {
			t.Errorf("%d closed, %d kept", closed.Load(), n)
		}
		time.Sleep(30 * time.Second)
		l := tr.take("a")
		if l == nil {
			t.Fatal("an idle connection is not used")
		}
		tr.keep(l)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n, ofA := kept("a"); n != 1 || ofA != 1 {
			t.Errorf("%d are kept after a minute", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, _ := kept("a"); n != 0 || closed.Load() != 5 {
			t.Errorf("%d are kept in the end, and %d were closed", n, closed.Load())
		}
		keep("a")
		tr.Beside = refusing{}
		tr.CloseIdleConnections()
		if n, _ := kept("a"); n != 0 || closed.Load() != 6 || tr.take("a") != nil {
			t.Error("one is left after all were closed")
		}
	})
}

type countedConn struct{ closed *atomic.Int32 }

func (c countedConn) Close() error                   { c.closed.Add(1); return nil }
func (countedConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (countedConn) Write(p []byte) (int, error)      { return len(p), nil }
func (countedConn) LocalAddr() net.Addr              { return nil }
func (countedConn) RemoteAddr() net.Addr             { return nil }
func (countedConn) SetDeadline(time.Time) error      { return nil }
func (countedConn) SetReadDeadline(time.Time) error  { return nil }
func (countedConn) SetWriteDeadline(time.Time) error { return nil }
