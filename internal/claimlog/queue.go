package claimlog

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var _ commands.ClaimQueue = (*Log)(nil)

// Enqueue adds a claim to the batch that gathers. It is written when somebody
// calls Flush, or [Log.Claim].
func (l *Log) Enqueue(c commands.Claim, done func(error)) {
	if err := l.enqueue(c, done); err != nil {
		done(err)
	}
}

func (l *Log) enqueue(c commands.Claim, done func(error)) error {
	if len(c.Principal) > maxText || len(c.RequestID) > maxText {
		return protocol.Errorf(protocol.PayloadTooLarge, "the claim of request %.64q is too large", c.RequestID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.Errorf(protocol.ShuttingDown, "the claims are closed")
	}
	// Whoever enqueues is bounded by the calls that may be in flight: the
	// batch may well become larger than those of callers that wait.
	l.calls.Add(1)
	l.gathering.add(c)
	l.gathering.tell(l.laneOf(c.Principal), done)
	return nil
}

// Flush writes what was enqueued and tells those who did, on this goroutine if
// nobody else is writing. Where writing takes long, because it has to reach a
// disk, it is left to another goroutine.
func (l *Log) Flush() {
	l.mu.Lock()
	b := l.gathering
	switch {
	case b.tells == 0:
	case l.writing:
		b.flushed = true // whoever writes will see to it
	case l.options.SyncAlways:
		l.writing = true
		go l.leadAlone()
	default:
		l.writing = true
		_ = l.lead() // unlocks; they are told
		return
	}
	l.mu.Unlock()
}
