package broker

import (
	"sync/atomic"
	"time"
)

// slowAfter is the time after which a client counts as slow.
const slowAfter = 10 * time.Second

// A lateness is whether a client keeps up with what is sent to it. Messages wait while its
// socket takes no more, or while it has as many unacknowledged as it wants to have. That is
// looked at from time to time only, so that nobody who keeps up pays for it.
type lateness struct {
	since atomic.Int64 // when a message was first seen to wait since none did; 0 while none does
	told  bool         // the log was
}

// caughtUp notes that all is sent.
func (l *lateness) caughtUp() {
	if l.since.Load() != 0 {
		l.since.Store(0)
	}
}

// look notes whether messages wait for a connected client, and reports whether they have
// for so long that it is slow. One goroutine looks.
func (l *lateness) look(c *conn, blocked bool, now int64) (slow bool) {
	if !blocked && !c.session.behind.Load() {
		l.caughtUp()
	} else if l.since.Load() == 0 {
		l.since.Store(now)
	}
	since := l.since.Load()
	if slow = since != 0 && now-since > int64(slowAfter); slow && !l.told {
		c.b.log.Warn("a client does not keep up: messages wait for it", "client", c.client.ID, "listener", c.door.name, "seconds", (now-since)/int64(time.Second))
	}
	l.told = slow
	return slow
}
