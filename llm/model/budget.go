package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// The kinds of parties that each have a budget of their own.
const (
	perPrincipal = "principal"
	perKey       = "key" // an API key, of any number of clients
	perSpace     = "space"
)

// A Budget bounds the spending of each principal, each API key or each space in a
// window of time. A zero limit is none.
type Budget struct {
	Per      string  `yaml:"per,omitempty"`    // principal, key or space
	Of       string  `yaml:"of,omitempty"`     // a single owner: alice, lab/alice, lab/agent/alice, the id of a key, or the name of a space; all by default
	Window   string  `yaml:"window,omitempty"` // hour, day or month, in UTC
	Tokens   int64   `yaml:"tokens,omitempty"`
	Cost     float64 `yaml:"cost,omitempty"`
	Requests int64   `yaml:"requests,omitempty"`
}

func (b *Budget) check() error {
	switch b.Per {
	case perPrincipal, perKey, perSpace:
	default:
		return fmt.Errorf("per: %q is none of principal, key and space", b.Per)
	}
	switch b.Window {
	case "hour", "day", "month":
	default:
		return fmt.Errorf("window: %q is none of hour, day and month", b.Window)
	}
	if math.IsNaN(b.Cost) { // which bounds nothing
		return errors.New("cost: is no amount")
	}
	if b.Tokens < 0 || b.Cost < 0 || b.Requests < 0 {
		return errors.New("limits must not be negative")
	}
	return nil
}

// window returns the beginning and the end of the running window.
func (b *Budget) window(now time.Time) (from, to time.Time) {
	now = now.UTC()
	switch b.Window {
	case perMinute:
		from = now.Truncate(time.Minute)
		return from, from.Add(time.Minute)
	case "hour":
		from = now.Truncate(time.Hour)
		return from, from.Add(time.Hour)
	case "day":
		from = time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 0, 1)
	}
	from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}

// purse is the spending of one budget's owner in the running window: all of it, or in a
// cluster that by this bridge.
type purse struct {
	Spent
	key      string
	running  int     // queries
	reserved int64   // their tokens
	promised float64 // their greatest cost
	dirty    bool

	part // the part of this bridge, if there are several
}

// A treasury enforces the budgets.
type treasury struct {
	table records.Table[Spent] // nil forgets at the end of the process
	now   func() time.Time
	// allowance returns the allowance of an API key, see [Options].
	allowance func(key string) *protocol.Allowance
	bridges   Bridges           // bridges with the same budgets, nil for none
	alert     func(BudgetAlert) // receiver of alerts

	storing sync.Mutex // held while records are written, so that none is replaced by an earlier one

	mu      sync.Mutex
	budgets []Budget
	purses  map[string]*purse
	settled chan struct{} // closed when a reservation is settled, or a share has changed
	asked   chan struct{} // holds a token while another bridge lacks a part that this one holds
}

func newTreasury(table records.Table[Spent], now func() time.Time) *treasury {
	return &treasury{table: table, now: now, alert: func(BudgetAlert) {}, purses: make(map[string]*purse), settled: make(chan struct{}), asked: make(chan struct{}, 1)}
}

// load copies the stored spending. In a cluster the records are read on demand instead.
func (t *treasury) load() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.table == nil || t.bridges != nil {
		return
	}
	for key, spent := range t.table.All() {
		p := &purse{Spent: *spent.clone(), key: key}
		p.fold(func(string) bool { return true }) // all bridges of a cluster have ended
		t.purses[key] = p
	}
}

func (t *treasury) configure(budgets []Budget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.budgets = budgets
}

// A demand is the amount that a query needs of its budgets.
type demand struct {
	tokens int64 // of the question, and of the answer if that is bounded
	open   bool  // the answer is not bounded: it gets a share of the rest
	price  Price // the dearest that the query may have
	input  int64 // of the tokens, those of the question
}

// The bounds of the tokens reserved for an unbounded answer: an eighth of the budget's
// rest, within these.
const (
	leastAnswer = 4096
	mostAnswer  = 16384
)

