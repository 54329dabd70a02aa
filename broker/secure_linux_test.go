package broker

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestReadersTakeConnectionsOver: none keeps its goroutine, nor anything for the
// socket once its client has it.
func TestReadersTakeConnectionsOver(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]int{"TLS": overTLS + 2, "WebSocket": overWebSocket + 2, "WebSocket over TLS": overWebSocket + overTLS + 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, readers)
			const clients = 20
			for i := range clients {
				n.connect(5, fmt.Sprint("c", i))
			}
			eventually.Holds(t, "readers have all of them, and nothing is held", func() bool {
				all := n.allConns()
				for _, c := range all {
					c.mu.Lock()
					s, ok := c.transport.(*socket)
					ok = ok && s.layer != nil && *s.layer.unsent() == nil
					c.mu.Unlock()
					if !ok {
						return false
					}
				}
				return len(all) == clients
			})
		})
	}
}

// A rest is a layer that always has something for the socket.
type rest struct{ layer }

func (rest) unsent() *[]byte { return &[]byte{wsFinal | wsClose, 0} }

// TestNothingIsWrittenToASocketThatIsClosed: its number may be another connection's
// by then, even if the layer has a rest that the socket did not take.
func TestNothingIsWrittenToASocketThatIsClosed(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]int{"TLS": overTLS + 1, "WebSocket": overWebSocket + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, readers)
			n.connect(5, "c")
			var s *socket
			eventually.Holds(t, "a reader has it", func() (ok bool) {
				c := n.allConns()[0]
				c.mu.Lock()
				defer c.mu.Unlock()
				s, ok = c.transport.(*socket)
				return ok
			})
			c := s.c
			c.mu.Lock()
			defer c.mu.Unlock()
			c.closed = true
			c.closeLocked()
			s.layer = rest{s.layer}
			c.out.add([]byte{0xD0, 0})
			c.flushLocked(c.b.clock.Steady())
			if len(c.out.segs) != 1 || s.fd != -1 {
				t.Errorf("%d packets wait, descriptor %d", len(c.out.segs), s.fd)
			}
		})
	}
}
