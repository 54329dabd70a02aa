package quota

import (
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// RecordLimits bound the records of a party at a time: agents, skills, Caps and
// everything else that stays until it is removed. 0 is any number.
type RecordLimits struct {
	Device   int // of one agent or skill
	Operator int // of one operator
	Space    int // of all of a space together
}

// Records count the records of every party. They are safe for use by
// several goroutines.
type Records struct {
	limits  RecordLimits
	refused func(whose string)

	mu      sync.Mutex
	byParty map[protocol.Party]int
	bySpace map[protocol.SpaceID]int
}

// Records is the count of a keeper's records.
func (k *Keeper) Records() *Records { return k.records }

func newRecords(l RecordLimits, m *metrics) *Records {
	return &Records{
		limits: l, refused: func(whose string) { m.refused(records, whose) },
		byParty: make(map[protocol.Party]int), bySpace: make(map[protocol.SpaceID]int),
	}
}

// Reserve counts one more record of a party, or refuses it: 3004.
func (r *Records) Reserve(owner protocol.Party) *protocol.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.own(owner)
	switch {
	case own > 0 && r.byParty[owner] >= own:
		return r.refuse(ofPrincipal, own)
	case r.limits.Space > 0 && owner.Space != "" && r.bySpace[owner.Space] >= r.limits.Space:
		return r.refuse(ofSpace, r.limits.Space)
	}
	r.count(owner, 1)
	return nil
}

// own is the number of records that a party may have.
func (r *Records) own(p protocol.Party) int {
	switch {
	case p.ID == "" || p.Kind == protocol.KindBridge:
		return 0
	case p.Kind == protocol.KindOperator:
		return r.limits.Operator
	}
	return r.limits.Device
}

func (r *Records) refuse(whose string, most int) *protocol.Error {
	r.refused(whose)
	return protocol.Errorf(protocol.LimitReached, "the %s has %d things registered already; remove some, or raise quotas.%s.records", whose, most, whose).
		With("limit", string(records)).With("most", most).With("of", whose)
}

// Count counts more records of a party, or fewer, without a check of its limit.
func (r *Records) Count(owner protocol.Party, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(owner, n)
}

func (r *Records) count(owner protocol.Party, n int) {
	if owner.ID != "" {
		add(r.byParty, owner, n)
	}
	if owner.Space != "" {
		add(r.bySpace, owner.Space, n)
	}
}

func add[K comparable](to map[K]int, key K, n int) {
	if to[key] += n; to[key] == 0 {
		delete(to, key)
	}
}

// Of is the number of records that a party has.
func (r *Records) Of(owner protocol.Party) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byParty[owner]
}

// In is the number of records that all of a space have together.
func (r *Records) In(space protocol.SpaceID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bySpace[space]
}
