//go:build linux

package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A mischief is a broker of QoS 0 for one topic that spoils what it forwards:
// forward says what becomes of the nth publish.
type mischief struct {
	forward func(n int, packet []byte) [][]byte

	mu          sync.Mutex
	n           int
	subscribers []net.Conn
	conns       []net.Conn
}

// start serves on loopback until the test ends.
func (m *mischief) start(t *testing.T) target {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, conn)
			m.mu.Unlock()
			running.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		m.mu.Lock()
		for _, c := range m.conns {
			c.Close()
		}
		m.mu.Unlock()
		running.Wait()
	})
	return target{address: netip.MustParseAddrPort(l.Addr().String()), version: 4}
}

func (m *mischief) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		first, body, err := readPacket(in)
		if err != nil {
			return
		}
		m.mu.Lock()
		switch first & 0xF0 {
		case 0x10:
			conn.Write([]byte{packetConnack, 2, 0, 0})
		case 0x80:
			conn.Write([]byte{packetSuback, 3, body[0], body[1], 0})
			m.subscribers = append(m.subscribers, conn)
		case packetPublish:
			for _, packet := range m.forward(m.n, appendPacket(nil, first, body)) {
				for _, s := range m.subscribers {
					s.Write(packet)
				}
			}
			m.n++
		}
		m.mu.Unlock()
	}
}

func readPacket(in *bufio.Reader) (first byte, body []byte, err error) {
	if first, err = in.ReadByte(); err != nil {
		return 0, nil, err
	}
	length, shift := 0, 0
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		length |= int(b&0x7F) << shift
		if shift += 7; b < 0x80 {
			break
		}
		if shift > 21 {
			return 0, nil, errors.New("malformed")
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(in, body)
	return first, body, err
}

func TestWhatBrokersDoWrongIsSeen(t *testing.T) {
	t.Parallel()
	const messages = 200
	var held []byte
	for name, c := range map[string]struct {
		forward func(n int, packet []byte) [][]byte
		want    Result
	}{
		"all well": {
			func(_ int, p []byte) [][]byte { return [][]byte{p} },
			Result{Received: 200},
		},
		"every tenth lost": {
			func(n int, p []byte) [][]byte {
				if n%10 == 3 {
					return nil
				}
				return [][]byte{p}
			},
			Result{Received: 180, Lost: 20},
		},
		"every tenth doubled": {
			func(n int, p []byte) [][]byte {
				if n%10 == 3 {
					return [][]byte{p, p}
				}
				return [][]byte{p}
			},
			Result{Received: 200, Duplicates: 20},
		},
		"every tenth held back": {
			func(n int, p []byte) [][]byte {
				switch n % 10 {
				case 3:
					held = p
					return nil
				case 4:
					return [][]byte{p, held}
				}
				return [][]byte{p}
			},
			Result{Received: 200, Disordered: 20},
		},
		"every tenth cut short": {
			func(n int, p []byte) [][]byte {
				if n%10 == 3 {
					p = appendPacket(nil, p[0], p[2:len(p)-1])
				}
				return [][]byte{p}
			},
			Result{Received: 180, Lost: 20, Garbled: 20},
		},
	} {
		m := &mischief{forward: c.forward}
		s := Scenario{Name: name, Shape: Flow, Publishers: 1, Subscribers: 1, Payload: 64, Window: 10, Batch: 3}
		got, err := measure(t.Context(), s, m.start(t), tiny(messages))
		if err != nil {
			t.Fatal(err)
		}
		if got.Err != "" || got.Sent != messages || got.Received != c.want.Received || got.Lost != c.want.Lost ||
			got.Duplicates != c.want.Duplicates || got.Disordered != c.want.Disordered || got.Garbled != c.want.Garbled {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Clean() != (name == "all well") {
			t.Errorf("%s: clean is %v", name, got.Clean())
		}
	}
}

func TestARunEndsWhenEveryMessageIsAccountedFor(t *testing.T) {
	t.Parallel()
	number := func(n uint64) []byte {
		payload := make([]byte, 64)
		binary.LittleEndian.PutUint64(payload[atNumber:], n)
		return payload
	}
	short := make([]byte, 10)
	for name, c := range map[string]struct {
		qos  byte
		came [][]byte // and only with the last of them all is accounted for
	}{
		"in order":                 {0, [][]byte{number(0), number(1), number(2), number(3)}},
		"a repetition":             {0, [][]byte{number(0), number(0), number(1), number(2), number(3)}},
		"a repetition at QoS 1":    {1, [][]byte{number(0), number(0), number(1), number(2), number(3)}},
		"a loss":                   {0, [][]byte{number(0), number(3)}},
		"a loss and a repetition":  {0, [][]byte{number(1), number(1), number(3)}},
		"out of order":             {0, [][]byte{number(0), number(2), number(1), number(3)}},
		"garbled and overtaken":    {0, [][]byte{number(0), short, number(2), number(3)}},
		"garbled and not":          {0, [][]byte{number(0), number(1), number(2), short}},
		"garbled at QoS 1":         {1, [][]byte{number(0), short, number(2), number(3)}},
		"out of order, with QoS 1": {1, [][]byte{number(3), number(1), number(2), number(0)}},
	} {
		r := &rig{scenario: Scenario{QoS: c.qos}, load: &load{copies: 1}}
		r.load.sent.Store(4)
		s := &subscriber{load: r.load, size: 64, streams: make([]stream, 1), latency: &r.latency}
		for i, payload := range c.came {
			if r.settled() {
				t.Errorf("%s: settled after %d", name, i)
			}
			r.load.arrived(s.note(0, payload))
		}
		if !r.settled() {
			t.Errorf("%s: not settled", name)
		}
	}
}

func TestBrokerThatForwardsNothingOrHangsUpIsReported(t *testing.T) {
	t.Parallel()
	silent := &mischief{forward: func(int, []byte) [][]byte { return nil }}
	s := Scenario{Name: "silent", Shape: Flow, Publishers: 2, Subscribers: 1, Payload: 64, Window: 10, QoS: 1}
	o := tiny(100)
	o.Patience = 3 * time.Second // nothing comes, however long one waits
	got, err := measure(t.Context(), s, silent.start(t), o)
	if err != nil || got.Err != "stalled" || got.Lost != got.Sent || got.Sent == 0 {
		t.Errorf("silent: %+v %v", got, err)
	}

	hangsUp := &mischief{forward: func(int, []byte) [][]byte { return [][]byte{{packetDisconn, 0}} }}
	s.QoS = 0
	got, err = measure(t.Context(), s, hangsUp.start(t), tiny(100))
	if err != nil || got.Err == "" || got.Err == "stalled" {
		t.Errorf("hangs up: %+v %v", got, err)
	}

	nobody := target{address: netip.MustParseAddrPort("127.0.0.1:1"), version: 4}
	if got, err = measure(t.Context(), s, nobody, tiny(100)); err != nil || got.Err == "" {
		t.Errorf("nobody there: %+v %v", got, err)
	}
}
