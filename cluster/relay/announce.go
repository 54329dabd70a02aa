package relay

import (
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/routes"
)

// A waiter is a pending answer: due when all bridges know the announcements of a round.
type waiter struct {
	round  uint64
	answer broker.Answerer
}

// checkEvery is the interval at which the checksum of the announcements is sent to the
// other bridges.
const checkEvery = 10 * time.Second

// Subscribed implements [broker.Peers].
func (r *Relay) Subscribed(i broker.Interest) {
	r.announcer.Add(routes.Subscription(i))
	r.announceSoon()
}

// Unsubscribed implements [broker.Peers].
func (r *Relay) Unsubscribed(i broker.Interest) {
	r.announcer.Remove(routes.Subscription(i))
	r.announceSoon()
}

// Announced implements [broker.Peers].
func (r *Relay) Announced(answer broker.Answerer) {
	r.announcing.Lock()
	round := r.round
	if r.announcer.Pending() || r.told.Load() {
		round++
	}
	known := r.knownTo(round)
	if !known {
		r.waiters = append(r.waiters, waiter{round, answer})
	}
	r.announcing.Unlock()
	if known {
		answer.Answer(broker.Taken)
	}
}

func (r *Relay) announceSoon() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// announce sends changes of subscriptions to the other bridges, at most once per
// Gather.
func (r *Relay) announce() {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-check.C:
			r.tellSum()
		case <-r.wake:
			r.announceNow()
			select {
			case <-r.closing:
				return
			case <-time.After(r.o.Gather):
			}
		}
	}
}

// announceNow sends the pending changes to each bridge, and a snapshot to outdated
// ones.
func (r *Relay) announceNow() {
	r.announcing.Lock()
	peers := r.all()
	anew := false
	told := r.told.Swap(false)
	for _, p := range peers {
		p.inform()
		anew = anew || p.begins()
	}
	changes, snapshot := r.announcer.Cut(anew)
	if len(changes) > 0 || told {
		r.round++
	}
	for i := range r.waiters { // changes may have undone each other
		r.waiters[i].round = min(r.waiters[i].round, r.round)
	}
	for _, p := range peers {
		p.announceRound(changes, snapshot, r.round, told, r.o.Outbox)
	}
	r.announcing.Unlock()
	for _, p := range peers {
		p.signal()
	}
	r.roundsMoved()
	r.local.AnswerReceipts()
}

// begins reports whether the bridge needs a snapshot.
func (p *peer) begins() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == open && p.outdated && !p.adopted
}

func (p *peer) announceRound(changes, snapshot []routes.Batch, round uint64, told bool, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open {
		return // it gets a snapshot instead
	}
	switch {
	case p.adopted:
	case p.ahead().out.held() > 4*most: // bounds the memory that a stalled bridge takes
		p.outdated = p.outdated || len(changes) > 0
	case p.outdated && p.informed && snapshot != nil:
		p.outdated = false
		p.announce(snapshot, round)
	case !p.outdated && (told || len(changes) > 0):
		p.announce(changes, round)
	}
	if p.resync {
		p.resync = false
		p.record(recResync, nil)
	}
}

// tellSum sends the checksum of the announcements to every bridge.
func (r *Relay) tellSum() {
	check := r.announcer.Check()
	again := false
	for _, p := range r.all() {
		p.mu.Lock()
		if again = again || p.outdated && !p.adopted; p.state == open && !p.outdated && !p.adopted {
			p.record(recBatch, check.Append(nil))
		}
		p.mu.Unlock()
		p.signal()
	}
	if again {
		r.announceSoon()
	}
}

// announced applies an announcement of a bridge to the table.
func (r *Relay) announced(p *peer, encoded []byte) error {
	var b routes.Batch
	if err := b.Decode(encoded); err != nil {
		return err
	}
	p.mu.Lock()
	epoch := p.epoch
	p.mu.Unlock()
	if b.Epoch != epoch {
		return nil // it was announced by a process before
	}
	err := r.table.Apply(p.id, &b)
	if errors.Is(err, routes.ErrGap) && !r.table.Known(p.id, epoch) {
		return nil // its snapshot is on its way
	}
	if err != nil {
		r.o.Log.Warn("a snapshot of a bridge's announcements is requested", "bridge", p.id, "why", err)
		r.metrics.resyncs.Inc()
		p.mu.Lock()
		p.resync = true
		p.mu.Unlock()
		r.announceSoon()
	}
	return nil
}

// knownTo reports whether all bridges know the announcements of a round. The caller
// holds announcing.
func (r *Relay) knownTo(round uint64) bool {
	if round > r.round {
		return len(r.all()) == 0
	}
	for _, p := range r.all() {
		if !p.hasRound(round) {
			return false
		}
	}
	return true
}

// hasRound reports whether the bridge knows the announcements of a round, or has no
// publishers.
func (p *peer) hasRound(round uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == absent || p.adopted || p.state == open && p.known && p.round >= round
}

// roundsMoved answers the waiters of rounds that all bridges know by now.
func (r *Relay) roundsMoved() {
	r.announcing.Lock()
	var ready []waiter
	if len(r.waiters) > 0 {
		least := r.waiters[0].round
		if r.knownTo(least) {
			r.waiters = slices.DeleteFunc(r.waiters, func(w waiter) bool {
				if w.round > least && !r.knownTo(w.round) {
					return false
				}
				ready = append(ready, w)
				return true
			})
		}
	}
	r.announcing.Unlock()
	for _, w := range ready {
		w.answer.Answer(broker.Taken)
	}
}

// Ready reports whether this bridge and all others know each other's announcements, and
// no bridge has sessions that are not served.
func (r *Relay) Ready() bool { return r.Met() && !r.waits() }

// waits reports whether there is a bridge with sessions that are not served.
func (r *Relay) waits() bool {
	for _, p := range r.all() {
		p.mu.Lock()
		waits := p.waits
		p.mu.Unlock()
		if waits {
			return true
		}
	}
	return false
}

// Met is Ready without regard to bridges whose sessions are not served.
func (r *Relay) Met() bool {
	r.announcing.Lock()
	defer r.announcing.Unlock()
	for _, p := range r.all() {
		if !p.ready() {
			return false
		}
	}
	return !r.announcer.Pending() && !r.told.Load() && r.knownTo(r.round)
}

func (p *peer) ready() bool {
	p.mu.Lock()
	state, epoch, adopted := p.state, p.epoch, p.adopted
	p.mu.Unlock()
	return state == absent && !adopted || state == open && p.r.table.Known(p.id, epoch)
}