// A reservation is the amount reserved for a query until its usage is known.
type reservation struct {
	t      *treasury
	purses []*purse
	tokens int64
	cost   float64
	// answer is the number of tokens that the answer may have, 0 if no budget bounds it.
	answer int64
}

// reserve reserves a query's demand in all budgets of its principal, or returns 4014
// with the spent one. While queries under way or other bridges hold the rest, it waits:
// the part that they do not use is free then.
func (t *treasury) reserve(ctx context.Context, who *protocol.Principal, d demand) (*reservation, error) {
	for {
		r, lacking, wait, err := t.attempt(who, d)
		if r != nil || err != nil {
			return r, err
		}
		enough, err := t.extend(ctx, lacking)
		switch {
		case err != nil:
			return nil, err
		case enough && len(lacking) > 0:
			continue
		}
		t.awaits(lacking, 1)
		select {
		case <-wait:
			t.awaits(lacking, -1)
		case <-ctx.Done():
			t.awaits(lacking, -1)
			return nil, context.Cause(ctx)
		}
	}
}

// A boundedPurse is a purse with the tightest limits of its budgets; a zero limit is
// none.
type boundedPurse struct {
	*purse
	limit Quantity
}

// under adds the bounds of a budget to a principal's purses.
func under(purses []boundedPurse, p *purse, b *Budget) []boundedPurse {
	i := slices.IndexFunc(purses, func(other boundedPurse) bool { return other.purse == p })
	if i < 0 { // else two budgets bound the same spending
		i = len(purses)
		purses = append(purses, boundedPurse{purse: p})
	}
	l := &purses[i].limit
	l.Tokens, l.Cost, l.Requests = tighter(l.Tokens, b.Tokens), tighter(l.Cost, b.Cost), tighter(l.Requests, b.Requests)
	return purses
}

