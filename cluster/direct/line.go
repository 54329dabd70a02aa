package direct

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	beatEvery     = time.Second     // interval of beats on an idle line
	silentAfter   = 3 * time.Second // silence after which a line is closed
	writePatience = 5 * time.Second // of one write: the other side takes nothing
)

// A line is a connection with another bridge.
type line struct {
	peer   *peer
	dialed bool // by this bridge
	since  time.Time
	conn   *tls.Conn
	raw    net.Conn

	writing turns // held by the goroutine that writes
	buffer  []byte
	said    bool // a frame was written since the last beat

	closing sync.Once
	closed  chan struct{}
	served  chan struct{} // closed when nothing of it is taken any more
	why     error         // it was closed; read behind closed
}

// Turns are a lock made of a channel. The holder may wait for a timer, and under
// testing/synctest time advances only while all others wait at channels, not mutexes.
type turns chan struct{}

func (t turns) take() { t <- struct{}{} }
func (t turns) end()  { <-t }

func (t turns) tryTake() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func newLine(p *peer, conn *tls.Conn, dialed bool) *line {
	return &line{peer: p, dialed: dialed, since: time.Now(), conn: conn, raw: conn.NetConn(), writing: make(turns, 1), closed: make(chan struct{}), served: make(chan struct{})}
}

// lives reports whether the line is not closed.
func (l *line) lives() bool {
	select {
	case <-l.closed:
		return false
	default:
		return true
	}
}

// byLower reports whether the bridge with the lower id has dialled.
func (l *line) byLower() bool { return l.dialed == l.peer.lower() }

// write sends a frame. It waits while the other side takes nothing, up to a limit;
// then the line is closed.
func (l *line) write(frame []byte) error {
	l.writing.take()
	defer l.writing.end()
	l.said = true
	return l.put(frame)
}

// put writes a frame at once. writing is held.
func (l *line) put(frame []byte) error {
	l.buffer = binary.LittleEndian.AppendUint32(l.buffer[:0], uint32(len(frame)))
	l.buffer = append(l.buffer, frame...)
	_, err := l.conn.Write(l.buffer)
	if err != nil {
		l.close(err)
	}
	return err
}

// beat writes an empty frame every beatEvery without other frames, until the line is
// closed.
func (l *line) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.closed:
			return
		}
		if !l.writing.tryTake() { // a frame is being written: no beat is needed
			continue
		}
		if !l.said {
			_ = l.put(nil)
		}
		l.said = false
		l.writing.end()
	}
}

// read calls take with every frame, which is valid until take returns, until the line
// is closed.
func (l *line) read(take func(from string, frame []byte)) {
	in := bufio.NewReaderSize(l.conn, headBytes+mostFrame)
	for {
		frame, err := next(in)
		if err != nil {
			l.close(err)
			return
		}
		if len(frame) > 0 {
			take(l.peer.ID, frame)
		}
		_, _ = in.Discard(headBytes + len(frame)) // it is in the buffer
	}
}

// next returns the next frame, which lies in the buffer of in.
func next(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(headBytes)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head)
	if n > mostFrame {
		return nil, errFrame
	}
	frame, err := in.Peek(headBytes + int(n))
	if err != nil {
		return nil, err
	}
	return frame[headBytes:], nil
}

// close ends the line for a reason, the first that is given.
func (l *line) close(why error) {
	l.closing.Do(func() {
		l.why = why
		close(l.closed)
		_ = l.raw.Close() // without a word: the other side may take none
	})
}

// broken returns the error that ended a line in words for an operator.
func broken(err error) string {
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return "nothing was heard of it, or it took nothing, for some seconds"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the other side has closed it"
	}
	return err.Error()
}

// A patient connection gives up a read on which nothing comes, and a write of which
// nothing is taken.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silentAfter)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}
