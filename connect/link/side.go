package link

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// A side is one of the two MQTT connections of a link. One goroutine reads it;
// any may write.
type side struct {
	name    string // for errors
	conn    net.Conn
	version byte
	in      *bufio.Reader
	body    []byte
	most    int // bytes of the largest packet that is read
	takes   int // bytes of the largest packet that the other end takes

	mu  sync.Mutex
	out *bufio.Writer
}

// stall is the longest time that an end may take nothing of the bytes written to it.
const stall = 30 * time.Second

func newSide(name string, conn net.Conn, version byte, most int) *side {
	return &side{
		name: name, conn: conn, version: version, most: most, takes: packet.MaxRemaining + 5,
		in: bufio.NewReaderSize(conn, 16<<10), out: bufio.NewWriterSize(conn, 16<<10),
	}
}

// read reads a packet. The body is valid until the next call.
func (s *side) read() (h packet.Header, body []byte, err error) {
	for have := 2; ; have++ {
		head, err := s.in.Peek(have)
		if err != nil {
			return h, nil, s.lost(err)
		}
		size := 0
		if h, size, err = packet.ParseHeader(head); err != nil {
			return h, nil, s.wrong(err)
		}
		if size > 0 {
			if _, err := s.in.Discard(size); err != nil {
				return h, nil, s.lost(err)
			}
			break
		}
	}
	if h.Remaining+5 > s.most {
		return h, nil, s.wrong(&packet.Error{Reason: packet.PacketTooLarge, Text: fmt.Sprintf("a packet of %d bytes", h.Remaining)})
	}
	if cap(s.body) < h.Remaining {
		s.body = make([]byte, h.Remaining)
	}
	body = s.body[:h.Remaining]
	if _, err := io.ReadFull(s.in, body); err != nil {
		return h, nil, s.lost(err)
	}
	if cap(s.body) > keptBody {
		s.body = nil
	}
	return h, body, nil
}

// keptBody is the largest buffer that is kept for the next packet, in bytes.
const keptBody = 64 << 10

// more reports whether another packet has arrived, at least in part.
func (s *side) more() bool { return s.in.Buffered() > 0 }

// write queues a packet, which [side.flush] sends.
func (s *side) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) > s.out.Available() {
		if err := s.deadline(); err != nil {
			return err
		}
	}
	if _, err := s.out.Write(b); err != nil {
		return s.lost(err)
	}
	return nil
}

func (s *side) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out.Buffered() == 0 {
		return nil
	}
	if err := s.deadline(); err != nil {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return s.lost(err)
	}
	return nil
}

func (s *side) deadline() error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return s.lost(err)
	}
	return nil
}

// say writes a packet and sends it.
func (s *side) say(b []byte) error {
	if err := s.write(b); err != nil {
		return err
	}
	return s.flush()
}

// ack writes an acknowledgement.
func (s *side) ack(typ packet.Type, id uint16, reason packet.Reason) error {
	return s.write(packet.AppendAck(nil, s.version, typ, id, reason))
}

// goodbye ends the connection with a DISCONNECT, as far as it goes.
func (s *side) goodbye(reason packet.Reason) {
	d := packet.Disconnect{Reason: reason}
	_ = s.conn.SetWriteDeadline(time.Now().Add(farewell)) // also ends a write under way
	s.mu.Lock()
	if _, err := s.out.Write(d.Append(nil, s.version)); err == nil {
		_ = s.out.Flush()
	}
	s.mu.Unlock()
	_ = s.conn.Close()
}

// farewell bounds the time that an end has to take the DISCONNECT.
const farewell = time.Second

func (s *side) lost(err error) error {
	return fmt.Errorf("the connection to %s is lost: %w", s.name, err)
}

func (s *side) wrong(err error) error { return fmt.Errorf("%s breaks the protocol: %w", s.name, err) }
