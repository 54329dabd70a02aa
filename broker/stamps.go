package broker

import "time"

// toStore is a steady time as journals keep it, and as bridges tell it each other:
// nanoseconds since 1970 by the time of the cluster, by the calendar for a bridge
// that is alone. 0 stays 0.
func (b *Broker) toStore(steady int64) int64 {
	if steady == 0 {
		return 0
	}
	return b.clock.Common(steady).UnixNano()
}

// fromStore is the steady time of what the journal kept, which was so many
// seconds ahead at most when it was stored. 0 stays 0.
func (b *Broker) fromStore(stored int64, most uint32) int64 {
	if stored == 0 {
		return 0
	}
	return b.clock.FromCommon(time.Unix(0, stored), time.Duration(seconds(most)))
}

// stamps notice that the system's clock was set, or the time of the cluster, as happens
// minutes after the start of a small computer. Records with a deadline are stored again
// then, or they would end too early or too late after the next start.
type stamps struct {
	b     *Broker
	known bool
	ahead time.Duration // of the time that is stored
}

// slack is the drift between the clocks that does not matter.
const slack = 2 * time.Second

// renew stores deadlines again if the clock was set.
func (k *stamps) renew(t *turn) {
	if k.b.journal == nil {
		return
	}
	ahead := k.b.clock.Common(t.now).Sub(time.Unix(0, t.now))
	moved := (ahead - k.ahead).Abs()
	if k.known && moved < slack {
		return
	}
	first := !k.known
	k.known, k.ahead = true, ahead
	if first && moved < slack {
		return
	}
	for _, s := range k.b.allSessions() {
		s.mu.Lock()
		if s.conn.Load() == nil && s.keeps() {
			k.b.recordSession(t, s)
		}
		s.mu.Unlock()
	}
	k.b.retained.restamp(t.recordAgain)
	t.end()
}
