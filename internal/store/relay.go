package store

import (
	"encoding/base64"
	"sync"

	"github.com/nats-io/nats.go"
)

// A RelayLine carries frames between the bridges of a cluster by messages of
// NATS that nothing stores. One subject leads from each bridge to each other one.
type RelayLine struct {
	conn   *nats.Conn
	prefix string
	self   string

	mu    sync.Mutex
	lines map[string]*nats.Subscription // by the bridge at the other end
}

// relayPending bounds the pending bytes from a bridge. A bridge keeps fewer
// unacknowledged; more are dropped, and sent again.
const relayPending = 16 << 20

// Relay returns the line of a bridge of the store's root.
func (s *Store) Relay(self string) *RelayLine {
	return &RelayLine{conn: s.flow.conn, prefix: s.options.Prefix + ".relay.", self: subjectToken(self), lines: make(map[string]*nats.Subscription)}
}

// subjectToken makes an id a part of a subject.
func subjectToken(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// Send implements the transport of a relay.
func (l *RelayLine) Send(to string, frame []byte) error {
	return l.conn.Publish(l.prefix+subjectToken(to)+"."+l.self, frame)
}

// Listen has take called with every frame from one of the bridges, one after the
// other for each of them, and with no more from others. The frame is valid until
// take returns.
func (l *RelayLine) Listen(bridges []string, take func(from string, frame []byte)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := make(map[string]bool, len(bridges))
	for _, id := range bridges {
		wanted[id] = true
		if l.lines[id] != nil {
			continue
		}
		sub, err := l.conn.Subscribe(l.prefix+l.self+"."+subjectToken(id), func(m *nats.Msg) { take(id, m.Data) })
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(-1, relayPending); err != nil {
			return err
		}
		l.lines[id] = sub
	}
	for id, sub := range l.lines {
		if !wanted[id] {
			_ = sub.Unsubscribe()
			delete(l.lines, id)
		}
	}
	return nil
}
