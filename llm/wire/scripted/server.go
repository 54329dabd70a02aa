// Package scripted is a provider of models for tests: it sends the bytes of a script
// over a real socket.
package scripted

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/wire"
)

// A Reply is one answer of the server.
type Reply struct {
	Status int // 200 if 0
	Header map[string]string
	// Pieces are written and flushed one by one. Content-Type is
	// text/event-stream unless the header says otherwise.
	Pieces []string
	Cut    bool          // break the connection off afterwards
	Hang   time.Duration // pause before the first piece; ended if the client goes
	Hold   bool          // keep the connection open after the last piece, until the client goes
}

// Stream is a reply with one event per line of data.
func Stream(data ...string) Reply {
	var r Reply
	for _, d := range data {
		r.Pieces = append(r.Pieces, "data: "+d+"\n\n")
	}
	return r
}

// JSON is a reply in one piece.
func JSON(status int, body string) Reply {
	return Reply{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Pieces: []string{body}}
}

// A Request is a request that the server has received.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// A Server plays replies in turn, the last one again and again; without any it refuses.
type Server struct {
	URL    string
	Before func() // each answer; optional, set before the first request

	listsNone bool // a GET takes no reply, and is not recorded

	http     *httptest.Server
	mu       sync.Mutex
	replies  []Reply
	requests []Request
	gone     int
}

// New starts a server that ends with the test.
func New(t testing.TB, replies ...Reply) *Server {
	t.Helper()
	return start(t, &Server{replies: replies})
}

// ForBridge is [New] for a model of a whole bridge. It lists no models, like some
// providers: so the bridge's probe of a provider that was idle for a while, as in a
// slow test, takes no reply away.
func ForBridge(t testing.TB, replies ...Reply) *Server {
	t.Helper()
	return start(t, &Server{replies: replies, listsNone: true})
}

func start(t testing.TB, s *Server) *Server {
	s.http = httptest.NewServer(s)
	t.Cleanup(s.Stop)
	s.URL = s.http.URL
	return s
}

// Stop ends the server and its open connections. It may be called twice.
func (s *Server) Stop() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Client is a client of the server.
func (s *Server) Client() *wire.Client {
	return &wire.Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, BaseURL: s.URL, Header: http.Header{}}
}

// Play restarts the script with other replies, and forgets the requests so far.
func (s *Server) Play(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies, s.requests = replies, nil
}

// Requests are the requests received so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone++
}

// Gone is the number of clients that disconnected before their reply.
func (s *Server) Gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// take records a request and chooses its reply. Without replies the server refuses.
func (s *Server) take(r *http.Request) Reply {
	body, _ := io.ReadAll(r.Body)
	if s.listsNone && r.Method == http.MethodGet {
		return Reply{Status: http.StatusNotImplemented}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{r.Method, r.URL.RequestURI(), r.Header, body})
	if len(s.replies) == 0 {
		return Reply{Status: http.StatusServiceUnavailable}
	}
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	return reply
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply := s.take(r)
	if s.Before != nil {
		s.Before()
	}
	if reply.Hang > 0 {
		timer := time.NewTimer(reply.Hang)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
			s.leave()
			return
		case <-timer.C:
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for k, v := range reply.Header {
		w.Header().Set(k, v)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	for _, p := range reply.Pieces {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
	if reply.Hold {
		<-r.Context().Done()
		s.leave()
	}
	if reply.Cut {
		panic(http.ErrAbortHandler)
	}
}
