package model

import (
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Bridges are the processes that share budgets (docs/decisions/0036).
type Bridges interface {
	// Self is the name of this process in records.
	Self() string
	// Alive reports whether a process may still spend. A process that is not known to
	// have ended may.
	Alive(process string) bool
	// Catchup returns once Alive knows of every process that a record had named
	// before it was called.
	Catchup(ctx context.Context) error
}

// A part is this bridge's part in a purse that several spend.
type part struct {
	held    Quantity // share of the window, including the spent part
	kept    bool     // the record holds the share
	alone   bool     // no other process may spend, so one query may cost more than the rest
	busy    bool     // the record is being changed
	touched bool     // there were queries since the last change of the record
	waiting int      // queries that wait for other bridges' parts
}

// A shortage is a purse with too little for a query: need is its least demand, wish its
// full one.
type shortage struct {
	boundedPurse
	need, wish Quantity
}

// share sets the bridges that share the budgets. Call it before the table is loaded.
func (t *treasury) share(b Bridges) {
	t.bridges = b
	t.table.OnChange(func(_ string, _, now *Spent) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wake()
		if now != nil && now.Wanted != "" && now.Wanted != t.self() {
			t.hurry()
		}
	})
}

func (t *treasury) self() string { return t.bridges.Self() }

// hurry has this bridge release the parts that it does not need. It does not block.
func (t *treasury) hurry() {
	select {
	case t.asked <- struct{}{}:
	default: // a release is pending already
	}
}

// record is the stored record of a purse, nil for none.
func (t *treasury) record(key string) *Spent {
	stored, _, _ := t.table.Get(key)
	return stored
}

// running is the running window of all bridges: the stored one, if the clock of another
// bridge is ahead.
func (t *treasury) running(key string, from, to time.Time) (time.Time, time.Time) {
	if stored := t.record(key); stored != nil && stored.From.After(from) {
		return stored.From, stored.To
	}
	return from, to
}

// others returns the record of a purse in its window.
func (t *treasury) others(p *purse) *Spent { return t.record(p.key).during(p.From, p.To) }

// lacking lists the purses in which this bridge holds too little for the demand of a
// query. The caller holds the mutex.
func (t *treasury) lacking(purses []boundedPurse, d demand, need Quantity) (lacking []shortage) {
	if t.bridges == nil {
		return nil
	}
	wish := need
	if d.open {
		wish.Tokens, wish.Cost = d.tokens+mostAnswer, d.cost(mostAnswer)
	}
	for _, p := range purses {
		free, l := t.free(p), &p.limit
		if l.Tokens > 0 && free.Tokens < need.Tokens || l.Requests > 0 && free.Requests < 1 || !t.affords(p, need.Cost) {
			lacking = append(lacking, shortage{p, need, wish})
		}
	}
	return lacking
}

// need is a query's least demand, and the tokens of the answer in it, 0 if the answer
// is unbounded. In a cluster the least answer prevents a query with an answer of a few
// words while other bridges hold the rest.
func (t *treasury) need(purses []boundedPurse, d demand) (need Quantity, answer int64) {
	if d.open && t.bridges != nil {
		for _, p := range purses {
			if p.limit.Tokens > 0 {
				rest := p.limit.Tokens - t.spent(p.purse).Tokens - d.tokens
				answer = tighter(answer, max(1, min(rest, leastAnswer)))
			}
		}
	}
	return Quantity{Tokens: max(d.tokens+answer, 1), Cost: d.cost(answer), Requests: 1}, answer
}

// errWindow is the error of a change after the window of a purse.
var errWindow = errors.New("the window is over")

// extend extends the shares of purses from the rest of their budgets. It reports false
// if the query must wait for parts that other bridges hold.
func (t *treasury) extend(ctx context.Context, lacking []shortage) (enough bool, err error) {
	enough = true
	for _, s := range lacking {
		ok, err := t.extendOne(ctx, s)
		if err != nil {
			return false, protocol.Wrap(protocol.StoreUnavailable, err, "this bridge's share of a budget is used up, and it cannot be extended at the moment")
		}
		enough = enough && ok
	}
	return enough, nil
}

