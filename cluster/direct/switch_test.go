package direct

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/membercert"
)

// goes fails unless a frame goes from one bridge to another over the line, or by the
// fallback.
func goes(t *testing.T, from, to *bridge, direct bool) {
	t.Helper()
	from.took()
	to.took()
	if err := from.Send(to.self.ID, []byte("frame")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	_, other := from.took()
	came, _ := to.took()
	if direct != slices.Equal(came, []string{from.self.ID + ": frame"}) || direct == slices.Equal(other, []string{to.self.ID + ": frame"}) {
		t.Errorf("%s sent %q by the fallback and %q over the line, which is expected to be in use: %v", from.self.ID, other, came, direct)
	}
}

func TestFramesGoOverTheLineWhileThereIsOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.begin(t, "a", 1, secret), n.begin(t, "b", 2, secret)
		defer a.Close()
		defer b.Close()
		goes(t, a, b, false) // which it does not know
		know(a, b)
		synctest.Wait()
		goes(t, a, b, true)
		goes(t, b, a, true)
		if s := a.with("b"); !s.Dialed {
			t.Errorf("the bridge with the lower id did not dial: %+v", s)
		}
		n.snap()
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		goes(t, a, b, true)
		if a.changes != 3 || b.changes != 3 { // there, gone, there
			t.Errorf("told of %d and %d changes", a.changes, b.changes)
		}
		a.Reconcile(nil)
		synctest.Wait()
		goes(t, a, b, false)
		goes(t, b, a, false)
		know(a, b)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		goes(t, a, b, true)
	})
}

// TestTheLineOfTheLowerIDStays has the higher one dial first, since the other cannot.
func TestTheLineOfTheLowerIDStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.begin(t, "a", 1, secret), n.begin(t, "b", 2, secret)
		defer a.Close()
		defer b.Close()
		n.listen("b") // where nobody takes a connection
		know(a, b)
		time.Sleep(yieldFor + time.Second)
		synctest.Wait()
		if s := b.with("a"); !s.Direct || !s.Dialed {
			t.Fatalf("the bridge that can dial has %+v", s)
		}
		goes(t, a, b, true)
		// Now the lower one dials, though it has a line.
		p := a.peer("b")
		n.mu.Lock()
		n.at["b"] = b.listener.(*ear)
		n.mu.Unlock()
		l, err := p.dial()
		if err != nil || !a.adopt(l) {
			t.Fatalf("the lower one's line was not taken: %v", err)
		}
		synctest.Wait()
		goes(t, a, b, true)
		goes(t, b, a, true)
		if !a.with("b").Dialed || b.with("a").Dialed {
			t.Errorf("the lines are %+v and %+v", a.with("b"), b.with("a"))
		}
		// And the higher one again, which is told that there is a better one.
		if _, err := b.peer("a").dial(); err == nil || !strings.Contains(err.Error(), errBetter.Error()) {
			t.Errorf("the higher one's line was answered by %v", err)
		}
		goes(t, a, b, true)
	})
}