func tighter[N int64 | float64](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// attempt makes a reservation. If that must wait, it returns a channel that is closed
// upon a change, and the shortages in purses of which other bridges may hold parts.
func (t *treasury) attempt(who *protocol.Principal, d demand) (r *reservation, lacking []shortage, wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	var purses []boundedPurse
	for _, b := range t.over(who) {
		owner, ok := b.bounds(who)
		if !ok {
			continue
		}
		p := t.purse(b, owner, now)
		if what := b.exceeded(t.spent(p), Quantity{Tokens: d.tokens, Cost: d.leastCost(), Requests: 1}); what != "" {
			return nil, nil, nil, b.spent(what, p.To.Sub(now))
		}
		purses = under(purses, p, &b)
	}
	need, least := t.need(purses, d)
	if lacking := t.lacking(purses, d, need); len(lacking) > 0 {
		return nil, lacking, t.settled, nil
	}
	bound, room := t.room(purses)
	if bound && room < need.Tokens {
		return nil, nil, t.settled, nil
	}
	for _, p := range purses {
		if t.bridges == nil && !t.affords(p, d.cost(0)) {
			return nil, nil, t.settled, nil
		}
	}
	r = &reservation{t: t}
	if bound, room := t.paid(purses, d, bound, room); bound && d.open {
		r.answer = max(1, min(room-d.tokens, max(leastAnswer, min(room/8, mostAnswer))))
	}
	for _, p := range purses {
		if t.bridges != nil && !t.affords(p, d.cost(r.answer)) {
			r.answer = least
		}
		r.purses = append(r.purses, p.purse)
	}
	r.tokens, r.cost = d.tokens+r.answer, d.cost(r.answer)
	for _, p := range purses {
		if !t.affords(p, r.cost) {
			return nil, nil, t.settled, nil
		}
	}
	for _, p := range r.purses {
		p.running++
		p.reserved += r.tokens
		p.promised += r.cost
		p.Requests++
		p.dirty, p.alone = true, false
	}
	return r, nil, nil, nil
}

// room is the number of tokens left in all purses, if one of them bounds tokens.
func (t *treasury) room(purses []boundedPurse) (bound bool, room int64) {
	for _, p := range purses {
		if p.limit.Tokens > 0 {
			if free := t.free(p).Tokens; !bound || free < room {
				bound, room = true, free
			}
		}
	}
	return bound, room
}

// paid reduces the room for a query with an unbounded answer to the tokens that the
// limits of cost allow.
func (t *treasury) paid(purses []boundedPurse, d demand, bound bool, room int64) (bool, int64) {
	for _, p := range purses {
		if p.limit.Cost > 0 && d.price.Output > 0 {
			if pays := d.tokens + d.answerFor(t.free(p).Cost); !bound || pays < room {
				bound, room = true, pays
			}
		}
	}
	return bound, room
}

// spent is the known spending of a purse, without reservations, and what sites hold of it.
func (t *treasury) spent(p *purse) Quantity {
	record := t.recordOf(p)
	return t.spentBy(record, p).plus(record.lent())
}

// spentBy is the known spending of a purse by a record of it, without reservations.
func (t *treasury) spentBy(record *Spent, p *purse) Quantity {
	if t.bridges == nil {
		return record.used("")
	}
	return record.used(t.self()).plus(p.Quantity)
}

// free is the part of a purse that this bridge has left for another query. Fields
// without a limit are meaningless.
func (t *treasury) free(p boundedPurse) Quantity {
	left := p.held.minus(p.Quantity)
	if t.bridges == nil {
		left = p.limit.minus(p.taken(""))
	}
	return left.minus(Quantity{Tokens: p.reserved, Cost: p.promised})
}

// affords reports whether a purse covers the greatest cost of a query. A query that
// runs alone needs no cover, since its cost is known only after the answer.
func (t *treasury) affords(p boundedPurse, cost float64) bool {
	switch {
	case p.limit.Cost == 0 || t.free(p).Cost >= cost:
		return true
	case t.bridges != nil:
		return p.running == 0 && p.alone
	}
	return p.running == 0
}

// cost is the greatest cost of a query with an answer of at most so many tokens; 0 is
// an unbounded answer.
func (d demand) cost(answer int64) float64 {
	output := d.tokens - d.input + answer
	if d.open && answer == 0 {
		output += leastAnswer
	}
	return d.price.cost(chat.Usage{Input: int(d.input), Output: int(output)})
}

// leastCost is the least cost that a budget must cover: with the longest answer of the
// query, or with a word if the budgets bound the answer.
func (d demand) leastCost() float64 {
	output := d.tokens - d.input
	if d.open {
		output = 1
	}
	return d.price.cost(chat.Usage{Input: int(d.input), Output: int(output)})
}

// answerFor is the number of tokens of an answer that a cost covers after the question,
// at most 8*mostAnswer.
func (d demand) answerFor(cost float64) int64 {
	rest := cost - d.price.cost(chat.Usage{Input: int(d.input)})
	return max(0, int64(min(rest*1e6/d.price.Output, mostAnswer*8)))
}

// bounds reports whether the budget bounds a principal, and returns the owner of the
// purse that it spends from.
func (b *Budget) bounds(who *protocol.Principal) (owner purseOwner, ok bool) {
	if b.Per == perSpace {
		owner.Space = who.Home()
		return owner, b.Of == "" || b.Of == string(owner.Space)
	}
	owner.Party = who.Party()
	if b.Per == perKey {
		if owner.Key = who.Credential; owner.Key == "" || who.Method != protocol.MethodAPIKey {
			return owner, false
		}
	}
	return owner, b.covers(owner)
}

// exceeded names the limit of a budget ("requests", "tokens" or "cost") that excludes a
// query even if it runs alone; "" for none.
func (b *Budget) exceeded(spent, need Quantity) string {
	switch {
	case b.Requests > 0 && (spent.Requests >= b.Requests || spent.Requests+need.Requests > b.Requests):
		return "requests"
	case b.Tokens > 0 && (spent.Tokens >= b.Tokens || spent.Tokens+need.Tokens > b.Tokens):
		return "tokens"
	case b.Cost > 0 && (spent.Cost >= b.Cost || spent.Cost+need.Cost > b.Cost):
		return "cost"
	}
	return ""
}

// spent is the error of a budget whose limit is reached until its window ends.
func (b *Budget) spent(what string, left time.Duration) error {
	return protocol.Errorf(protocol.BudgetSpent, "the budget of the %s is spent: %s of the %s", b.Per, what, b.Window).
		With("limit", what).With("retry_after_ms", left.Milliseconds())
}

// purse returns the purse of a budget's owner, emptied if its window is over.
func (t *treasury) purse(b Budget, owner purseOwner, now time.Time) *purse {
	from, to := b.window(now)
	key := b.key(owner)
	p := t.purses[key]
	if p == nil {
		p = &purse{key: key}
		t.purses[key] = p
	}
	if t.bridges != nil { // the clocks of other bridges may be ahead
		from, to = t.running(key, from, to)
	}
	if !p.From.Equal(from) {
		p.Spent, p.part = Spent{From: from, To: to}, part{busy: p.busy, waiting: p.waiting}
	}
	return p
}

// uncounted takes back the count of a request, for a reservation that is part of
// another one.
func (r *reservation) uncounted() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for _, p := range r.purses {
		p.Requests--
	}
}

