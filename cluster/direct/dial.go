package direct

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

const (
	greetPatience = 5 * time.Second        // of a connection, until it is a line
	yieldFor      = 2 * time.Second        // to the bridge with the lower id, which dials at once
	firstPause    = 250 * time.Millisecond // between two attempts, which doubles
	longestPause  = 5 * time.Second
)

// lower reports whether this bridge has the lower id of the two.
func (p *peer) lower() bool { return p.s.o.Self.ID < p.ID }

// run dials the bridge whenever there is no line with it, until none is wanted.
func (p *peer) run() {
	wait, pause := p.patience(), firstPause
	for p.sleep(wait) {
		if l := p.line.Load(); l != nil {
			select {
			case <-l.served:
			case <-p.ctx.Done():
				return
			}
			wait, pause = p.patience(), firstPause
			continue
		}
		l, err := p.dial()
		if err == nil {
			if !p.s.adopt(l) {
				l.close(errBetter)
			}
			wait = 0
			continue
		}
		if p.ctx.Err() != nil {
			return
		}
		p.failed(explained(err))
		wait = time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
		pause = min(2*pause, longestPause)
	}
}

// patience is the time that the other bridge is left to dial.
func (p *peer) patience() time.Duration {
	if p.lower() {
		return 0
	}
	return yieldFor
}

// sleep waits. It reports false if no line is wanted any more.
func (p *peer) sleep(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return p.ctx.Err() == nil
	case <-p.ctx.Done():
		return false
	}
}

// dial makes a connection with the bridge on which frames may be sent.
func (p *peer) dial() (*line, error) {
	ctx, cancel := context.WithTimeout(p.ctx, greetPatience)
	defer cancel()
	raw, err := p.s.o.Dial(ctx, p.Address)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := p.greet(ctx, raw)
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newLine(p, conn, true), nil
}

// greet completes the TLS handshake and exchanges greetings with the process at the
// bridge's address.
func (p *peer) greet(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
	secure := p.s.tls.Clone()
	secure.ServerName = certified(p.ID)
	conn := tls.Client(patient{raw}, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	own := greeting{p.s.o.Self.Epoch, p.s.o.Self.ID}
	if _, err := conn.Write(own.append(nil)); err != nil {
		return nil, err
	}
	answer, err := readGreeting(conn)
	switch {
	case err != nil:
		return nil, err
	case answer.text != "":
		return nil, fmt.Errorf("it says: %s", answer.text)
	case answer.epoch != p.Epoch:
		return nil, errors.New("another process of the bridge answers")
	}
	return conn, nil
}

// explained returns the error of a failed connection in words for an operator.
func explained(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		alert     *net.OpError
		late      net.Error
	)
	switch {
	case errors.As(err, &authority):
		return "it is no bridge of this cluster: its certificate does not follow from the secrets that the bridges of this cluster share"
	case errors.As(err, &name):
		return "it is another bridge of the cluster than the one that is said to be there"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Sprintf("it does not take this bridge for one of its cluster (%v)", alert.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return "it did not answer in time"
	}
	return err.Error()
}
