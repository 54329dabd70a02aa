package relay

import "time"

// tick says hello until there is an answer, sends again what seems to be lost,
// and tells how far the peer's stream is.
func (p *peer) tick() {
	p.mu.Lock()
	p.watch()
	switch p.state {
	case calling:
		f := p.hello(false).append(nil)
		p.mu.Unlock()
		p.r.send(p, f)
		return
	case open:
		p.due = p.due || p.in.received != p.told || p.in.accepted != p.taken
		switch {
		case p.out.received != p.idle || p.out.sent == p.out.received:
			p.idle, p.stuck, p.probing = p.out.received, 0, false
		case p.stuck < ticksLost:
			p.stuck++
		default:
			p.stuck, p.probing = 0, true
			p.out.rewind()
		}
	}
	p.mu.Unlock()
}

// watch looks whether the peer accepts what it is sent. mu is held.
func (p *peer) watch() {
	switch {
	case p.out.held() == 0:
		p.since = time.Time{}
	case p.since.IsZero() || p.out.base != p.moved:
		p.since = time.Now()
	}
	p.moved = p.out.base
}

// lag is for how long the peer has accepted nothing of what is for it. mu is held.
func (p *peer) lag() time.Duration {
	if p.since.IsZero() || p.out.held() == 0 {
		return 0
	}
	return time.Since(p.since)
}

// resume has sent again what is not received, and tells how far the peer's stream
// is: what was said last may be lost.
func (p *peer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == open {
		p.out.rewind()
		p.stuck, p.probing, p.due = 0, false, true
	}
	p.signal()
}

// ticksLost are the ticks after which what was sent and not received is sent
// again unasked.
const ticksLost = 4
