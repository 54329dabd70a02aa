package broker

import (
	"context"
	"net"
	"sync"
)

// A Pipe is a listener within the process: [Broker.Serve] accepts what Dial
// opens. The zero value is not usable; see [NewPipe].
type Pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipe returns an open Pipe.
func NewPipe() *Pipe { return &Pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial opens a connection to whoever accepts.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipe) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in-process" }
