package broker

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A lateListener accepts connections whose writer hears late that the peer has got what
// it wrote, once they are late.
type lateListener struct {
	net.Listener
	late atomic.Bool
	heed chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return lateConn{nc, l}, err
}

type lateConn struct {
	net.Conn
	of *lateListener
}

func (c lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.of.late.Load() {
		<-c.of.heed
	}
	return n, err
}

// TestARefusalLeavesThoughAnotherAnswerIsJustOnItsWay has a client answer an AUTH
// before the goroutine that wrote it goes on.
func TestARefusalLeavesThoughAnotherAnswerIsJustOnItsWay(t *testing.T) {
	n := newNode(t, -1, func(o *Options) { o.Enhanced = map[string]Method{"secret": secret{2}} })
	under, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lateListener{Listener: under, heed: make(chan struct{})}
	l.late.Store(true)
	n.addr = under.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = n.Serve(context.Background(), "late", l)
	}()
	t.Cleanup(func() { <-served })
	t.Cleanup(func() { _ = under.Close() })

	p := n.dial(packet.V5)
	c := packet.Connect{Version: 5, CleanStart: true, ClientID: []byte("a")}
	c.Properties.SetBytes(packet.AuthMethod, []byte("secret"))
	p.send(c.Append(nil))
	p.expect(packet.AUTH)
	a := packet.Auth{Reason: packet.ContinueAuthentication}
	a.Properties.SetBytes(packet.AuthMethod, []byte("secret"))
	a.Properties.SetBytes(packet.AuthData, []byte("wrong"))
	p.send(a.Append(nil))
	eventually.Holds(t, "the client is refused", func() bool {
		all := n.allConns()
		if len(all) != 1 {
			return false
		}
		all[0].mu.Lock()
		defer all[0].mu.Unlock()
		return all[0].closed
	})
	l.late.Store(false)
	close(l.heed)
	if err := p.connack.Decode(5, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.BadUserNameOrPassword {
		t.Errorf("CONNACK %v, %v", p.connack.Reason, err)
	}
	p.ended()
}

// TestAClientThatIsRefusedMaySayMoreBeforeItHears has a connection not reset by what
// lies unread as it ends.
func TestAClientThatIsRefusedMaySayMoreBeforeItHears(t *testing.T) {
	for name, readers := range map[string]int{
		"readers": 2, "readers over TLS": overTLS + 2, "readers over WebSocket": overWebSocket + 2,
		"goroutines": -1, "goroutines over TLS": overTLS - 1, "goroutines over WebSocket": overWebSocket - 1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, readers, func(o *Options) { o.linger = patience })
			p := n.dial(packet.V5)
			c := packet.Connect{Version: 5, CleanStart: true, ClientID: []byte("a")}
			as("ann")(&c)
			c.Password = []byte("wrong")
			m := text("x", string(bytes.Repeat([]byte("more "), 1_000_000)))
			p.send(m.Append(c.Append(nil), 5))
			if err := p.connack.Decode(5, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.BadUserNameOrPassword {
				t.Errorf("CONNACK %v, %v", p.connack.Reason, err)
			}
			_ = p.nc.SetReadDeadline(time.Now().Add(patience))
			if _, err := p.nc.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the connection ends with %v", err)
			}
		})
	}
}
