package http

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

const (
	socketMessages     = 4096             // queued for a reader of /ws
	socketBytes        = 8 << 20          // the same in bytes
	socketPingInterval = 30 * time.Second // between pings
	socketPatience     = 10 * time.Second // for the pong, and for a write

	// A message over the limit is read away and answered, so that one mistake
	// does not cost the others their connection; but not without end.
	socketDiscard = 16 << 20
)

// A socket is one /ws connection: request envelopes come in, responses and
// events go out, several requests at once, answered in the order in which they
// finish. One goroutine reads, one writes and does the closing, one pings. Others
// only leave word with them: emit, reply, drain, end, cancel.
type socket struct {
	api       *API
	principal *protocol.Principal
	address   netip.Addr // of the peer
	out       *outbox
	ctx       context.Context // ends with the connection
	cancel    context.CancelFunc

	attended atomic.Bool // agents are asked over it: see Attend

	mu       sync.Mutex
	over     bool
	inFlight int
	draining bool
	verdict  *closing // why the bridge wants to close, nil while it does not
}

// closing is the content of a close frame.
type closing struct {
	status websocket.StatusCode
	text   string
}

// Upgrading passes requests for a WebSocket on to next. Others are answered with 426 and
// the text, for users that look at its path with a browser or curl.
func Upgrading(text string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asksForWebSocket(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		secure(w.Header())
		if r.ProtoMajor == 1 { // others forbid it
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
		}
		writeErrorStatus(w, http.StatusUpgradeRequired, protocol.Errorf(protocol.MalformedEnvelope, "%s", text))
	})
}

// asksForWebSocket reports whether a WebSocket is among the protocols a client
// would go on with.
func asksForWebSocket(h http.Header) bool {
	for _, line := range h.Values("Upgrade") {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "websocket") {
				return true
			}
		}
	}
	return false
}

// serveSocket answers GET /ws.
func (a *API) serveSocket(w http.ResponseWriter, r *http.Request) {
	who, no := a.principal(r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	s := &socket{api: a, principal: who, address: address(r), out: newOutbox(socketMessages, socketBytes)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	defer s.cancel()
	if err := a.admit(s); err != nil {
		writeError(w, err)
		return
	}
	defer a.dismiss(s)
	defer s.hangUp()
	if a.Enter != nil {
		leave, err := a.Enter(who)
		if err != nil {
			writeError(w, err)
			return
		}
		defer leave()
	}
	defer s.endWithCredential()()
	// The guard has judged Host and Origin.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1) // receive has its own

	var others sync.WaitGroup
	others.Go(func() { s.write(conn) })
	others.Go(func() { s.ping(conn) })
	s.read(conn)
	s.cancel()
	others.Wait()
}

// endWithCredential has the connection closed when the credential that opened
// it ends. Stop forgets about it.
func (s *socket) endWithCredential() (stop func() bool) {
	return s.api.Grants.OnEnd(grant.Of(s.principal), func(why error) {
		s.end(websocket.StatusPolicyViolation, protocol.AsError(why).Message)
	})
}

// admit counts the socket in, or fails if there is no room for it.
func (a *API) admit(s *socket) *protocol.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return protocol.Errorf(protocol.ShuttingDown, "%s", protocol.ShuttingDown)
	}
	if err := a.places.TryAcquire(fair.Of(s.principal), 1); err != nil {
		return err
	}
	a.sockets[s] = struct{}{}
	a.ended.Add(1)
	return nil
}

func (a *API) dismiss(s *socket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sockets, s)
	a.checkDrained()
	a.places.Release(fair.Of(s.principal), 1)
	a.ended.Done()
}

// read takes messages until the connection ends.
func (s *socket) read(conn *websocket.Conn) {
	var buf bytes.Buffer
	for {
		_, message, err := conn.Reader(s.ctx)
		if err != nil {
			return
		}
		if !s.receive(conn, message, &buf) {
			return
		}
		if buf.Cap() > 64<<10 {
			buf = bytes.Buffer{}
		}
	}
}

