package broker

import "slices"

// A message that a client retains at another bridge arrives twice: that bridge relays it
// to the present subscribers, and the log brings it for the future ones. Either may be
// first, and the log may be many seconds late. A SUBSCRIBE in between is answered with
// the message before. Its subscription gets the newer message, as a retained one, when
// the log brings it, unless it has had that message or a later one by then. See
// docs/decisions/0088-a-late-retained-message-mends-the-answer.md.

// A retainedAnswer is the state of the retained messages at the time of the answer to a
// SUBSCRIBE. The session's mu guards it, but for since.
type retainedAnswer struct {
	since   uint64 // epoch of the index from which on it has the filter
	given   bool
	counted uint64 // see [sharedRetained]: values of the log that counted by then
}

// A flight is a value of one key and one process that has arrived by one of the two ways
// alone: relayed to the subscriptions that the index had at an epoch, or by the log
// while the relayed message is still on its way.
type flight struct {
	by     Process
	number uint64
	logged bool
	epoch  uint64 // unless logged
}

// mostFlights bounds the keys with flights. A subscription to a key above it may keep the
// older message.
const mostFlights = 1 << 16

// A belated is a value of the log for the subscriptions that were answered before it
// counted.
type belated struct {
	message *message
	key     string
	counted uint64
	after   uint64 // epoch of the index; its subscriptions have had the value
}

// self is the process of this bridge, the zero value if the bridge is alone.
func (x *index) self() (p Process) {
	if x.peers != nil {
		p = x.peers.Self()
	}
	return p
}

// shareRetained puts the retained message of the turn into the log, after its relay to
// the peers.
func (t *turn) shareRetained() {
	m := t.toShare
	if m == nil {
		return
	}
	t.toShare = nil
	given := make([]Process, 0, len(t.reached))
	for _, p := range t.reached {
		given = append(given, p.Process())
	}
	t.b.shared.put(m, given, t.now, t.hold())
}

// noteRetained notes that the turn's message, if it is a retained one, is relayed to all
// subscriptions of the route.
func (t *turn) noteRetained(r *route, by Process) {
	if t.msg.retain && t.msg.number != 0 && t.b.shared != nil {
		t.b.shared.arrived(keyOfRetained(&t.msg), flight{by: by, number: t.msg.number, epoch: r.epoch})
	}
}

// arrived notes the arrival of a relayed message.
func (h *sharedRetained) arrived(key string, f flight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.flightOf(key, f.by)
	switch {
	case at < 0:
		h.addFlight(key, f)
	case !h.ahead[key][at].logged || later(f.number, h.ahead[key][at].number):
		h.ahead[key][at] = f
	case f.number == h.ahead[key][at].number:
		h.removeFlight(key, at)
	}
}

// landed notes the arrival of a value by the log. It reports whether subscriptions may
// have missed the value: those that the index did not have yet at the epoch after.
func (h *sharedRetained) landed(v *RetainedValue) (after uint64, missed bool) {
	self := h.b.index.self()
	if v.By.ID == "" || v.By == self {
		return 0, false
	}
	given := slices.Contains(v.Given, self)
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.flightOf(v.Key, v.By)
	switch {
	case at >= 0 && !h.ahead[v.Key][at].logged:
		f := h.ahead[v.Key][at]
		if later(v.Number, f.number) {
			h.removeFlight(v.Key, at)
			break
		}
		if v.Number == f.number { // subscribers with a later one need no other
			h.removeFlight(v.Key, at)
		}
		return f.epoch, f.epoch != h.b.index.epoch.Load()
	case at >= 0:
		h.removeFlight(v.Key, at)
	}
	if given { // its relayed message reaches all subscriptions there are when it arrives
		h.addFlight(v.Key, flight{by: v.By, number: v.Number, logged: true})
	}
	return 0, !given
}

// later compares numbers of publications, which begin anywhere and wrap around.
func later(a, b uint64) bool { return int64(a-b) > 0 }

// flightOf is the index of the flight of a process among those of a key, -1 if there is
// none. mu is held.
func (h *sharedRetained) flightOf(key string, by Process) int {
	return slices.IndexFunc(h.ahead[key], func(f flight) bool { return f.by == by })
}

func (h *sharedRetained) addFlight(key string, f flight) {
	if len(h.ahead) < mostFlights || h.ahead[key] != nil {
		h.ahead[key] = append(h.ahead[key], f)
	}
}

func (h *sharedRetained) removeFlight(key string, at int) {
	if len(h.ahead[key]) == 1 {
		delete(h.ahead, key)
		return
	}
	h.ahead[key] = slices.Delete(h.ahead[key], at, at+1)
}

// hasLater reports whether a subscription has got a relayed message of the key that is
// later than each value of it in the log so far. mu is held.
func (h *sharedRetained) hasLater(key string, since uint64) bool {
	return slices.ContainsFunc(h.ahead[key], func(f flight) bool { return !f.logged && f.epoch >= since })
}

// retainedFor lists the retained messages for a new subscription. The mu of its session
// is held, so that a later message reaches the session later.
func (t *turn) retainedFor(sub *subscription) []*message {
	h := t.b.shared
	if h == nil {
		return t.b.retained.heard(sub.session, sub.interest.filter, t.now)
	}
	h.counting.RLock()
	defer h.counting.RUnlock()
	found := t.b.retained.heard(sub.session, sub.interest.filter, t.now)
	a := sub.answer
	a.given, a.counted = true, h.counted
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ahead) == 0 {
		return found
	}
	return slices.DeleteFunc(found, func(m *message) bool { return h.hasLater(keyOfRetained(m), a.since) })
}

// deliverBelated gives a value of the log to the subscriptions that were answered
// without it.
func (b *Broker) deliverBelated(late belated) {
	t := b.getTurn().begin()
	defer b.putTurn(t)
	t.use(late.message)
	if _, ok := t.msg.left(t.now); !ok {
		return
	}
	r := t.routeOf(late.message.topic)
	for i := range r.targets {
		if r.targets[i].s.hears(&t.msg) {
			for _, sub := range r.targets[i].subs {
				t.deliverBelatedTo(sub, &late)
			}
		}
	}
}

func (t *turn) deliverBelatedTo(sub *subscription, late *belated) {
	s, a := sub.session, sub.answer
	if a == nil || a.since <= late.after || sub.noLocal && s.sent(&t.msg) || !t.fits(sub) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.subs.get(sub.filter) != sub || !a.given || a.counted >= late.counted {
		return
	}
	c := s.conn.Load()
	if c != nil {
		s.late.Store(true) // later publications wait until this one is sent
		defer func() {
			if s.conn.Load() == c {
				t.pumpLocked(s, c)
			}
		}()
	}
	if t.b.shared.isOld(late, a.since) {
		return
	}
	p := pending{qos: min(t.msg.qos, sub.qos), retain: true}
	if sub.id != 0 {
		p.ids = []uint32{sub.id}
	}
	switch {
	case p.qos == 0:
		t.sendLaterLocked(s, p)
	case c != nil || s.keeps():
		t.owe12Locked(s, &p)
	}
}

// isOld reports whether a subscription has a later value than this one, or will get one.
func (h *sharedRetained) isOld(late *belated, since uint64) bool {
	if !h.b.retained.isLast(late.message) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hasLater(late.key, since)
}
