package broker

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/broker/packet"
)

// A numbering numbers the publishes of QoS 2 of a bridge, and keeps the number up to
// which their outcomes are on record.
type numbering struct {
	mu      sync.Mutex
	last    uint64
	open    []*numbered // in the order of their numbers
	settled uint64
}

// A numbered is a publish of QoS 2.
type numbered struct {
	number uint64
	at     atomic.Uint64 // position of the record of its outcome, plus one; 0 before
}

// begin numbers a publish that follows another one of its session. The outcomes of
// all publishes up to the number settled are on record.
func (n *numbering) begin(b *Broker, previous uint64) (_ *numbered, settled uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	done := 0
	for done < len(n.open) {
		at := n.open[done].at.Load()
		if at == 0 || !b.stored(at-1) {
			break
		}
		n.settled = n.open[done].number
		done++
	}
	if n.open = n.open[done:]; len(n.open) == 0 {
		n.open = nil
	}
	n.last = max(n.last, previous) + 1
	p := &numbered{number: n.last}
	n.open = append(n.open, p)
	return p, n.settled
}

// finish notes the position of the record of the publish's outcome; 0 means that it
// needs none.
func (p *numbered) finish(at uint64) {
	if p != nil {
		p.at.CompareAndSwap(0, at+1)
	}
}

// A senderState tracks the publishes of QoS 2 of a session's client, where there are
// peers.
type senderState struct {
	last     uint64 // number of the last one
	recorded uint64 // receipts are on record up to this number
	// doubtful says that the session was restored: a repeated publish may have come
	// before under a number above after, unless its identifier is in sure.
	doubtful bool
	after    uint64
	sure     map[uint16]bool
}

// A bridge that ends may have given numbers that are not on record to as many
// publishes as there are identifiers.
const lostNumbers = 1 << 16

// mostSure bounds the identifiers that are remembered. A client sends its
// repetitions before it has used as many.
const mostSure = 4096

// leastNumber is a number above those that publishes have had until now, at whichever
// bridge: the time of the cluster. Bridges give one more with each publish, which is less
// than a nanosecond of it. A session that begins with this repeats nothing of an earlier
// one of its client, whose publishes other bridges may remember. Where that time was set
// back, the numbers that have come here count.
func (b *Broker) leastNumber() uint64 {
	if b.index.peers == nil {
		return 0
	}
	return max(uint64(max(b.toStore(b.clock.Steady()), 0)), b.origins.greatest())
}

// restored makes the client's repetitions doubtful. They get numbers from least on, above
// those that are not on record.
func (o *senderState) restored(least uint64) {
	if !o.doubtful {
		o.doubtful, o.after = true, o.recorded
	}
	o.last = max(o.recorded+lostNumbers, least)
}

// markSure notes that an identifier is not that of a publish of before.
func (o *senderState) markSure(id uint16) {
	if !o.doubtful {
		return
	}
	if o.sure == nil {
		o.sure = make(map[uint16]bool)
	}
	if o.sure[id] = true; len(o.sure) > mostSure {
		o.doubtful, o.sure = false, nil
	}
}

// originate gives the turn's message, which came in a PUBLISH of a session, its
// origin.
func (t *turn) originate(s *session, p *packet.Publish) {
	if p.QoS != 2 || t.b.index.peers == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.keeps() {
		return
	}
	o := &s.sender
	t.numbered, t.origin.settled = t.b.numbering.begin(t.b, o.last)
	t.origin.id, t.origin.number = p.PacketID, t.numbered.number
	if o.last = t.origin.number; p.Dup && o.doubtful && !o.sure[p.PacketID] {
		t.origin.again, t.origin.after = true, o.after
	}
	o.markSure(p.PacketID)
}

// settleAbsent takes up the answers of peers for publishes of a client that is away:
// they are recorded as received, in their order.
func (t *turn) settleAbsent(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() == nil && !s.ended {
		t.settleAccepting(s)
	}
}

// settleAccepting takes up the answers for inbound publishes, up to the first that
// lacks some. It reports whether none does. The session's mu is held.
func (t *turn) settleAccepting(s *session) bool {
	ids := make([]uint16, 0, len(s.accepting))
	for id := range s.accepting {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint16) int { return s.accepting[a].order(s.accepting[b]) })
	for _, id := range ids {
		receipt := s.accepting[id]
		if !receipt.done() {
			return false
		}
		t.receivedInbound(s, id, receipt.failed())
	}
	return true
}

// receivedInbound takes up the outcome of an inbound publish: it is recorded as
// received, or its identifier is free again. The session's mu is held.
func (t *turn) receivedInbound(s *session, id uint16, failed bool) {
	receipt := s.accepting[id]
	delete(s.accepting, id)
	here, ok := s.inbound[id]
	switch {
	case !ok:
		receipt.numbered.finish(0)
	case failed:
		delete(s.inbound, id)
		if here {
			s.receiving.Add(-1)
		}
		receipt.numbered.finish(0)
	default:
		t.recordReceived(s, id, receipt.numbered)
	}
}

// recordReceived records that an inbound publish was received. The session's mu is
// held.
func (t *turn) recordReceived(s *session, id uint16, p *numbered) {
	at := uint64(0)
	if s.keeps() {
		if p != nil {
			s.sender.recorded = max(s.sender.recorded, p.number)
		}
		at = t.b.recordInbound(t, s, id, true)
	}
	p.finish(at)
}

// giveUpInbound drops the receipts of inbound publishes of a session that ends. Its
// mu is held.
func (s *session) giveUpInbound() {
	for _, receipt := range s.accepting {
		receipt.numbered.finish(0)
	}
	s.accepting = nil
}
