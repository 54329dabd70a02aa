package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// pause is the time that a listener waits when descriptors have run out.
const pause = 50 * time.Millisecond

// Exhausted reports whether an error of accept means that the process, or the
// system, has no descriptors left, which passes.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Listener lets connections through the gate. An accepted connection counts until
// it is closed; [VisitOf] finds its visit.
func (g *Gate) Listener(l net.Listener) net.Listener { return &listener{Listener: l, gate: g} }

type listener struct {
	net.Listener
	gate *Gate
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case err != nil && Exhausted(err):
			l.gate.Relieve()
			time.Sleep(pause)
			continue
		case err != nil:
			return nil, err
		}
		visit, ok := l.gate.Enter(c.RemoteAddr())
		if !ok {
			_ = c.Close()
			continue
		}
		visit.CutBy(func() { _ = c.Close() })
		return &conn{Conn: c, visit: visit}, nil
	}
}

// A conn leaves when it is closed.
type conn struct {
	net.Conn
	visit *Visit
	once  sync.Once
}

func (c *conn) Close() error {
	c.once.Do(c.visit.Leave)
	return c.Conn.Close()
}

// ReadFrom lets files be sent without copying, as the connection itself does.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// NetConn is the connection below, as of [tls.Conn].
func (c *conn) NetConn() net.Conn { return c.Conn }

// VisitOf finds the visit of a connection that a [Gate.Listener] has accepted,
// under layers that tell by NetConn what is below them. It is nil if there is
// none.
func VisitOf(c net.Conn) *Visit {
	for {
		if counted, ok := c.(*conn); ok {
			return counted.visit
		}
		layer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = layer.NetConn()
	}
}

type contextKey struct{}

// WithConn is the context of the requests of a connection: see http.Server's
// ConnContext.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if v := VisitOf(c); v != nil {
		return context.WithValue(ctx, contextKey{}, v)
	}
	return ctx
}

// FromContext is the visit of the connection that a request came by, nil if it
// is not counted.
func FromContext(ctx context.Context) *Visit {
	v, _ := ctx.Value(contextKey{}).(*Visit)
	return v
}
