package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A peer is the other end of a /ws connection.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
}

func dial(t *testing.T, url string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, url+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { conn.CloseNow() })
	return &peer{t, conn, ctx}
}

func (p *peer) send(message string) {
	p.t.Helper()
	if err := p.conn.Write(p.ctx, websocket.MessageText, []byte(message)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() protocol.Envelope {
	p.t.Helper()
	_, data, err := p.conn.Read(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := protocol.DecodeEnvelope(data, protocol.Limits{})
	if err != nil && m.Response == nil {
		p.t.Fatalf("received %s: %v", data, err)
	}
	return m
}

// closed reads until the connection ends and says how.
func (p *peer) closed() websocket.StatusCode {
	p.t.Helper()
	for {
		if _, _, err := p.conn.Read(p.ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				p.t.Fatal("the connection stays open")
			}
			return websocket.CloseStatus(err)
		}
	}
}

func TestSocketAnswersInTheOrderThingsFinish(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	router := &scripted{answer: func(_ context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response {
		if req.ID == "slow" {
			in.Emit(&protocol.Event{Version: protocol.Version, ID: "slow", Name: "task.progress", Seq: 1, Data: []byte(`{}`)})
			<-slow
		}
		return succeeded(req, "{}")
	}}
	_, server := serve(t, Options{Router: router})
	p := dial(t, server.URL)
	p.send(envelope("slow", "test.run", "{}"))
	if m := p.receive(); m.Event == nil || m.Event.Name != "task.progress" {
		t.Errorf("first came %+v", m)
	}
	p.send(envelope("fast", "test.run", "{}"))
	if m := p.receive(); m.Response == nil || m.Response.ID != "fast" {
		t.Errorf("second came %+v", m)
	}
	close(slow)
	if m := p.receive(); m.Response == nil || m.Response.ID != "slow" {
		t.Errorf("third came %+v", m)
	}
	if in := router.last(t).in; in.Door != "ws" || in.Principal.ID != "ann" {
		t.Errorf("the router was handed %+v", in)
	}
}

func TestSocketSurvivesBadMessages(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Limits: protocol.Limits{MaxBytes: 1000}})
	p := dial(t, server.URL)
	for message, want := range map[string]protocol.Code{
		"hello":                   protocol.MalformedEnvelope,
		"":                        protocol.MalformedEnvelope,
		strings.Repeat("x", 5000): protocol.PayloadTooLarge,
	} {
		p.send(message)
		if m := p.receive(); m.Response == nil || m.Response.Err == nil || m.Response.Err.Code != want {
			t.Errorf("%.10q got %+v", message, m.Response)
		}
	}
	p.send(envelope("after", "test.echo", "{}"))
	if m := p.receive(); m.Response == nil || m.Response.ID != "after" || m.Response.Err != nil {
		t.Errorf("afterwards %+v", m.Response)
	}
}

func TestSocketTurnsAwayWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		<-leave
		return succeeded(req, "{}")
	}}
	_, server := serve(t, Options{Router: router, MaxInFlight: 2, MaxSockets: 1})
	p := dial(t, server.URL)
	for i := range 3 {
		p.send(envelope(fmt.Sprint("r", i), "test.run", "{}"))
	}
	if m := p.receive(); m.Response.ID != "r2" || m.Response.Err == nil || m.Response.Err.Code != protocol.Busy || m.Response.Err.Details["retry_after_ms"] == nil {
		t.Errorf("the third got %+v", m.Response)
	}
	_, resp, err := websocket.Dial(p.ctx, server.URL+"/ws", nil)
	if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second connection: %v", err)
	}
	close(leave)
	p.receive()
	p.receive()
	p.send(envelope("later", "test.run", "{}"))
	if m := p.receive(); m.Response.ID != "later" || m.Response.Err != nil {
		t.Errorf("later %+v", m.Response)
	}
}

func TestWhoReadsAnAnswerMayAskAgain(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{MaxInFlight: 1})
	p := dial(t, server.URL)
	for i := range 300 {
		p.send(envelope(fmt.Sprint("r", i), "test.run", "{}"))
		if m := p.receive(); m.Response == nil || m.Response.Err != nil {
			t.Fatalf("request %d: %+v", i, m.Response)
		}
	}
}

