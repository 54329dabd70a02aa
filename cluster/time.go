package cluster

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
)

// ClockSlack is the difference of a bridge's calendar to the time of the cluster that
// does not matter.
const ClockSlack = 2 * time.Second

// samples are the readings of another node's clocks that count: its last ones, of some
// five seconds.
const samples = 16

// A timekeeper agrees with the other nodes on the time of the cluster, by which they
// store deadlines for each other (decisions/0092). The oldest node tells it, in its
// renewals; the others follow it. It goes on evenly when that node dies. The oldest
// corrects it only where it is not between the calendars of the nodes.
//
// All times are told as how far they are ahead of the steady clock of this process.
type timekeeper struct {
	clock *clock.Clock
	peers map[string]*peerClocks
	ahead time.Duration // of the time of the cluster
	known bool
	wrong bool // the log has that the calendar differs
}

// peerClocks are the clocks of another process, as its renewals tell them.
type peerClocks struct {
	instance string
	calendar readings
	cluster  readings // the time of the cluster, none while it does not know it
}

func newTimekeeper(c *clock.Clock) *timekeeper {
	return &timekeeper{clock: c, peers: make(map[string]*peerClocks)}
}

// readings are the last readings of a clock. Each was under way for a while, by which it
// is too low.
type readings struct {
	last  [samples]time.Duration
	count int
}

func (r *readings) add(ahead time.Duration) {
	r.last[r.count%samples] = ahead
	r.count++
}

// full reports whether one that was late does not count.
func (r *readings) full() bool { return r.count >= samples }

// best is the reading that was under way for the least time; there must be one.
func (r *readings) best() time.Duration {
	best := r.last[0]
	for _, ahead := range r.last[:min(r.count, samples)] {
		best = max(best, ahead)
	}
	return best
}

// heard takes the clocks that a renewal of another node tells. One that was not written
// just now tells only that the node has clocks.
func (k *timekeeper) heard(id string, r *Record, justNow bool) {
	if r.ended() || r.Calendar == 0 {
		delete(k.peers, id)
		return
	}
	p := k.peers[id]
	if p == nil || p.instance != r.Instance {
		p = &peerClocks{instance: r.Instance}
		k.peers[id] = p
	}
	if !justNow {
		return
	}
	p.calendar.add(k.since(r.Calendar))
	if r.Time != 0 {
		p.cluster.add(k.since(r.Time))
	}
}

// since is how far a time in Unix milliseconds that was told just now is ahead.
func (k *timekeeper) since(told int64) time.Duration {
	return time.UnixMilli(told).Sub(time.Unix(0, k.clock.Steady()))
}

// own is how far the calendar of this node is ahead.
func (k *timekeeper) own() time.Duration {
	return k.clock.Now().Sub(time.Unix(0, k.clock.Steady()))
}

// decide follows the oldest living node that tells the time, or tells it if that is this
// one. It reports whether the time has become known.
func (k *timekeeper) decide(m *machine) bool {
	before := k.known
	living := k.living(m)
	leader := leading(m, living)
	switch {
	case leader != nil && leader.cluster.count > 0:
		k.agree(leader.cluster.best())
	case leader != nil: // its next renewal tells
	case !k.known:
		k.begin(living)
	default:
		k.correct(living)
	}
	return k.known && !before
}

// isStuck reports whether a node renews its record, and does not come to know the time:
// it cannot read what others write. Nobody waits for it.
func (p *peerClocks) isStuck() bool { return p.cluster.count == 0 && p.calendar.full() }

// living are the clocks of the nodes that live and tell them, by id.
func (k *timekeeper) living(m *machine) map[string]*peerClocks {
	all := make(map[string]*peerClocks, len(k.peers))
	for id, p := range m.peers {
		if clocks := k.peers[id]; clocks != nil && id != m.id && !p.record.ended() && p.silence <= SilentAfter && !clocks.isStuck() {
			all[id] = clocks
		}
	}
	return all
}

// leading are the clocks of the oldest of the living nodes, nil for this node.
func leading(m *machine, living map[string]*peerClocks) (leader *peerClocks) {
	oldest := m.joined
	for id, clocks := range living {
		if joined := m.peers[id].record.Joined; oldest == 0 || joined < oldest { // a node that has not joined is the youngest
			leader, oldest = clocks, joined
		}
	}
	return leader
}

// begin tells the time first. A younger node may know it of an older one that has ended.
func (k *timekeeper) begin(living map[string]*peerClocks) {
	for _, p := range living {
		if p.cluster.count > 0 {
			k.agree(p.cluster.best())
			return
		}
	}
	k.agree(k.own())
}

// correct moves the time if it is not between the calendars in the middle: of three, one
// that is wrong moves nothing. It waits until it knows all of them well.
func (k *timekeeper) correct(living map[string]*peerClocks) {
	calendars := []time.Duration{k.own()}
	for _, p := range living {
		if !p.calendar.full() {
			return
		}
		calendars = append(calendars, p.calendar.best())
	}
	low, high := middle(calendars)
	if right := min(max(k.ahead, low), high); (right - k.ahead).Abs() > ClockSlack {
		k.agree(right)
	}
}

// middle are the two calendars in the middle, which are one if their number is odd.
func middle(calendars []time.Duration) (low, high time.Duration) {
	slices.Sort(calendars)
	n := len(calendars)
	return calendars[(n-1)/2], calendars[n/2]
}

func (k *timekeeper) agree(ahead time.Duration) {
	k.ahead, k.known = ahead, true
	k.clock.Agree(ahead)
}

// tell writes the clocks of this node into its record.
func (k *timekeeper) tell(r *Record) {
	r.Calendar, r.Time = k.clock.Now().UnixMilli(), 0
	if k.known {
		r.Time = time.Unix(0, k.clock.Steady()).Add(k.ahead).UnixMilli()
	}
}

// off is how far the calendar of this node is ahead of the time of the cluster.
func (k *timekeeper) off() time.Duration {
	if !k.known {
		return 0
	}
	return k.own() - k.ahead
}

// ClockAhead is how far the calendar of this machine is ahead of the time of the cluster,
// less than 0 for behind, and 0 while that is unknown.
func (m *Membership) ClockAhead() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.time.off()
}

// keepTime agrees on the time of the cluster, once all nodes are known that joined before
// this one. The mutex is held.
func (m *Membership) keepTime() {
	if !closed(m.entered) {
		return
	}
	if m.time.decide(m.machine) {
		close(m.timed)
		m.hurry() // others may wait to hear it
	}
	m.tellOff()
}

// tellOff logs that the clock of this machine is wrong, or right again.
func (m *Membership) tellOff() {
	off := m.time.off()
	switch wrong := off.Abs() > ClockSlack; {
	case wrong == m.time.wrong:
	case wrong:
		m.time.wrong = true
		m.o.Log.Warn("the clock of this machine differs from those of the other bridges: set it (NTP)", "ahead", off.Round(time.Millisecond))
	case off.Abs() < ClockSlack/2: // or it would be told again and again
		m.time.wrong = false
		m.o.Log.Info("the clock of this machine agrees with those of the other bridges again", "ahead", off.Round(time.Millisecond))
	}
}
