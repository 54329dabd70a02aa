package broker

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 §4.2.2
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol/grant"
)

// WebSocket returns the handler for MQTT over WebSocket. Clients must offer
// the subprotocol mqtt [MQTT-6.0.0-3]. The caller checks Host and Origin.
func (b *Broker) WebSocket(name string) http.Handler {
	return b.WebSocketOf(name, func(*http.Request) *grant.Grant { return nil })
}

// WebSocketOf is [Broker.WebSocket] for requests that say who sends them: known
// yields what the sender stands on, which [Credentials] have as Known, or nil. It is asked
// before the connection is a WebSocket.
func (b *Broker) WebSocketOf(name string, known func(*http.Request) *grant.Grant) http.Handler {
	door := b.stats.door(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sender := known(r)
		ws := upgrade(w, r)
		if ws == nil {
			return // the request is answered
		}
		visit := gate.FromContext(r.Context())
		if visit == nil { // the server does not count
			var ok bool
			if visit, ok = b.enter(ws.RemoteAddr()); !ok {
				door.turnedAway.Add(1)
				ws.refuse(wsTryLater, "too many connections")
				return
			}
		}
		if !b.begin() {
			visit.Leave()
			ws.refuse(wsGoingAway, "shutting down")
			return
		}
		defer b.serving.Done()
		c := b.newConn(door, ws.RemoteAddr(), visit)
		c.peer, c.known = verifiedPeer(r.TLS), sender
		s := newStream(c, ws)
		c.transport = s
		b.addConn(c)
		visit.CutBy(c.abort)
		if socket, l := ws.driven(); socket == nil || !b.readers.adopt(c, socket, l) {
			s.read()
		}
	})
}

// upgrade makes a WebSocket of a request (RFC 6455 §4.2). Otherwise it answers the
// request, or closes the connection, and returns nil.
func upgrade(w http.ResponseWriter, r *http.Request) *webSocket {
	key := r.Header.Get("Sec-WebSocket-Key")
	switch nonce, err := base64.StdEncoding.DecodeString(key); {
	case r.ProtoMajor != 1 || !offers(r.Header, "Connection", "upgrade") || !offers(r.Header, "Upgrade", "websocket"):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		http.Error(w, "this is MQTT over WebSocket", http.StatusUpgradeRequired)
		return nil
	case r.Method != http.MethodGet:
		http.Error(w, "a WebSocket begins with GET", http.StatusMethodNotAllowed)
		return nil
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		http.Error(w, "Sec-WebSocket-Version is not 13", http.StatusBadRequest)
		return nil
	case err != nil || len(nonce) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		http.Error(w, "Sec-WebSocket-Key is not 16 bytes in base64", http.StatusBadRequest)
		return nil
	}
	nc, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be a WebSocket", http.StatusNotImplemented)
		return nil
	}
	ws := &webSocket{Conn: nc}
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Reader.Peek(n)
		ws.early = append(ws.early, early...)
	}
	ours := offers(r.Header, "Sec-WebSocket-Protocol", "mqtt")
	if err := ws.accept(key, ours); err != nil {
		_ = nc.Close()
		return nil
	}
	if !ours {
		ws.refuse(wsPolicy, "subprotocol mqtt required")
		return nil
	}
	return ws
}

