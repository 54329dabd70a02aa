package quota

import (
	"slices"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// The rates that bridges of a cluster share, by their places in [Use].
const (
	askedRequests = iota
	askedRefusals
	askedMessages
	askedBytes
	rates
)

// A Use is the demand of a party at one bridge: in a second, granted or not, and its
// connections.
type Use struct {
	Party       protocol.Party `json:"party"`
	Asked       [rates]int64   `json:"asked"` // commands, refusals, messages, bytes
	Connections int64          `json:"connections"`
}

// An elsewhere is the part of an account about other bridges.
type elsewhere struct {
	limits      Limits
	asked       [rates]atomic.Int64 // since the last report to the others
	told        [rates]atomic.Int64 // in the second before
	rate        [rates]atomic.Int64 // the limit at this bridge; 0 is the whole
	connections atomic.Int64        // at other bridges
}

// rated are the limits of an account at this bridge.
func (a *account) rated(l Limits) Limits {
	if a.elsewhere == nil {
		return l
	}
	for i, limit := range [rates]*int{&l.Requests, &l.Refusals, &l.Messages, &l.Bytes} {
		if rate := a.elsewhere.rate[i].Load(); rate > 0 && *limit > 0 {
			*limit = int(rate)
		}
	}
	return l
}

// asks counts the demand of a party, if there are other bridges.
func (a *account) asks(what kind, size int) {
	e := a.elsewhere
	if e == nil {
		return
	}
	switch what {
	case messages:
		e.asked[askedMessages].Add(1)
	case refusals:
		e.asked[askedRefusals].Add(1)
		return
	default:
		e.asked[askedRequests].Add(1)
	}
	e.asked[askedBytes].Add(int64(size))
}

func (l *Limits) rates() [rates]int64 {
	return [rates]int64{int64(l.Requests), int64(l.Refusals), int64(l.Messages), int64(l.Bytes)}
}

// Uses lists the demand of the second since the last call, for other bridges: that
// of parties which come near a limit, where there are so many bridges. A party below
// half of its even part at each bridge reaches none.
func (k *Keeper) Uses(bridges int) (uses []Use) {
	k.sharing.Lock()
	defer k.sharing.Unlock()
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.RLock()
		for party, a := range s.of {
			if use, near := a.use(party, int64(bridges)); near {
				uses = append(uses, use)
			}
		}
		s.mu.RUnlock()
	}
	return uses
}

func (a *account) use(party protocol.Party, bridges int64) (u Use, near bool) {
	e := a.elsewhere
	u = Use{Party: party, Connections: a.connections}
	near = e.limits.Connections > 0 && 2*bridges*u.Connections >= int64(e.limits.Connections)
	for i, limit := range e.limits.rates() {
		u.Asked[i] = e.asked[i].Swap(0)
		e.told[i].Store(u.Asked[i])
		near = near || limit > 0 && 2*bridges*u.Asked[i] >= limit
	}
	return u, near
}

// Share divides the limits of parties among the bridges, by the reported demand at
// each. A party that no bridge reports has all of its limits here.
func (k *Keeper) Share(others map[string][]Use) {
	told := make(map[protocol.Party][]Use)
	for _, uses := range others {
		for _, u := range uses {
			told[u.Party] = append(told[u.Party], u)
		}
	}
	k.sharing.Lock()
	defer k.sharing.Unlock()
	before := *k.told.Swap(&told)
	for party := range before {
		if told[party] == nil {
			k.share(party, nil)
		}
	}
	for party, uses := range told {
		k.share(party, uses)
	}
}

// share gives a party at this bridge the part of its limits that others leave.
func (k *Keeper) share(party protocol.Party, others []Use) {
	s := k.shard(party)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if a := s.of[party]; a != nil {
		a.elsewhere.leave(others)
	}
}

// leave sets the part of an account's limits that others leave.
func (e *elsewhere) leave(others []Use) {
	var connections int64
	for _, u := range others {
		connections += u.Connections
	}
	e.connections.Store(connections)
	for i, limit := range e.limits.rates() {
		asked := make([]int64, 0, len(others))
		for _, u := range others {
			asked = append(asked, u.Asked[i])
		}
		rate := fairShare(limit, e.told[i].Load(), asked)
		if rate == limit {
			rate = 0
		}
		e.rate[i].Store(rate)
	}
}

// fairShare is a bridge's part of a limit: the rest that others leave, and never
// less than its even part. Bridges that want less than their even part get their
// demand, and the rest is divided among the others.
func fairShare(limit, own int64, others []int64) int64 {
	if limit <= 0 {
		return 0
	}
	even := max(1, limit/int64(len(others)+1))
	level := waterLevel(limit, append([]int64{own}, others...))
	if own > level {
		return max(even, level)
	}
	left := limit
	for _, wants := range others {
		left -= min(wants, level)
	}
	return max(even, left)
}

// waterLevel is the most that any demand gets, so that all together get no more than
// the limit.
func waterLevel(limit int64, wants []int64) int64 {
	slices.Sort(wants)
	left := limit
	for i, want := range wants {
		if level := left / int64(len(wants)-i); want > level {
			return level
		}
		left -= want
	}
	return limit
}