func TestSocketWantsAPrincipalAndTheRightOrigin(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Authenticate: withKey})
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"nobody":         {http.Header{}, 401},
		"another origin": {http.Header{"Authorization": {"Bearer good"}, "Origin": {"https://evil.example"}}, 403},
		"somebody":       {http.Header{"Authorization": {"Bearer good"}}, 101},
	} {
		conn, resp, err := websocket.Dial(ctx, server.URL+"/ws", &websocket.DialOptions{HTTPHeader: c.header})
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v", name, err)
		}
		if conn != nil {
			conn.CloseNow()
		}
	}
	if got := do(t, server, "GET", "/ws", "", "Authorization", "Bearer good"); got.status != http.StatusUpgradeRequired {
		t.Errorf("plain GET: %d", got.status)
	}
}

// HTTP/2 knows no Upgrade, and clients reset a stream that has it.
func TestTheWayToASocketIsToldInHTTP2AsWell(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(Upgrading("connect with a WebSocket client", http.NotFoundHandler()))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusUpgradeRequired || response.Header.Get("Upgrade") != "" {
		t.Errorf("answered in %s: %s, %v", response.Proto, response.Status, response.Header)
	}
}

func TestSocketReaderTooSlowIsClosed(t *testing.T) {
	t.Parallel()
	router := &scripted{answer: func(_ context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response {
		data := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
		for range 64 {
			in.Emit(&protocol.Event{Version: protocol.Version, ID: req.ID, Name: "task.delta", Data: data})
		}
		return succeeded(req, "{}")
	}}
	a, server := serve(t, Options{Router: router, patience: 100 * time.Millisecond})
	p := dial(t, server.URL)
	p.send(envelope("flood", "test.run", "{}"))
	deadline := time.Now().Add(eventually.Patience)
	for { // without reading
		a.mu.Lock()
		n := len(a.sockets)
		a.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection is kept")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCloseLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		close(entered)
		<-leave
		return succeeded(req, "{}")
	}}
	a, server := serve(t, Options{Router: router})
	p, idle := dial(t, server.URL), dial(t, server.URL)
	p.send(envelope("last", "test.run", "{}"))
	<-entered
	closed := make(chan error)
	go func() { closed <- a.Close(p.ctx) }()
	if status := idle.closed(); status != websocket.StatusGoingAway {
		t.Errorf("the idle one was closed with %v", status)
	}
	p.send(envelope("late", "test.run", "{}"))
	if m := p.receive(); m.Response.ID != "late" || m.Response.Err == nil || m.Response.Err.Code != protocol.ShuttingDown {
		t.Errorf("late: %+v", m.Response)
	}
	close(leave)
	if m := p.receive(); m.Response.ID != "last" || m.Response.Err != nil {
		t.Errorf("last: %+v", m.Response)
	}
	if status := p.closed(); status != websocket.StatusGoingAway {
		t.Errorf("closed with %v", status)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	_, resp, err := websocket.Dial(p.ctx, server.URL+"/ws", nil)
	if err == nil || resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("a new connection: %v", err)
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		close(entered)
		<-leave
		return succeeded(req, "{}")
	}}
	a, server := serve(t, Options{Router: router})
	p := dial(t, server.URL)
	p.send(envelope("never", "test.run", "{}"))
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	close(leave)
}

func TestWebSocketAloneIsGuarded(t *testing.T) {
	t.Parallel()
	a, server := serve(t, Options{})
	server.Config.Handler = a.WebSocket()
	if got := do(t, server, "GET", "/anything", "", "Host", "evil.example"); got.status != 403 {
		t.Errorf("another host: %d", got.status)
	}
	p := dial(t, server.URL)
	p.send(envelope("a", "test.echo", "{}"))
	if m := p.receive(); m.Response == nil || m.Response.Err != nil {
		t.Errorf("%+v", m)
	}
}

func TestAWebSocketMayBeOneOfSeveralUpgrades(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"websocket": true, "WebSocket": true, "h2c, websocket": true, "websocket ,h2c": true, "": false, "h2c": false, "websockets": false,
	} {
		if got := asksForWebSocket(http.Header{"Upgrade": {line}}); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
