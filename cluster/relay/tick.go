package relay

import "time"

// tick sends a hello until there is an answer; then it resends bytes that seem to be
// lost, and the offsets of the peer's streams.
func (p *peer) tick() {
	p.mu.Lock()
	for _, l := range p.lanes() {
		l.watch()
		if p.state == open {
			l.tick()
		}
	}
	if p.state != calling {
		p.mu.Unlock()
		return
	}
	f := p.hello(false).append(nil)
	p.mu.Unlock()
	p.r.send(p, f)
}

func (p *peer) lanes() [2]*lane { return [...]*lane{&p.messages, &p.control} }

// queued is the number of bytes that the peer has not accepted. The caller holds mu.
func (p *peer) queued() int { return p.messages.out.held() + p.control.out.held() }

// lag returns the time for which the peer has accepted none of the bytes held for it. The
// caller holds mu.
func (p *peer) lag() time.Duration { return max(p.messages.lag(), p.control.lag()) }

// unheard returns the age of the oldest announcement, or message of a part, that the peer
// has not accepted; of the call to it while it has not answered. Clients here that
// subscribe or connect may wait for it. Nobody waits for an adopted bridge, which may
// answer late: its adopter reads its journal first. The caller holds mu.
func (p *peer) unheard() time.Duration {
	switch {
	case p.adopted || p.state == absent:
		return 0
	case p.state == calling:
		return time.Since(p.called)
	}
	since := p.ahead().out.unheard()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// resume resends all bytes not yet received, and the offsets of the peer's streams.
func (p *peer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == open {
		for _, l := range p.lanes() {
			l.resume()
		}
	}
	p.signal()
}