func (t *treasury) extendOne(ctx context.Context, s shortage) (enough bool, err error) {
	t.mu.Lock()
	if s.busy {
		t.mu.Unlock()
		return false, nil
	}
	s.busy, s.touched = true, true
	t.mu.Unlock()
	var alone, short bool
	stored, err := t.change(ctx, s.purse, func(old *Spent) (*Spent, error) {
		next := old.during(s.From, s.To)
		if !next.From.Equal(s.From) {
			return nil, errWindow
		}
		var more Quantity
		more, alone, short = t.more(&s, next)
		if short {
			if next.Wanted == "" {
				next.Wanted = t.self()
			}
		} else if next.Wanted == t.self() {
			next.Wanted = ""
		}
		next.give(t.self(), Share{s.held.plus(more), s.Quantity}, false)
		return next, nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.wake()
	s.busy = false
	switch {
	case errors.Is(err, errWindow):
		return true, nil
	case err != nil:
		return false, err
	case stored.From.Equal(s.From):
		s.held, s.alone = stored.Shares[t.self()].Held, alone
		t.keeps(s.purse, stored)
	}
	return !short, nil
}

// change edits the record of a purse. edit is called with the mutex held.
func (t *treasury) change(ctx context.Context, p *purse, edit func(old *Spent) (*Spent, error)) (*Spent, error) {
	stored, _, err := records.Change(ctx, t.table, p.key, func(old *Spent, _ uint64) (*Spent, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return edit(old)
	})
	return stored, err
}

// keeps records whether the stored record has a share of this bridge. The caller holds
// the mutex.
func (t *treasury) keeps(p *purse, stored *Spent) {
	p.kept = false
	if stored != nil {
		_, p.kept = stored.Shares[t.self()]
	}
}

// more is the part of the rest that a purse can get. alone is true if one query may
// cost more than that, short if the query must wait. The caller holds the mutex.
func (t *treasury) more(s *shortage, record *Spent) (more Quantity, alone, short bool) {
	t.missed(s.purse, record)
	left := s.limit.minus(record.taken(t.self())).minus(s.held.atLeast(s.Quantity))
	free := t.free(s.boundedPurse)
	lack, wish := s.need.minus(free), s.wish.minus(free)
	wanted := record.Wanted != "" && record.Wanted != t.self()
	var ok bool
	if s.limit.Tokens > 0 {
		more.Tokens, ok = chunk(left.Tokens, lack.Tokens, wish.Tokens, wanted)
		short = short || !ok
	}
	if s.limit.Requests > 0 {
		more.Requests, ok = chunk(left.Requests, lack.Requests, lack.Requests, wanted)
		short = short || !ok
	}
	if s.limit.Cost > 0 {
		if more.Cost, ok = chunk(left.Cost, lack.Cost, wish.Cost, wanted); !ok {
			alone = s.running == 0 && !record.spares(t.self())
			more.Cost, short = max(left.Cost, 0), short || !alone
		}
	}
	if short { // other bridges may use it meanwhile
		return Quantity{}, false, true
	}
	return more, alone, false
}

// missed resets a purse whose share other bridges have ended: they have counted all of
// it as spent. The caller holds the mutex.
func (t *treasury) missed(p *purse, record *Spent) {
	if _, there := record.Shares[t.self()]; p.kept && !there {
		p.Quantity, p.held, p.kept, p.alone = Quantity{}, Quantity{}, false, false
	}
}

// awaits adds more to the number of queries that wait for purses.
func (t *treasury) awaits(lacking []shortage, more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range lacking {
		s.waiting += more
		s.touched = true // the record is to be updated
	}
}

// tell writes this bridge's spending to the records, releases unneeded parts, and ends
// shares of bridges that have ended. With leaving it ends its own.
func (t *treasury) tell(ctx context.Context, leaving bool) error {
	var errs []error
	for _, p := range t.untold(leaving) {
		errs = append(errs, t.tellOne(ctx, p, leaving))
	}
	return errors.Join(errs...)
}

// leave ends this bridge's shares.
func (t *treasury) leave(ctx context.Context) error {
	if t.bridges == nil {
		return nil
	}
	return t.tell(ctx, true)
}

// untold returns the purses whose records are to be updated. It removes purses of
// windows that are over.
func (t *treasury) untold(leaving bool) (purses []*purse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for key, p := range t.purses {
		record := t.others(p)
		switch {
		case p.busy:
		case p.To.Before(now) && p.running == 0:
			delete(t.purses, key)
			purses = append(purses, p)
		case leaving, p.dirty, p.touched, p.idle(), record.Wanted != "", t.orphaned(record):
			purses = append(purses, p)
		default:
			continue
		}
		p.busy = true
	}
	return purses
}

// idle reports whether a purse holds a part that no query needs.
func (p *purse) idle() bool { return p.running == 0 && !p.held.minus(p.Quantity).none() }

// orphaned reports whether a record has shares of processes that are known to have
// ended.
func (t *treasury) orphaned(record *Spent) bool {
	for owner := range record.Shares {
		if owner != t.self() && !t.bridges.Alive(owner) {
			return true
		}
	}
	return record.Wanted != "" && record.Wanted != t.self() && !t.bridges.Alive(record.Wanted)
}

// tellOne updates the record of a purse.
func (t *treasury) tellOne(ctx context.Context, p *purse, leaving bool) error {
	t.mu.Lock()
	orphaned := t.orphaned(t.others(p))
	over := p.To.Before(t.now()) && p.running == 0
	t.mu.Unlock()
	defer t.told(p)
	if over {
		return t.forget(ctx, p)
	}
	if orphaned {
		if err := t.bridges.Catchup(ctx); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.shrink(p, leaving)
	t.mu.Unlock()
	var alerts []BudgetAlert
	stored, err := t.change(ctx, p, func(old *Spent) (*Spent, error) {
		if old != nil && old.From.After(p.From) {
			return old, nil
		}
		next := old.during(p.From, p.To)
		t.missed(p, next)
		if orphaned {
			next.fold(func(owner string) bool { return owner != t.self() && !t.bridges.Alive(owner) })
		}
		if next.Wanted == t.self() && p.waiting == 0 {
			next.Wanted = ""
		}
		next.give(t.self(), Share{p.held, p.Quantity}, leaving && p.running == 0)
		alerts = t.alerts(p.key, next.used(""), &next.Told)
		p.dirty = false
		if old == nil && len(next.Shares) == 0 && next.Quantity.none() {
			return nil, nil
		}
		return next, nil
	})
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		p.dirty = true
		return err
	}
	for _, alert := range alerts {
		t.alert(alert)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keeps(p, stored)
	return nil
}

func (t *treasury) told(p *purse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.busy = false
	t.wake()
}

// shrink releases the part of a share that is neither spent nor reserved, if there was
// no query since the last time or if another bridge lacks it. The caller holds the
// mutex.
func (t *treasury) shrink(p *purse, leaving bool) {
	wanted := t.others(p).Wanted
	if p.touched && !leaving && (wanted == "" || wanted == t.self()) {
		p.touched = false
		return
	}
	p.touched = false
	needs := p.Quantity.plus(Quantity{Tokens: p.reserved, Cost: p.promised})
	p.held = Quantity{min(p.held.Tokens, needs.Tokens), min(p.held.Cost, needs.Cost), min(p.held.Requests, needs.Requests)}
	p.alone = false
}

// forget removes the record of a window that is over.
func (t *treasury) forget(ctx context.Context, p *purse) error {
	stored, revision, ok := t.table.Get(p.key)
	if !ok || stored.From.After(p.From) {
		return nil
	}
	if err := t.table.Delete(ctx, p.key, revision); err != nil && !records.Raced(err) {
		return err
	}
	return nil
}
