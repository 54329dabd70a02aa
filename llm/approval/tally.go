package approval

import (
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A tally counts the pending approvals, and indexes the latest denials and the open
// effects, so that no search among a hundred thousand records is needed. It follows the
// table.
type tally struct {
	mu      sync.Mutex
	spaces  map[protocol.SpaceID]int
	own     map[protocol.Party]int
	ended   map[protocol.Party]int  // that are kept
	denials map[denial]string       // ids
	effects map[placedEffect]string // ids of approvals that are not over
}

// A denial is the key of a denied call: its hash, requester and trace.
type denial struct {
	space       protocol.SpaceID
	party       protocol.Party
	hash, trace string
}

func newTally() *tally {
	return &tally{spaces: make(map[protocol.SpaceID]int), own: make(map[protocol.Party]int), ended: make(map[protocol.Party]int), denials: make(map[denial]string), effects: make(map[placedEffect]string)}
}

func denialOf(r *Record) denial { return denial{r.Space, r.party(), r.Hash, r.TraceID} }

// changed updates the tally upon a change of the table.
func (t *tally) changed(old, now *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(old, -1)
	t.count(now, 1)
	t.noteEffect(old, now)
	if old != nil && old.State == Denied && t.denials[denialOf(old)] == old.ID {
		delete(t.denials, denialOf(old))
	}
	if now != nil && now.State == Denied && now.TraceID != "" && time.Since(time.UnixMilli(now.DecidedAt)) < remembered {
		t.denials[denialOf(now)] = now.ID
	}
}

func (t *tally) count(r *Record, n int) {
	if r != nil && r.State.over() {
		if t.ended[r.party()] += n; t.ended[r.party()] == 0 {
			delete(t.ended, r.party())
		}
	}
	if r == nil || r.State != Pending {
		return
	}
	if t.spaces[r.Space] += n; t.spaces[r.Space] == 0 {
		delete(t.spaces, r.Space)
	}
	if t.own[r.party()] += n; t.own[r.party()] == 0 {
		delete(t.own, r.party())
	}
}

// reserve reserves a place among the pending approvals until release. The caller
// releases it once the approval is stored, or has failed to be. own is the number of
// the requester's pending ones.
func (t *tally) reserve(r *Record, maxOwn, maxAll int) (release func(), own int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own = t.own[r.party()]
	if own >= maxOwn || t.spaces[r.Space] >= maxAll {
		return nil, own, false
	}
	place := *r
	t.count(&place, 1)
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count(&place, -1)
	}), own, true
}

// endedOf is the number of a requester's approvals that are over, and are kept.
func (t *tally) endedOf(who protocol.Party) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended[who]
}

// total is the number of pending approvals.
func (t *tally) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.spaces {
		n += of
	}
	return n
}

// denied is the id of the latest denial of the same call, "" for none.
func (t *tally) denied(r *Record) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denials[denialOf(r)]
}
