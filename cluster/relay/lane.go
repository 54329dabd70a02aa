package relay

import "time"

// A lane is a stream to a peer and the one from it. There are two with each: that of
// messages, which their receiver accepts once they are stored, and that of control with
// everything else, which overtakes messages that wait. Messages do not overtake control:
// a frame of them says how much of it comes first.
type lane struct {
	out outbound
	in  inbound

	wanted  bool      // bytes are missing that the peer is to send again
	due     bool      // the offsets of the peer's stream are to be sent to it
	told    uint64    // received offset of its stream, as last sent to it
	taken   uint64    // and the accepted one
	idle    uint64    // offset that it had received at the last tick
	stuck   int       // ticks without progress
	moved   uint64    // offset that it had accepted at the last tick
	since   time.Time // when it had last accepted more, or all; zero if it has all
	probing bool      // it seems to stand still: one frame at a time
}

// controlLane is the lane of control of two processes. Both of its streams begin at 0.
func controlLane() lane { return lane{in: inbound{synced: true}} }

// cut fills a frame with the next bytes and with the offsets, and reports whether it is
// to be sent.
func (l *lane) cut(f *frame, window int) bool {
	if l.probing {
		window = min(window, maxBody)
	}
	body := l.out.next(window)
	if len(body) == 0 && !l.due && !l.wanted {
		return false
	}
	f.body, f.resend = body, l.wanted
	f.offset, f.received, f.accepted = l.out.sent, l.in.received, l.in.accepted
	l.out.sent += uint64(len(body))
	l.wanted, l.due, l.told, l.taken = false, false, l.in.received, l.in.accepted
	return true
}

// tick has bytes sent again that seem to be lost, and the offsets of the peer's stream.
func (l *lane) tick() {
	l.due = l.due || l.in.received != l.told || l.in.accepted != l.taken
	switch {
	case l.out.received != l.idle || l.out.sent == l.out.received:
		l.idle, l.stuck, l.probing = l.out.received, 0, false
	case l.stuck < ticksLost:
		l.stuck++
	default:
		l.stuck, l.probing = 0, true
		l.out.rewind()
	}
}

// ticksLost is the number of ticks without progress after which bytes not received are
// sent again unasked.
const ticksLost = 4

// resume has all bytes sent again that are not received, and the offsets of the peer's
// stream, because the last frame with them may be lost.
func (l *lane) resume() {
	l.out.rewind()
	l.stuck, l.probing, l.due = 0, false, true
}

// watch updates the time since which the peer has accepted nothing.
func (l *lane) watch() {
	switch {
	case l.out.held() == 0:
		l.since = time.Time{}
	case l.since.IsZero() || l.out.base != l.moved:
		l.since = time.Now()
	}
	l.moved = l.out.base
}

// lag returns the time for which the peer has accepted none of the bytes held for it.
func (l *lane) lag() time.Duration {
	if l.since.IsZero() || l.out.held() == 0 {
		return 0
	}
	return time.Since(l.since)
}
