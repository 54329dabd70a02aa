package broker

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// socketOf returns the socket of a connected client.
func (n *node) socketOf(id string) *socket {
	return n.session(home(id)).conn.Load().transport.(*socket)
}

func (n *node) acceptor() *acceptor {
	r := n.readers.all[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acceptors[0]
}

func TestAcceptedConnectionsProbeDeadPeersAndDoNotDelay(t *testing.T) {
	n := newNode(t, 1)
	n.connect(packet.V5, "a") // perhaps before the listener was served
	n.connect(packet.V5, "b")
	for _, id := range []string{"a", "b"} {
		checkSocket(t, n.socketOf(id))
	}
}

func TestConnectionsAreMadeReadyWhereTheListenerCannotBe(t *testing.T) {
	n := newNode(t, 1)
	n.connect(packet.V5, "a")
	a := n.acceptor()
	a.mu.Lock()
	a.inherit = false
	for _, o := range [][3]int{{unix.IPPROTO_TCP, unix.TCP_NODELAY, 0}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0}} {
		if err := unix.SetsockoptInt(a.fd, o[0], o[1], o[2]); err != nil {
			t.Error(err)
		}
	}
	a.mu.Unlock()
	n.connect(packet.V5, "b")
	checkSocket(t, n.socketOf("b"))
}

func checkSocket(t *testing.T, s *socket) {
	t.Helper()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for name, o := range map[string][3]int{
		"no delay":        {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		"keep alive":      {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"first probe":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		"between probes":  {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		"unheeded probes": {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		if got, err := unix.GetsockoptInt(s.fd, o[0], o[1]); err != nil || got != o[2] {
			t.Errorf("%s is %d (%v), want %d", name, got, err, o[2])
		}
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("the socket blocks (%v)", err)
	}
	if flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("children inherit the socket (%v)", err)
	}
}

func TestConnectionsAreDealtOutAmongReaders(t *testing.T) {
	n := newNode(t, 2)
	n.connect(packet.V5, "a")
	n.connect(packet.V5, "b")
	if n.socketOf("a").r == n.socketOf("b").r {
		t.Error("one reader has both")
	}
}

func TestAcceptingGoesOnAfterAFailure(t *testing.T) {
	n := newNode(t, 1)
	n.connect(packet.V5, "before")
	a := n.acceptor()
	a.mu.Lock()
	a.rest() // as when descriptors have run out
	a.mu.Unlock()
	n.connect(packet.V5, "after")
}

func TestListenerOfAServeThatEndedIsClosed(t *testing.T) {
	n := newNode(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx, "extra", l) }()
	first := &node{t: t, Broker: n.Broker, addr: l.Addr().String()}
	p := first.connect(packet.V5, "a")
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if nc, err := net.Dial("tcp", first.addr); err == nil {
		_ = nc.Close()
		t.Error("the address is still served")
	}
	p.send([]byte{byte(packet.PINGREQ) << 4, 0})
	p.expect(packet.PINGRESP) // connections live on
}

func TestRecognisedClientsAreNotAuthenticated(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		var asked atomic.Int32
		n := newNode(t, readers, func(o *Options) {
			o.Authenticate = func(ctx context.Context, c Credentials) (*protocol.Principal, error) {
				asked.Add(1)
				return authenticate(ctx, c)
			}
		})
		n.connect(packet.V5, "known")
		if asked.Load() != 0 {
			t.Error("somebody who was recognised was authenticated")
		}
		n.connect(packet.V5, "stranger", as("ann"))
		if asked.Load() != 1 {
			t.Error("somebody who was not recognised was not authenticated")
		}
		wrong := n.tryConnect(packet.V5, "wrong", as("ann"), func(c *packet.Connect) { c.Password = []byte("bob") })
		if wrong.connack.Reason != packet.BadUserNameOrPassword {
			t.Errorf("a wrong password gets %v", wrong.connack.Reason)
		}
	})
}

func TestSessionsWithManySubscriptionsAreNotResumedByTheReader(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		var asked atomic.Int32
		n := newNode(t, readers, func(o *Options) {
			o.Authenticate = func(ctx context.Context, c Credentials) (*protocol.Principal, error) {
				asked.Add(1)
				return authenticate(ctx, c)
			}
		})
		p := n.connect(packet.V5, "a", kept)
		for i := range 40 {
			p.subscribe(fmt.Sprint(i), 0)
		}
		n.leave(p, "a")
		p = n.connect(packet.V5, "a", kept)
		if !p.connack.SessionPresent || asked.Load() != 1 {
			t.Errorf("session present: %v, authenticated %d times", p.connack.SessionPresent, asked.Load())
		}
	})
}
