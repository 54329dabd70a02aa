package http

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// named lets in whom the Authorization header names.
func named(r *http.Request) (*protocol.Principal, error) {
	return &protocol.Principal{Kind: protocol.KindAgent, ID: r.Header.Get("Authorization"), Roles: []string{protocol.RoleEndAgent}}, nil
}

// A stalled body says when somebody waits for it, and comes to its end when it
// is let go.
type stalled struct {
	awaited chan struct{}
	once    sync.Once
	io.Reader
}

func (s *stalled) Read(p []byte) (int, error) {
	s.once.Do(func() { close(s.awaited) })
	return s.Reader.Read(p)
}

func TestUnfinishedBodiesOfOneKeepNobodyElseOut(t *testing.T) {
	t.Parallel()
	a, err := New(Options{Router: &scripted{}, Set: testSet(t), Authenticate: named, MaxRequests: 16})
	if err != nil {
		t.Fatal(err)
	}
	post := func(who string, body io.Reader) int {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/v1/commands/test.echo", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", who)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code
	}
	var posts sync.WaitGroup
	var ends []*io.PipeWriter
	for range 4 { // a quarter
		body, end := io.Pipe()
		ends = append(ends, end)
		s := &stalled{awaited: make(chan struct{}), Reader: body}
		posts.Go(func() {
			if status := post("greedy", s); status != http.StatusOK {
				t.Errorf("a body that came late: %d", status)
			}
		})
		<-s.awaited
	}
	if status := post("greedy", strings.NewReader("{}")); status != http.StatusServiceUnavailable {
		t.Errorf("a fifth: %d, want 503", status)
	}
	if status := post("modest", strings.NewReader("{}")); status != http.StatusOK {
		t.Errorf("somebody else: %d, want 200", status)
	}
	for _, end := range ends {
		_, _ = io.WriteString(end, "{}")
		_ = end.Close()
	}
	posts.Wait()
	if n := a.requests.Used(); n != 0 {
		t.Errorf("%d places are lost", n)
	}
}

func TestSocketsOfOneKeepNobodyElseOut(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{MaxSockets: 16})
	admit := func(who string) *socket {
		s := &socket{api: a, principal: &protocol.Principal{Kind: protocol.KindAgent, ID: who}}
		if err := a.admit(s); err != nil {
			if protocol.CodeOf(err) != protocol.Busy {
				t.Error(err)
			}
			return nil
		}
		t.Cleanup(func() { a.dismiss(s) })
		return s
	}
	for range 4 {
		if admit("greedy") == nil {
			t.Fatal("there is no room at all")
		}
	}
	if admit("greedy") != nil {
		t.Error("a fifth is let in")
	}
	if admit("modest") == nil {
		t.Error("somebody else is not let in")
	}
}