// receive reads one message and gets it on its way. It reports whether the
// connection may go on.
func (s *socket) receive(conn *websocket.Conn, message io.Reader, buf *bytes.Buffer) bool {
	limit := int64(s.api.Limits.MaxBytes)
	buf.Reset()
	n, err := buf.ReadFrom(io.LimitReader(message, limit+1))
	if err != nil {
		return false
	}
	if n <= limit {
		if !s.attended.Load() || !s.api.Agents.AnswerOver(s, s.principal, buf.Bytes()) {
			s.submit(buf.Bytes())
		}
		return true
	}
	n, err = io.Copy(io.Discard, io.LimitReader(message, socketDiscard))
	if err != nil {
		return false
	}
	if n == socketDiscard {
		_ = conn.Close(websocket.StatusMessageTooBig, "message too big")
		return false
	}
	s.send(s.api.failure(tooLarge(limit)))
	return true
}

// submit hands one message to the router, which copies what it keeps.
func (s *socket) submit(message []byte) {
	s.mu.Lock()
	draining, full := s.draining, s.inFlight >= s.api.MaxInFlight
	if s.verdict != nil { // messages that arrive while it closes are dropped
		s.mu.Unlock()
		return
	}
	if !draining && !full {
		s.inFlight++
	}
	s.mu.Unlock()
	switch {
	case draining:
		s.refuse(message, protocol.Errorf(protocol.ShuttingDown, "%s", protocol.ShuttingDown))
	case full:
		s.refuse(message, protocol.BusyFor(100*time.Millisecond, "too many requests are under way on this connection"))
	default:
		s.api.Router.Submit(commands.Inbound{
			Principal: s.principal, Body: message, Door: "ws", Address: s.address, Emit: s.emit, Audience: s, Line: s.line(),
		}, s.reply)
	}
}

// refuse answers a message that does not reach the router.
func (s *socket) refuse(message []byte, why *protocol.Error) {
	req, _ := protocol.DecodeRequest(message, s.api.Limits) // names its id even if it fails
	resp := req.Answer(s.api.BridgeID, s.api.Now())
	resp.Err = why
	s.send(resp)
}

// Gone implements [commands.Audience].
func (s *socket) Gone() context.Context { return s.ctx }

func (s *socket) emit(e *protocol.Event) { s.out.put(e.Append(nil)) }

// reply queues the answer and frees the request's place at once: a client that
// reads the answer may send the next request, and while nothing is in flight every
// answer is queued.
func (s *socket) reply(resp *protocol.Response) {
	answer := resp.Append(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	s.out.put(answer)
	if s.draining {
		s.out.signal()
	}
}

func (s *socket) send(resp *protocol.Response) { s.out.put(resp.Append(nil)) }

// drain lets calls under way finish and then has the connection closed.
func (s *socket) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.out.signal()
}

// end has the connection closed.
func (s *socket) end(status websocket.StatusCode, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) > 123 { // the bound of a close frame
		text = strings.ToValidUTF8(text[:123], "")
	}
	s.verdict = &closing{status, text}
	s.out.signal()
}

// write sends queued messages until the connection ends or is to be ended.
func (s *socket) write(conn *websocket.Conn) {
	defer s.cancel() // ends the reader
	defer s.out.close()
	var queue [][]byte
	for {
		select {
		case <-s.out.wake:
		case <-s.ctx.Done():
			return
		}
		// Asked before the queue is taken: nothing in flight then means that
		// every answer is in it.
		last := s.closing()
		queue = s.out.take(queue)
		for _, message := range queue {
			if s.writeMessage(conn, message) != nil {
				return
			}
		}
		if last != nil {
			_ = conn.Close(last.status, last.text) // gives up after a few seconds
			return
		}
	}
}

func (s *socket) writeMessage(conn *websocket.Conn, message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.api.patience)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, message)
}

// closing is how the connection should be closed now, nil if it should not.
func (s *socket) closing() *closing {
	if s.out.ended() {
		s.api.Log.Info("WebSocket closed, its reader is too slow", "principal", s.principal.ID)
		return &closing{websocket.StatusPolicyViolation, "reader too slow"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdict == nil && s.draining && s.inFlight == 0 && !s.attended.Load() {
		return &closing{websocket.StatusGoingAway, "shutting down"}
	}
	return s.verdict
}

// ping finds out about peers that went away without a word, and keeps proxies
// in between from thinking so of the living.
func (s *socket) ping(conn *websocket.Conn) {
	ticker := time.NewTicker(socketPingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.api.patience)
		err := conn.Ping(ctx)
		cancel()
		if err != nil {
			s.cancel()
			return
		}
	}
}