// offers reports whether a header that lists names has one.
func offers(h http.Header, header, name string) bool {
	for _, line := range h.Values(header) {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

const (
	upgradePatience = 5 * time.Second // for the client to take the answer to its upgrade
	closePatience   = time.Second     // for it to take a close frame, or TLS's like
)

// accept answers the request for a WebSocket.
func (ws *webSocket) accept(key string, protocol bool) error {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 §4.2.2
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if protocol {
		answer += "Sec-WebSocket-Protocol: mqtt\r\n" // [MQTT-6.0.0-4]
	}
	if err := ws.SetDeadline(time.Now().Add(upgradePatience)); err != nil {
		return err
	}
	if _, err := ws.Conn.Write([]byte(answer + "\r\n")); err != nil {
		return err
	}
	return ws.SetDeadline(time.Time{})
}

// refuse closes a connection before there is anybody to serve.
func (ws *webSocket) refuse(status uint16, text string) {
	_ = ws.SetWriteDeadline(time.Now().Add(upgradePatience))
	_ = ws.writeFrame(wsClose, closing(status, text))
	_ = ws.Conn.Close()
}

// A webSocket is the server's side of a WebSocket connection that carries MQTT, as
// a stream of packets.
type webSocket struct {
	net.Conn
	early  []byte // came with the request
	frames wsReader

	mu     sync.Mutex // for writing
	closed bool       // a close frame is written
}

// driven yields the socket under the connection and the layers in between, for a
// reader. The socket is nil if a reader cannot drive them.
func (ws *webSocket) driven() (net.Conn, layer) {
	l := &wsLayer{early: ws.early}
	if secure, ok := ws.Conn.(*tls.Conn); ok {
		w, ok := secure.NetConn().(*wire)
		if !ok {
			return nil, nil
		}
		l.under = &tlsLayer{w, secure}
		return w.nc, l
	}
	return ws.Conn, l
}

func (ws *webSocket) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil && len(b) > 0 {
		var came int
		if len(ws.early) > 0 {
			came = copy(b, ws.early)
			ws.early = ws.early[came:]
		} else {
			came, err = ws.Conn.Read(b)
		}
		k, ended := ws.frames.take(b[:came], ws.writeFrame)
		n += k
		if ended != nil {
			ws.tell(ended)
			err = ended
		}
	}
	return n, err
}

func (ws *webSocket) Write(b []byte) (int, error) {
	if err := ws.writeFrame(wsBinary, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (ws *webSocket) writeFrame(opcode byte, payload []byte) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return net.ErrClosed
	}
	ws.closed = opcode == wsClose
	frame := append(appendFrameHeader(chunk(mostFrameHeader+len(payload)), opcode, len(payload)), payload...)
	defer recycle(frame)
	_, err := ws.Conn.Write(frame)
	return err
}

// tell tells a client that broke the protocol of that.
func (ws *webSocket) tell(why error) {
	if of, ok := errors.AsType[*breachError](why); ok {
		_ = ws.writeFrame(wsClose, closing(of.status, of.text))
	}
}

// CloseWrite leaves the connection below to its own.
func (ws *webSocket) CloseWrite() error { return ws.writeFrame(wsClose, closing(wsNormal, "")) }

// NetConn is the connection below.
func (ws *webSocket) NetConn() net.Conn { return ws.Conn }

// Close does not wait for the client to close its side.
func (ws *webSocket) Close() error {
	_ = ws.SetWriteDeadline(time.Now().Add(closePatience))
	_ = ws.CloseWrite()
	return ws.Conn.Close()
}

// A wsLayer is a WebSocket connection whose socket a reader drives.
type wsLayer struct {
	under  layer // TLS; nil if frames are what the socket carries
	early  []byte
	frames wsReader
	out    []byte // frames for the socket, if nothing is under
	closed bool   // a close frame is among them
}

func (l *wsLayer) begin() {
	if l.under != nil {
		l.under.begin()
	}
}

func (l *wsLayer) open(plain, raw []byte) (n int, err error) {
	for {
		came, more, err := l.fill(plain[n:], raw)
		k, ended := l.frames.take(plain[n:n+came], l.frame)
		n += k
		if ended != nil {
			l.tell(ended)
			return n, ended
		}
		if !more || err != nil || n == len(plain) {
			return n, err
		}
	}
}

// fill fills b with bytes of frames. More may be there if it says so.
func (l *wsLayer) fill(b, raw []byte) (n int, more bool, err error) {
	switch {
	case len(l.early) > 0:
		n = copy(b, l.early)
		if l.early = l.early[n:]; len(l.early) == 0 {
			l.early = nil
		}
		return n, true, nil
	case l.under != nil:
		n, err = l.under.open(b, raw)
		return n, n == len(b), err
	}
	return copy(b, raw), false, nil
}

func (l *wsLayer) seal(plain []byte) error { return l.frame(wsBinary, plain) }

func (l *wsLayer) frame(opcode byte, payload []byte) error {
	if l.closed {
		return net.ErrClosed
	}
	l.closed = opcode == wsClose
	if l.under == nil {
		var header [mostFrameHeader]byte
		if err := hold(&l.out, appendFrameHeader(header[:0], opcode, len(payload))); err != nil {
			return err
		}
		return hold(&l.out, payload)
	}
	frame := append(appendFrameHeader(chunk(mostFrameHeader+len(payload)), opcode, len(payload)), payload...)
	defer recycle(frame)
	return l.under.seal(frame)
}

// tell tells a client that broke the protocol of that.
func (l *wsLayer) tell(why error) {
	if of, ok := errors.AsType[*breachError](why); ok {
		_ = l.frame(wsClose, closing(of.status, of.text))
	}
}

func (l *wsLayer) bye() {
	_ = l.frame(wsClose, closing(wsNormal, ""))
	if l.under != nil {
		l.under.bye()
	}
}

func (l *wsLayer) unsent() *[]byte {
	if l.under != nil {
		return l.under.unsent()
	}
	return &l.out
}
