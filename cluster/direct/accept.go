package direct

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	mostGreeted = 64               // connections at a time that are not lines yet
	warnEvery   = 10 * time.Second // least interval of warnings of refused connections
	acceptPause = 100 * time.Millisecond
)

// accept takes connections until the switch is closed.
func (s *Switch) accept() {
	for {
		raw, err := s.listener.Accept()
		if s.ctx.Err() != nil {
			if err == nil {
				_ = raw.Close()
			}
			return
		}
		if err != nil { // such as too many open files
			s.refuse(s.listener.Addr(), err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
			}
			continue
		}
		select {
		case s.greets <- struct{}{}:
			s.running.Go(func() {
				defer func() { <-s.greets }()
				s.welcome(raw)
			})
		default:
			_ = raw.Close()
			s.refuse(raw.RemoteAddr(), errors.New("too many connections have not said yet who they are"))
		}
	}
}

// welcome makes a connection a line, if it is from a bridge with which one is wanted.
func (s *Switch) welcome(raw net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, greetPatience)
	defer cancel()
	release := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := tls.Server(patient{raw}, s.tls)
	p, err := s.meet(ctx, conn)
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.answer(newLine(p, conn, false))
	}
	if err != nil {
		_ = raw.Close()
		s.refuse(raw.RemoteAddr(), err)
	}
}

// errBetter is the reason to decline a second line between two bridges, when the
// existing one takes precedence.
var errBetter = errors.New("there is a line already, dialled by the bridge with the lower id")

// answer makes an accepted connection the line with its bridge, and confirms that with
// a greeting.
func (s *Switch) answer(l *line) error {
	l.writing.take() // until the answer is on its way, no frame is
	defer l.writing.end()
	if !s.adopt(l) {
		s.decline(l.conn, errBetter)
		l.close(errBetter)
		return nil
	}
	if _, err := l.conn.Write(greeting{epoch: s.o.Self.Epoch}.append(nil)); err != nil {
		l.close(err)
	}
	return nil
}

// decline answers a dialled connection with the reason of its refusal.
func (s *Switch) decline(conn *tls.Conn, why error) {
	_, _ = conn.Write(greeting{s.o.Self.Epoch, why.Error()}.append(nil))
}

// meet finds out with which bridge a connection is, and declines one with which no
// line is wanted.
func (s *Switch) meet(ctx context.Context, conn *tls.Conn) (*peer, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	g, err := readGreeting(conn)
	var version otherVersion
	if errors.As(err, &version) {
		err = fmt.Errorf("the dialling bridge is of another release: %w", err)
		s.decline(conn, err)
	}
	if err != nil {
		return nil, err
	}
	p := s.peer(g.text)
	switch {
	case conn.ConnectionState().PeerCertificates[0].VerifyHostname(certified(g.text)) != nil:
		err = fmt.Errorf("the certificate is not that of bridge %q", g.text)
	case p == nil:
		err = fmt.Errorf("bridge %q wants no line with %q yet, or not any more", s.o.Self.ID, g.text)
	case p.Epoch != g.epoch:
		err = fmt.Errorf("bridge %q knows another process of %q", s.o.Self.ID, g.text)
	}
	if err != nil {
		s.decline(conn, err)
		return nil, err
	}
	return p, nil
}

// refuse counts a refused connection, and logs a warning at most every warnEvery.
func (s *Switch) refuse(from net.Addr, why error) {
	s.metrics.refused.Inc()
	now, last := time.Now().Unix(), s.warned.Load()
	if now-last < int64(warnEvery/time.Second) || !s.warned.CompareAndSwap(last, now) {
		return
	}
	s.o.Log.Warn("a connection for bridges was refused", "from", from, "why", explained(why))
}

// adopt makes a connection the line with its bridge, unless there is a better one,
// or none is wanted.
func (s *Switch) adopt(l *line) bool {
	p := l.peer
	s.mu.Lock()
	defer s.mu.Unlock()
	before := p.line.Load()
	if s.closed || s.peers[p.ID] != p || before != nil && before.lives() && before.byLower() && !l.byLower() {
		return false
	}
	p.line.Store(l)
	s.running.Go(func() { s.serve(l) })
	if before != nil {
		before.close(errors.New("another line took its place"))
	}
	return true
}

// serve reads the frames of a line until it is closed.
func (s *Switch) serve(l *line) {
	defer close(l.served)
	p := l.peer
	s.o.Log.Info("there is a direct line with a bridge", "bridge", p.ID, "address", p.Address, "dialed", l.dialed)
	s.o.Changed(p.ID)
	var beating sync.WaitGroup
	beating.Go(l.beat)
	l.read(s.take)
	beating.Wait()
	if !p.line.CompareAndSwap(l, nil) {
		return // another one is in its place
	}
	s.metrics.broken.Inc()
	if p.ctx.Err() == nil {
		p.failed("the line broke: " + broken(l.why))
	}
	s.o.Changed(p.ID)
}
