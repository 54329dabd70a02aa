package relay

import "time"

// tick sends a hello until there is an answer; then it resends bytes that seem to be
// lost, and the offsets of the peer's stream.
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

// watch updates the time since which the peer has accepted nothing. The caller holds
// mu.
func (p *peer) watch() {
	switch {
	case p.out.held() == 0:
		p.since = time.Time{}
	case p.since.IsZero() || p.out.base != p.moved:
		p.since = time.Now()
	}
	p.moved = p.out.base
}

// lag returns the time for which the peer has accepted none of the bytes held for it.
// The caller holds mu.
func (p *peer) lag() time.Duration {
	if p.since.IsZero() || p.out.held() == 0 {
		return 0
	}
	return time.Since(p.since)
}

// resume resends all bytes not yet received, and the offsets of the peer's stream,
// because the last frame with them may be lost.
func (p *peer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == open {
		p.out.rewind()
		p.stuck, p.probing, p.due = 0, false, true
	}
	p.signal()
}

// ticksLost is the number of ticks without progress after which bytes not received are
// sent again unasked.
const ticksLost = 4
