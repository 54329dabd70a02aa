package broker

import (
	"sync"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// Quota bounds what clients take of the broker, beyond what they may do at
// all. It is asked on the message path: implementations must be fast and must
// not block.
type Quota interface {
	// Publish takes a message into account that the client may publish, or
	// refuses it, with reason code 0x97 (quota exceeded) for most. The size is
	// that of its topic and payload in bytes.
	Publish(c *Client, topic string, size int) Verdict
	// Holdings bound the data kept for a principal, and for all principals of
	// its space.
	Holdings(who *protocol.Principal) (own, space Holdings)
	// Refused is told of messages that are not kept, for the space's limit or the
	// principal's own.
	Refused(what Holding, space bool)
}

// Holdings bound the data kept for one party at a time; 0 is no bound.
type Holdings struct {
	Sessions      int // that outlive their connections, connected or not
	Retained      int // messages
	RetainedBytes int // topics, payloads and properties of these
}

// Holds returns the data kept for a party, or for all of its space if it has no id.
// Sessions that are connected elsewhere in a cluster are not among them.
func (b *Broker) Holds(p protocol.Party) Holdings {
	h := Holdings{Sessions: b.kept.of(p)}
	b.retained.mu.RLock()
	defer b.retained.mu.RUnlock()
	has := b.retained.spaces[p.Space]
	if p.ID != "" {
		has = b.retained.owners[p.String()]
	}
	h.Retained, h.RetainedBytes = has.messages, has.bytes
	return h
}

// A Holding is one kind of [Holdings].
type Holding byte

// The kinds of [Holdings].
const (
	Sessions Holding = iota
	Retained
	RetainedBytes
)

// admits asks the quota about a message.
func (t *turn) admits(c *Client, topic string, payload []byte) Verdict {
	if t.b.options.Quota == nil {
		return Verdict{}
	}
	return t.b.options.Quota.Publish(c, topic, len(topic)+len(payload))
}

// holdings returns the bounds of a principal and of its space.
func (b *Broker) holdings(who *protocol.Principal) (own, space Holdings) {
	if b.options.Quota == nil {
		return Holdings{}, Holdings{}
	}
	return b.options.Quota.Holdings(who)
}

// refused tells the quota of a message that was not kept.
func (b *Broker) refused(what Holding, whose fullness) {
	if b.options.Quota != nil {
		b.options.Quota.Refused(what, whose == spaceFull)
	}
}

// retainFor keeps or removes the turn's message as the retained one, as far as
// its publisher may have any.
func (t *turn) retainFor(who *protocol.Principal) fullness {
	most := retainLimits{bytes: t.b.options.Limits.RetainedBytes, known: t.b.full()}
	most.own, most.space = t.b.holdings(who)
	what, whose := t.retain(most)
	if whose == ownFull || whose == spaceFull {
		t.b.refused(what, whose)
	}
	return whose
}

// Fullness says whose limit is reached.
type fullness byte

const (
	hasRoom   fullness = iota
	allFull            // the broker's
	ownFull            // the owner's
	spaceFull          // that of its space
	tooLarge           // that of what the bridges of a cluster share
)

// text is the reason for the publisher.
func (f fullness) text() string {
	if f == tooLarge {
		return "the message is larger than NATS takes, which keeps what is retained for all bridges"
	}
	return "too much is retained"
}

// A tally counts what principals and their spaces have of something.
// The zero value is empty.
type tally struct {
	mu     sync.Mutex
	owners map[protocol.Party]int
	spaces map[protocol.SpaceID]int
}

// add counts one more, unless that were too many; 0 is any number.
func (y *tally) add(who protocol.Party, own, space int) fullness {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case own > 0 && y.owners[who] >= own:
		return ownFull
	case space > 0 && y.spaces[who.Space] >= space:
		return spaceFull
	}
	if y.owners == nil {
		y.owners, y.spaces = make(map[protocol.Party]int), make(map[protocol.SpaceID]int)
	}
	y.owners[who]++
	y.spaces[who.Space]++
	return hasRoom
}

// of is the number of a party's, or of its whole space's if it has no id.
func (y *tally) of(p protocol.Party) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	if p.ID == "" {
		return y.spaces[p.Space]
	}
	return y.owners[p]
}

// remove counts one less.
func (y *tally) remove(who protocol.Party) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.owners[who]--; y.owners[who] <= 0 {
		delete(y.owners, who)
	}
	if y.spaces[who.Space]--; y.spaces[who.Space] <= 0 {
		delete(y.spaces, who.Space)
	}
}

// hold counts a session that is to be kept for its principal. It reports
// whether there is room, or it was counted before; session.mu is held.
func (b *Broker) hold(s *session) bool {
	if s.held {
		return true
	}
	own, space := b.holdings(s.principal)
	whose := b.kept.add(s.owner, own.Sessions, space.Sessions)
	s.held = whose == hasRoom
	if !s.held {
		b.refused(Sessions, whose)
	}
	return s.held
}

// unhold counts a session no longer, which is not kept or has ended;
// session.mu is held.
func (b *Broker) unhold(s *session) {
	if s.held {
		s.held = false
		b.kept.remove(s.owner)
	}
}

var errTooManySessions = &packet.Error{Reason: packet.QuotaExceeded, Text: "too many sessions are kept; connect with a clean start and no session expiry, or have others ended"}
