package audit

import (
	"net/netip"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The bounds within which refusals that are alike are put together.
const (
	repeatWindow = time.Minute
	maxRefused   = 8192 // sorts of refusals that are known at a time
	maxOfParty   = 64   // of these, of one party; its other ones count as one sort
)

// repeats sums up repeated refusals: the first refusal of a
// principal, command and code is an entry of its own, and those that follow
// within a minute become one more, with their number. So a caller refused two
// thousand times a second does not push out the entries of others.
type repeats struct {
	mu    sync.Mutex
	known map[refused]*repeated
	of    map[caller]int // sorts by caller
}

// A caller is a refused principal, or a stranger at an address.
type caller struct {
	party   protocol.Party
	address netip.Addr
}

// A sort of refusals. Without an event it is all that found no room.
type refused struct {
	caller
	event, code string
}

// repeated counts one refusal that came again.
type repeated struct {
	entry       Entry // as it was first
	since       time.Time
	first, last time.Time // of the repeats
	count       uint64
}

func newRepeats() *repeats {
	return &repeats{known: make(map[refused]*repeated), of: make(map[caller]int)}
}

// absorb reports whether an entry needs not be written: it is counted.
func (r *repeats) absorb(e *Entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := caller{party: protocol.Party{Kind: e.Kind, Space: e.Space, ID: e.Principal}}
	if e.Principal == "" {
		who.address = e.Address.WithZone("")
	}
	sort := refused{who, e.Event, e.Code}
	again := r.known[sort]
	switch {
	case again != nil:
	case len(r.known) >= maxRefused:
		sort = refused{}
		again = r.known[sort]
	case r.of[who] >= maxOfParty:
		sort = refused{caller: who}
		again = r.known[sort]
	}
	if again == nil {
		r.known[sort] = &repeated{entry: *e, since: e.Time}
		r.known[sort].entry.Params, r.known[sort].entry.Digest = nil, ""
		r.of[sort.caller]++
		return false
	}
	if again.count == 0 {
		again.first = e.Time
	}
	again.count++
	again.last = e.Time
	return true
}

// settled takes out the refusals first seen before a moment, and
// makes an entry of their repetitions since.
func (r *repeats) settled(before time.Time) []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var entries []Entry
	for sort, again := range r.known {
		if !again.since.Before(before) {
			continue
		}
		delete(r.known, sort)
		if r.of[sort.caller]--; r.of[sort.caller] == 0 {
			delete(r.of, sort.caller)
		}
		if again.count > 0 {
			entries = append(entries, again.sum(sort))
		}
	}
	return entries
}

// sum is the entry of the repetitions.
func (r *repeated) sum(sort refused) Entry {
	e := r.entry
	e.RequestID, e.TraceID = "", ""
	e.Time = r.last
	if sort.event == "" { // of several sorts
		e.Resource, e.Reason, e.Action = "", "refusals of many sorts", ""
	}
	if sort == (refused{}) {
		e = Entry{Time: r.last, Event: Repeated, Code: r.entry.Code, Security: true, Kind: protocol.KindBridge, Reason: "refusals of many callers"}
	}
	e.Details = map[string]string{
		"repeated": number(r.count), "first": r.first.UTC().Format(timeFormat), "last": r.last.UTC().Format(timeFormat),
	}
	return e
}