// TestWhoDoesNotBelongIsRefused has a bridge dial those with which it has no line.
func TestWhoDoesNotBelongIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		other  Peer // that listens
		secret []byte
		wants  Peer // whom a looks for there
		knows  Peer // whom the other wants
		says   string
	}{
		"a foreign cluster": {
			Peer{Node{"b", 2}, "b"}, []byte("of another cluster, with a key that does not fit"), Peer{Node{"b", 2}, "b"}, Peer{Node{"a", 1}, "nowhere"},
			"it is no bridge of this cluster",
		},
		"another bridge": {
			Peer{Node{"b", 2}, "b"}, secret, Peer{Node{"c", 3}, "b"}, Peer{Node{"a", 1}, "nowhere"},
			"it is another bridge of the cluster",
		},
		"another process": {
			Peer{Node{"b", 2}, "b"}, secret, Peer{Node{"b", 3}, "b"}, Peer{Node{"a", 1}, "nowhere"},
			"another process of the bridge answers",
		},
		"not known": {
			Peer{Node{"b", 2}, "b"}, secret, Peer{Node{"b", 2}, "b"}, Peer{Node{"c", 1}, "nowhere"},
			`it says: bridge "b" wants no line with "a"`,
		},
		"known as another process": {
			Peer{Node{"b", 2}, "b"}, secret, Peer{Node{"b", 2}, "b"}, Peer{Node{"a", 7}, "nowhere"},
			`it says: bridge "b" knows another process of "a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := newNetwork()
				a, b := n.begin(t, "a", 1, secret), n.begin(t, test.other.ID, test.other.Epoch, test.secret)
				defer a.Close()
				defer b.Close()
				b.Reconcile([]Peer{test.knows})
				a.Reconcile([]Peer{test.wants})
				time.Sleep(time.Second)
				synctest.Wait()
				if s := a.with(test.wants.ID); s.Direct || !strings.Contains(s.Why, test.says) {
					t.Errorf("the line is %+v, want %q", s, test.says)
				}
				if s := b.with(test.knows.ID); s.Direct {
					t.Errorf("the other side has %+v", s)
				}
			})
		})
	}
}

// TestACertificateIsOfOneBridge has a bridge say that it is another one.
func TestACertificateIsOfOneBridge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		b := n.begin(t, "b", 2, secret)
		defer b.Close()
		b.Reconcile([]Peer{{Node{"a", 1}, "nowhere"}})
		for as, want := range map[string]string{"a": "", "c": `the certificate is not that of bridge "a"`} {
			conn := handshake(t, n, as)
			if _, err := conn.Write(greeting{1, "a"}.append(nil)); err != nil {
				t.Fatal(err)
			}
			if g, err := readGreeting(conn); err != nil || g.text != want {
				t.Errorf("who shows the certificate of %q is told %q, %v", as, g.text, err)
			}
			_ = conn.NetConn().Close()
			synctest.Wait()
		}
	})
}

// handshake connects with bridge b under the certificate of another one.
func handshake(t *testing.T, n *network, as string) *tls.Conn {
	t.Helper()
	secure, err := membercert.TLS(secret, "direct lines", certified(as))
	if err != nil {
		t.Fatal(err)
	}
	secure.ServerName = certified("b")
	raw, err := n.dial(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, secure)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestALineThatStandsStillIsClosed has a bridge greet, and then do something else
// than is right.
func TestALineThatStandsStillIsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		does  func(conn *tls.Conn)
		sends int // frames of b to it
		after time.Duration
		why   string
	}{
		"silent, and takes all": {func(conn *tls.Conn) { go drain(conn) }, 0, silentAfter, "nothing was heard"},
		"takes nothing":         {func(conn *tls.Conn) { go beats(conn) }, 1, writePatience, "nothing was heard of it, or it took nothing"},
		"a frame too large": {func(conn *tls.Conn) {
			go drain(conn)
			_, _ = conn.Write(binary.LittleEndian.AppendUint32(nil, mostFrame+1))
		}, 0, 0, errFrame.Error()},
		"gone": {func(conn *tls.Conn) { _ = conn.NetConn().Close() }, 0, 0, "the line broke"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := newNetwork()
				b := n.begin(t, "b", 2, secret)
				defer b.Close()
				b.Reconcile([]Peer{{Node{"a", 1}, "nowhere"}})
				conn := handshake(t, n, "a")
				defer time.Sleep(beatEvery) // until beats has noticed
				defer conn.NetConn().Close()
				if _, err := conn.Write(greeting{1, "a"}.append(nil)); err != nil {
					t.Fatal(err)
				}
				if g, err := readGreeting(conn); err != nil || g != (greeting{epoch: 2}) {
					t.Fatalf("answered by %+v, %v", g, err)
				}
				test.does(conn)
				for range test.sends {
					go func() { _ = b.Send("a", make([]byte, mostFrame)) }()
				}
				if test.after > 0 {
					time.Sleep(test.after - time.Millisecond)
					synctest.Wait()
					if s := b.with("a"); !s.Direct {
						t.Fatalf("the line was closed too early: %+v", s)
					}
					time.Sleep(2 * time.Millisecond)
				}
				synctest.Wait()
				if s := b.with("a"); s.Direct || !strings.Contains(s.Why, test.why) {
					t.Errorf("the line is %+v, want %q", s, test.why)
				}
				if _, other := b.took(); len(other) != test.sends {
					t.Errorf("%d frames went by the fallback instead of %d", len(other), test.sends)
				}
			})
		})
	}
}

func drain(conn *tls.Conn) {
	b := make([]byte, 1<<10)
	for {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// beats says that it is there, again and again.
func beats(conn *tls.Conn) {
	for {
		if _, err := conn.Write(make([]byte, headBytes)); err != nil {
			return
		}
		time.Sleep(beatEvery)
	}
}

// TestALineOnWhichNothingIsSaidStays lets two bridges have nothing to say.
func TestALineOnWhichNothingIsSaidStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.begin(t, "a", 1, secret), n.begin(t, "b", 2, secret)
		defer a.Close()
		defer b.Close()
		know(a, b)
		time.Sleep(time.Hour)
		synctest.Wait()
		if a.changes != 1 || b.changes != 1 || !a.with("b").Direct {
			t.Errorf("the line changed %d and %d times", a.changes, b.changes)
		}
	})
}

// TestStrangersAreBounded has many connect who never say who they are.
func TestStrangersAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.begin(t, "a", 1, secret), n.begin(t, "b", 2, secret)
		defer a.Close()
		defer b.Close()
		var silent []net.Conn
		for range mostGreeted {
			conn, err := n.dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, conn)
		}
		over, err := n.dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := over.Read(make([]byte, 1)); err == nil {
			t.Error("more are listened to")
		}
		know(a, b)
		time.Sleep(greetPatience + longestPause)
		synctest.Wait()
		for _, conn := range silent {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("who is silent is waited for")
			}
			_ = conn.Close()
		}
		goes(t, a, b, true)
	})
}

// TestAnotherVersionIsRefused has both sides say why.
func TestAnotherVersionIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNetwork()
		b := n.begin(t, "b", 2, secret)
		defer b.Close()
		conn := handshake(t, n, "a")
		defer conn.NetConn().Close()
		if _, err := conn.Write([]byte{9}); err != nil {
			t.Fatal(err)
		}
		if g, err := readGreeting(conn); err != nil || !strings.Contains(g.text, "it speaks version 9 of direct lines, and this bridge version 1") {
			t.Errorf("answered by %+v, %v", g, err)
		}
	})
}

// TestBridgesHaveLinesOverTCP is the same over sockets.
func TestBridgesHaveLinesOverTCP(t *testing.T) {
	var all [2]*Switch
	var peers []Peer
	came := make(chan string, 1)
	listeners := make([]net.Listener, len(all))
	for i, id := range []string{"a", "b"} {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if all[i], err = New(Options{Self: Node{id, 1}, Secret: secret, Fallback: sends(func(string, []byte) error { return context.Canceled })}); err != nil {
			t.Fatal(err)
		}
		all[i].Start(listeners[i], func(from string, frame []byte) { came <- from + string(frame[:1]) })
		defer all[i].Close()
		peers = append(peers, Peer{Node{id, 1}, listeners[i].Addr().String()})
	}
	for _, s := range all {
		s.Reconcile(peers)
	}
	frame := bytes.Repeat([]byte("x"), mostFrame)
	eventually.Holds(t, "a frame goes over the line", func() bool { return all[0].Send("b", frame) == nil })
	if got := <-came; got != "ax" {
		t.Errorf("got %q", got)
	}
	eventually.Holds(t, "a frame goes back", func() bool { return all[1].Send("a", frame) == nil })
	if got := <-came; got != "bx" {
		t.Errorf("got %q", got)
	}
}

func FuzzWhatComesOnALine(f *testing.F) {
	f.Add(append(binary.LittleEndian.AppendUint32(nil, 3), "abc\x00\x00\x00\x00"...))
	f.Add(binary.LittleEndian.AppendUint32(nil, mostFrame+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(data), headBytes+mostFrame)
		var again []byte
		for {
			frame, err := next(in)
			if err != nil {
				break
			}
			again = append(binary.LittleEndian.AppendUint32(again, uint32(len(frame))), frame...)
			_, _ = in.Discard(headBytes + len(frame))
		}
		if !bytes.HasPrefix(data, again) {
			t.Errorf("%q was read as %q", data, again)
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting{7, "bridge"}.append(nil))
	f.Add(greeting{7, strings.Repeat("x", 300)}.append(nil))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := readGreeting(bytes.NewReader(data))
		if err == nil && !bytes.HasPrefix(data, g.append(nil)) {
			t.Errorf("%q was read as %+v", data, g)
		}
	})
}
