package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// Exclusives decide which session of a cluster has a topic alone: a subscription to
// $exclusive/TOPIC. Package cluster/exclusive has them. A broker without peers decides
// by itself.
type Exclusives interface {
	// Take has a session have a topic alone, until it is given back. It may wait, and
	// is not for readers. Done is to be called once the session has the subscription,
	// or does not get it. It fails with [ErrHeld] if another session has the topic,
	// with 3004 if the party keeps too many records, and otherwise when nobody can tell.
	Take(ctx context.Context, id SessionID, by protocol.Party, topic string) (done func(), err error)
	// Give gives a topic back that a session does not have any more. It must not block,
	// and must not call the broker. Then is called when others can have the topic;
	// nil if nobody waits for that.
	Give(id SessionID, topic string, then func())
	// Enter is told which topics a session has alone whose client has come. It may wait.
	Enter(ctx context.Context, id SessionID, by protocol.Party, topics []string) error
}

// ErrHeld says that another session has a topic alone.
var ErrHeld = errors.New("broker: " + heldText)

const heldText = "another client has subscribed exclusively"

// A refusedAlone is why a client does not get a topic alone.
type refusedAlone struct {
	reason packet.Reason
	text   string
}

// refuseAlone is the answer to a client for which a topic could not be taken.
func refuseAlone(err error) refusedAlone {
	switch {
	case errors.Is(err, ErrHeld):
		return refusedAlone{packet.QuotaExceeded, heldText}
	case protocol.CodeOf(err) == protocol.RateLimited:
		return refusedAlone{packet.QuotaExceeded, protocol.AsError(err).Message}
	}
	return refusedAlone{packet.ImplementationSpecific, "the bridges cannot tell now whether another client has subscribed exclusively; try again"}
}

// wantedAlone lists the topics that a client may have alone and wants, if other bridges
// are to be asked, in the order in which they are to be taken.
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

// subscribeAlone goes on with a SUBSCRIBE for topics that are to be taken first.
func (b *Broker) subscribeAlone(c *conn, packetID uint16, subs []*subscription, topics []string) {
	ctx, cancel := context.WithTimeout(b.ctx, b.options.Limits.ConnectTimeout)
	defer cancel()
	s := c.session
	refused := make(map[string]refusedAlone)
	var taken []string // that it did not have before
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
		if !b.HasExclusive(s.key(), only) { // its client is gone, or has too many
			b.options.Exclusives.Give(s.key(), only, nil)
		}
	}
}

const exclusivePrefix = "$exclusive/"

// givenBack is the receipt for topics that a client does not have alone any more:
// others can have them.
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

// giveBack gives back what a session had alone that has lost a filter.
func (b *Broker) giveBack(s *session, filter string) {
	if b.options.Exclusives == nil {
		return
	}
	if only, alone := topic.Exclusive(filter); alone {
		b.options.Exclusives.Give(s.key(), only, nil)
	}
}

// enterAlone has what the session of a client that enters has alone count as this
// bridge's, before the client can end the session.
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
	for filter := range s.subs {
		if only, alone := topic.Exclusive(filter); alone {
			topics = append(topics, only)
		}
	}
	s.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	return b.options.Exclusives.Enter(ctx, id, s.owner, topics)
}

// Exclusive yields who has which topics alone, but for sessions that are on their way
// from one bridge to another.
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

// HasExclusive reports whether a session has a topic alone here.
func (b *Broker) HasExclusive(id SessionID, topic string) bool {
	s := b.session(id)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs[exclusivePrefix+topic] != nil
}

// LoseExclusive takes a topic from a session that another one has alone by now.
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
