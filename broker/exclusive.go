package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// Exclusives decide which session of a cluster has a topic alone, by an exclusive
// subscription, one to $exclusive/TOPIC. Package cluster/exclusive implements them. A
// broker without peers decides by itself.
type Exclusives interface {
	// Take reserves a topic for a session until it is given back. It may block, so
	// readers of connections must not call it. The caller calls done once the session
	// has the subscription, or will not get it. The error is [ErrHeld] if another session
	// has the topic and 3004 if the party keeps too many records; any other one says that
	// the cluster cannot decide now.
	Take(ctx context.Context, id SessionID, by protocol.Party, topic string) (done func(), err error)
	// Give gives back the topic of a session. It must neither block nor call the broker.
	// Then, which may be nil, is called once other sessions can have the topic.
	Give(id SessionID, topic string, then func())
	// Enter notes that the client of a session with these topics is connected here. It
	// may block.
	Enter(ctx context.Context, id SessionID, by protocol.Party, topics []string) error
}

// ErrHeld says that another session has a topic alone.
var ErrHeld = errors.New("broker: " + heldText)

const heldText = "another client has subscribed exclusively"

// A refusedAlone is the reason for which an exclusive subscription is refused.
type refusedAlone struct {
	reason packet.Reason
	text   string
}

// refuseAlone is the reason that follows from an error of [Exclusives].Take.
func refuseAlone(err error) refusedAlone {
	switch {
	case errors.Is(err, ErrHeld):
		return refusedAlone{packet.QuotaExceeded, heldText}
	case protocol.CodeOf(err) == protocol.RateLimited:
		return refusedAlone{packet.QuotaExceeded, protocol.AsError(err).Message}
	}
	return refusedAlone{packet.ImplementationSpecific, "the bridges cannot tell now whether another client has subscribed exclusively; try again"}
}

// wantedAlone lists the topics of the exclusive subscriptions in a SUBSCRIBE that the
// client may have, in the order in which they are to be taken; nil for a broker that
// decides by itself.
func (t *turn) wantedAlone(c *conn, subs []*subscription) (topics []string) {
	if t.b.options.Exclusives == nil {
		return nil
	}
	for _, sub := range subs {
		if only, alone := topic.Exclusive(sub.filter); alone {
			if reason, _ := t.judge(c, sub.filter); !reason.Failed() {
				topics = append(topics, only)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// subscribeAlone takes the topics of a SUBSCRIBE, and then makes its subscriptions.
func (b *Broker) subscribeAlone(c *conn, packetID uint16, subs []*subscription, topics []string) {
	ctx, cancel := context.WithTimeout(b.ctx, b.options.Limits.ConnectTimeout)
	defer cancel()
	s := c.session
	refused := make(map[string]refusedAlone)
	var taken []string // topics that the session did not have before
	for _, only := range topics {
		had := b.HasExclusive(s.key(), only)
		done, err := b.options.Exclusives.Take(ctx, s.key(), s.owner, only)
		if err != nil {
			refused[exclusivePrefix+only] = refuseAlone(err)
			continue
		}
		defer done()
		if !had {
			taken = append(taken, only)
		}
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	t.packetAt = 0
	t.grantAll(c, packetID, subs, refused)
	for _, only := range taken {
		if !b.HasExclusive(s.key(), only) { // the client is gone, or has too many subscriptions
			b.options.Exclusives.Give(s.key(), only, nil)
		}
	}
}

const exclusivePrefix = "$exclusive/"

// givenBack gives topics back, and returns the receipt that is answered once other
// sessions can have them; nil if it need not be waited for.
func (t *turn) givenBack(s *session, topics []string) *Receipt {
	if t.b.options.Exclusives == nil || len(topics) == 0 {
		return nil
	}
	b, r := t.b, &Receipt{b: t.b, s: s}
	r.left.Store(int32(len(topics)))
	for _, only := range topics {
		b.options.Exclusives.Give(s.key(), only, func() {
			r.Answer(Taken)
			b.AnswerReceipts()
		})
	}
	return r
}

// giveBack gives back the topic of a filter that a session has lost, if the filter is
// exclusive.
func (b *Broker) giveBack(s *session, filter string) {
	if b.options.Exclusives == nil {
		return
	}
	if only, alone := topic.Exclusive(filter); alone {
		b.options.Exclusives.Give(s.key(), only, nil)
	}
}

// enterAlone tells the [Exclusives] that the client of a session with exclusive
// subscriptions is connected here, before the client can end the session.
func (b *Broker) enterAlone(ctx context.Context, id SessionID) error {
	if b.options.Exclusives == nil {
		return nil
	}
	s := b.session(id)
	if s == nil {
		return nil
	}
	var topics []string
	s.mu.Lock()
	for sub := range s.subs.all() {
		if only, alone := topic.Exclusive(sub.filter); alone {
			topics = append(topics, only)
		}
	}
	s.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	return b.options.Exclusives.Enter(ctx, id, s.owner, topics)
}

// Exclusive yields the exclusive subscriptions of this broker: session, owner and topic.
// It leaves out sessions that are moving from one bridge to another.
func (b *Broker) Exclusive(yield func(id SessionID, by protocol.Party, topic string) bool) {
	type held struct {
		s     *session
		topic string
	}
	var all []held
	b.index.mu.RLock()
	for key, subs := range b.index.exclusive {
		for _, sub := range subs {
			all = append(all, held{sub.session, key.name})
		}
	}
	b.index.mu.RUnlock()
	for _, h := range all {
		h.s.mu.Lock()
		there := !h.s.ended && h.s.moving == staying
		h.s.mu.Unlock()
		if there && !yield(h.s.key(), h.s.owner, h.topic) {
			return
		}
	}
}

// HasExclusive reports whether a session of this broker has the exclusive subscription
// to a topic.
func (b *Broker) HasExclusive(id SessionID, topic string) bool {
	s := b.session(id)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs.get(exclusivePrefix+topic) != nil
}

// LoseExclusive ends a session's exclusive subscription to a topic that another session
// has.
func (b *Broker) LoseExclusive(id SessionID, topic string) {
	filter := exclusivePrefix + topic
	b.turnOf(id, func(t *turn, s *session) {
		if !t.revoke(s, filter) {
			return
		}
		b.recordSession(t, s)
		if c := s.conn.Load(); c != nil {
			client := c.client
			s.events.push(func(p Presence) { p.Unsubscribed(client, filter) })
			t.tell = append(t.tell, s)
		}
	})
}
