package broker

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// WebSocket returns the handler for MQTT over WebSocket. Clients must offer
// the subprotocol mqtt [MQTT-6.0.0-3]. The caller checks Host and Origin.
func (b *Broker) WebSocket(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols:       []string{"mqtt"},
			InsecureSkipVerify: true, // Origin: the caller's
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil {
			return // Accept has answered
		}
		if ws.Subprotocol() != "mqtt" {
			_ = ws.Close(websocket.StatusPolicyViolation, "subprotocol mqtt required")
			return
		}
		c := &conn{
			Conn:     webSocketConn{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), ws},
			listener: name,
			peer:     verifiedPeer(r.TLS),
		}
		if !b.admit(c) {
			_ = ws.Close(websocket.StatusGoingAway, "shutting down")
			return
		}
		defer b.release(c)
		b.attach(c)
	})
}

// A webSocketConn closes without waiting for the peer's closing handshake.
type webSocketConn struct {
	net.Conn
	ws *websocket.Conn
}

func (c webSocketConn) Close() error { return c.ws.CloseNow() }