// settle books the usage of a query, nothing if its provider failed, and lets waiting
// queries try again. It returns the alerts of budgets that near or reach their limit.
func (r *reservation) settle(used chat.Usage, cost float64) (alerts []BudgetAlert) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.t.wake()
	for _, p := range r.purses {
		p.running--
		p.reserved -= r.tokens
		if p.promised -= r.cost; p.running == 0 {
			p.promised = 0 // drop rounding errors
		}
		p.Tokens += int64(used.Total())
		p.Cost += cost
		p.dirty = true
		if r.t.bridges == nil {
			alerts = append(alerts, r.t.alerts(p.key, p.used(""), &p.Told)...)
		} else if r.t.others(p).Wanted != "" {
			r.t.hurry()
		}
	}
	return alerts
}

// wake has waiting reservations try again. The caller holds the mutex.
func (t *treasury) wake() {
	close(t.settled)
	t.settled = make(chan struct{})
}

// store writes the changes since its last call, and deletes windows that are over.
func (t *treasury) store(ctx context.Context) error {
	if t.bridges != nil {
		return t.tell(ctx, false)
	}
	t.storing.Lock()
	defer t.storing.Unlock()
	t.mu.Lock()
	changed := make(map[string]Spent)
	var over []string
	now := t.now()
	for key, p := range t.purses {
		switch {
		case p.To.Before(now) && p.running == 0:
			delete(t.purses, key)
			over = append(over, key)
		case p.dirty:
			p.dirty = false
			changed[key] = *p.Spent.clone()
		}
	}
	t.mu.Unlock()
	if t.table == nil {
		return nil
	}
	var errs []error
	for key, spent := range changed {
		if _, err := t.table.Put(ctx, key, &spent); err != nil {
			errs = append(errs, err)
			t.again(key)
		}
	}
	for _, key := range over {
		if err := t.table.Delete(ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// again marks a purse for the next call of store, after a failure.
func (t *treasury) again(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.purses[key]; p != nil {
		p.dirty = true
	}
}

// cost is the cost of tokens at a price.
func (p Price) cost(u chat.Usage) float64 {
	fresh := u.Input - u.Cached - u.CacheWrite
	cached, written := p.Cached, p.CacheWrite
	if cached == 0 {
		cached = p.Input
	}
	if written == 0 {
		written = p.Input
	}
	return (float64(fresh)*p.Input + float64(u.Cached)*cached + float64(u.CacheWrite)*written + float64(u.Output)*p.Output) / 1e6
}
