package model

import (
	"context"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Demand is what a site tells of a loan, and asks for. A loan has a number, and is of one
// hour: a site that goes on spending in the next one has another loan then. All amounts are
// counted from the beginning of the loan, so that a demand may be made again.
type Demand struct {
	Account string   // borrower at the site; each has one loan at a time
	Number  int64    // of the loan, greater than that of the account's earlier ones
	Since   int64    // Unix ms at which the loan began, 0 for a new one
	Used    Quantity // spent
	Busy    Quantity // reserved for queries under way
	Need    Quantity // least further amount, none for a report
	Wish    Quantity // amount for a long answer
	Done    bool     // the loan is over: Used is all that was spent
}

// A Loan is the part of the budgets of a centre that a site may spend.
type Loan struct {
	Since int64 // Unix ms
	Held  Bound // most that may be spent of the loan, including Demand.Used
	Life  time.Duration
	Short bool // others hold the rest, so that Held does not cover the need yet
}

// A Bound is the bounded part of a [Quantity]; nil is no bound.
type Bound struct {
	Tokens   *int64   `json:"tokens,omitempty" doc:"tokens; absent if none of the budgets bounds them"`
	Cost     *float64 `json:"cost,omitempty" doc:"cost in the currency of the prices; absent if none of the budgets bounds it"`
	Requests *int64   `json:"requests,omitempty" doc:"requests; absent if none of the budgets bounds them"`
}

// A Lease is a loan of a site in the record of a budget.
type Lease struct {
	Number int64    `json:"number"`
	Held   Quantity `json:"held"` // including Used
	Used   Quantity `json:"used"`
}

// claim is the part of the budget that a lease occupies.
func (l Lease) claim() Quantity { return l.Held.atLeast(l.Used) }

// leaseLife is the time after which a site that has not reached its centre may not spend
// what it has borrowed any more.
const leaseLife = 5 * time.Minute

// Bounds of the borrowers in a budget's record.
const (
	mostAccounts       = 1024 // of all sites
	mostAccountsOfSite = 32   // bridges of a cluster
)

// lent is the quantity that sites hold and are not known to have spent.
func (s *Spent) lent() (sum Quantity) {
	for _, l := range s.Leases {
		sum = sum.plus(l.claim().minus(l.Used))
	}
	return sum
}

// book notes the use that a site tells of a loan. An earlier loan of the account is over: what
// it held counts as spent, unless the site has told the use. The result is false if the loan
// itself is over, as a later one of the account is known.
func (s *Spent) book(account string, d *Demand) bool {
	l, known := s.Leases[account]
	switch {
	case d.Number < l.Number:
		return false
	case d.Number > l.Number:
		if known {
			s.Quantity = s.Quantity.plus(l.claim())
		}
		l = Lease{Number: d.Number}
	}
	l.Used = l.Used.atLeast(d.Used)
	if d.Done {
		l.Held = l.Used
	}
	if s.Leases == nil {
		s.Leases = make(map[string]Lease)
	}
	s.Leases[account] = l
	return true
}

// Lend books what a site has spent, and lends it a part of the budgets of its principal. Each
// loan is booked once, however often it is told. Within a loan what is held never gets less, so
// that an answer that is lost does no harm.
//
// The errors: 4014 if a budget is spent, 3006 if the hour of the
// loan is over or a later loan of the account is known, and 5001 if a record cannot be
// written.
func (s *Service) Lend(ctx context.Context, who *protocol.Principal, d Demand) (Loan, error) {
	return s.budgets.lend(ctx, who, &d)
}

func (t *treasury) lend(ctx context.Context, who *protocol.Principal, d *Demand) (Loan, error) {
	now := t.now()
	begun := now
	if d.Since > 0 {
		begun = time.UnixMilli(d.Since)
	}
	ends := now.Truncate(time.Hour).Add(time.Hour)
	if !d.Done && (begun.Before(ends.Add(-time.Hour)) || !begun.Before(ends)) {
		return Loan{}, overtaken(d.Number)
	}
	site := who.Party().String() + "/"
	account := site + d.Account
	purses := t.lenders(who, now)
	if err := t.admits(purses, account, site); err != nil {
		return Loan{}, err
	}
	more, short, refused := t.spare(purses, account, d)
	if refused != nil && protocol.CodeOf(refused) != protocol.BudgetSpent {
		return Loan{}, refused
	}
	loan := Loan{Since: begun.UnixMilli(), Life: min(leaseLife, ends.Sub(now)), Short: short}
	for i := range purses {
		p := &purses[i]
		if d.Done && begun.Before(p.From) { // it was spent in an earlier window
			continue
		}
		l, short, err := t.lendOf(ctx, p, account, d, more, short)
		if err != nil {
			return Loan{}, err
		}
		loan.Short = loan.Short || short
		loan.Held = loan.Held.within(p.limit, l.Held)
	}
	return loan, refused
}

// overtaken is the error of a loan that is over, as the one of the number is known.
func overtaken(number int64) error {
	return protocol.Errorf(protocol.InvalidState, "the loan is over").With("number", number)
}

// within bounds what a limit bounds by what is held.
func (b Bound) within(limit, held Quantity) Bound {
	if limit.Tokens > 0 && (b.Tokens == nil || held.Tokens < *b.Tokens) {
		b.Tokens = &held.Tokens
	}
	if limit.Cost > 0 && (b.Cost == nil || held.Cost < *b.Cost) {
		b.Cost = &held.Cost
	}
	if limit.Requests > 0 && (b.Requests == nil || held.Requests < *b.Requests) {
		b.Requests = &held.Requests
	}
	return b
}

// A lender is a purse from which a site borrows.
type lender struct {
	boundedPurse
	per, window string
}

// lenders are the purses from which a principal borrows: all of its own, but for the rate of a
// key, which bounds its requests here.
func (t *treasury) lenders(who *protocol.Principal, now time.Time) (all []lender) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var purses []boundedPurse
	for _, b := range t.over(who) {
		owner, ok := b.bounds(who)
		if !ok || b.Window == perMinute {
			continue
		}
		if purses = under(purses, t.purse(b, owner, now), &b); len(purses) > len(all) {
			all = append(all, lender{per: b.Per, window: b.Window})
		}
	}
	for i := range purses {
		all[i].boundedPurse = purses[i]
	}
	return all
}

// boundless is more than any budget has.
var boundless = Quantity{Tokens: 1 << 53, Cost: 1 << 53, Requests: 1 << 53}

// spare is the further amount that all purses can lend, as far as this bridge knows: none if it
// is short of the need.
func (t *treasury) spare(purses []lender, account string, d *Demand) (more Quantity, short bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.Done || d.Need.none() {
		return more, false, nil
	}
	more = boundless
	for i := range purses {
		p := &purses[i]
		record := t.recordOf(p.purse)
		part, short, err := t.portion(p, record.clone(), account, d)
		if short || err != nil {
			return Quantity{}, short, err
		}
		more = more.atMost(part)
	}
	return more, false, nil
}

// recordOf is the record of a purse in its window. The caller holds the mutex.
func (t *treasury) recordOf(p *purse) *Spent {
	if t.bridges != nil {
		return t.others(p)
	}
	return &p.Spent
}

// admits is the error of an account that does not borrow from a purse yet is one too many.
func (t *treasury) admits(purses []lender, account, site string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range purses {
		leases := t.recordOf(purses[i].purse).Leases
		if _, known := leases[account]; known {
			continue
		}
		own := 0
		for other := range leases {
			if strings.HasPrefix(other, site) {
				own++
			}
		}
		for _, n := range []struct{ are, most int }{{own, mostAccountsOfSite}, {len(leases), mostAccounts}} {
			if n.are >= n.most {
				return protocol.Errorf(protocol.LimitReached, "%d bridges of sites borrow from a budget, which is the limit", n.most).With("limit", n.most)
			}
		}
	}
	return nil
}

// portion books a demand in a record of a purse, and is the further amount that the purse can
// lend then. short is true if others hold what it needs. The caller holds the mutex.
func (t *treasury) portion(p *lender, record *Spent, account string, d *Demand) (more Quantity, short bool, err error) {
	if !record.book(account, d) {
		return more, false, overtaken(record.Leases[account].Number)
	}
	l := record.Leases[account]
	b := Budget{Per: p.per, Window: p.window, Tokens: p.limit.Tokens, Cost: p.limit.Cost, Requests: p.limit.Requests}
	elsewhere := record.lent().minus(l.claim()).plus(l.Used)
	if what := b.exceeded(t.spentBy(record, p.purse).plus(elsewhere), d.Need); what != "" {
		return more, false, b.spent(what, p.To.Sub(t.now()))
	}
	taken := record.taken("").minus(l.claim()).plus(l.Used).plus(d.Busy)
	if t.bridges == nil { // else they are in this bridge's share
		taken = taken.plus(Quantity{Tokens: p.reserved, Cost: p.promised})
	}
	left := p.limit.minus(taken)
	more, enough := chunks(p.limit, left, d.Need, d.Wish, record.Wanted != "")
	return more, !enough, nil
}

// chunks is the chunk of what is left of a limit for each amount, boundless for what it does not
// limit. enough is false if the rest does not cover the need.
func chunks(limit, left, need, wish Quantity, wanted bool) (more Quantity, enough bool) {
	more, enough = boundless, true
	var ok bool
	if limit.Tokens > 0 {
		more.Tokens, ok = chunk(left.Tokens, need.Tokens, wish.Tokens, wanted)
		enough = enough && ok
	}
	if limit.Cost > 0 {
		more.Cost, ok = chunk(left.Cost, need.Cost, wish.Cost, wanted)
		enough = enough && ok
	}
	if limit.Requests > 0 {
		more.Requests, ok = chunk(left.Requests, need.Requests, wish.Requests, wanted)
		enough = enough && ok
	}
	return more, enough
}

// lendOf books a demand in the record of a purse, and has the account hold more by it. With
// wanted other bridges give back what they do not need.
func (t *treasury) lendOf(ctx context.Context, p *lender, account string, d *Demand, more Quantity, wanted bool) (l Lease, short bool, err error) {
	var alerts []BudgetAlert
	err = t.amend(ctx, p.purse, func(record *Spent) error {
		short = false
		if !record.book(account, d) {
			if d.Done {
				return nil
			}
			return overtaken(record.Leases[account].Number)
		}
		if !more.none() {
			left, lacks, err := t.portion(p, record, account, d)
			if err != nil {
				return err
			}
			if short = lacks; !short {
				l = record.Leases[account]
				l.Held = l.Held.atLeast(p.bounded(l.Used.plus(d.Busy).plus(more.atMost(left))))
				record.Leases[account] = l
			}
		}
		if (wanted || short) && t.bridges != nil && record.Wanted == "" {
			record.Wanted = t.self()
		}
		l = record.Leases[account]
		alerts = t.alerts(p.key, t.spentBy(record, p.purse), &record.Told)
		return nil
	})
	if err != nil {
		return Lease{}, false, err
	}
	for _, alert := range alerts {
		t.alert(alert)
	}
	return l, short, nil
}

// bounded is a quantity without what the purse has no limit of.
func (p *boundedPurse) bounded(q Quantity) Quantity {
	if p.limit.Tokens == 0 {
		q.Tokens = 0
	}
	if p.limit.Cost == 0 {
		q.Cost = 0
	}
	if p.limit.Requests == 0 {
		q.Requests = 0
	}
	return q
}

// amend changes the record of a purse in its window, and stores it. The mutex is held
// during edit, which may be called several times, each time with another copy.
func (t *treasury) amend(ctx context.Context, p *purse, edit func(record *Spent) error) error {
	if t.bridges != nil {
		_, err := t.change(ctx, p, func(old *Spent) (*Spent, error) {
			next := old.during(p.From, p.To)
			if !next.From.Equal(p.From) {
				return nil, protocol.BusyFor(time.Second, "the window of a budget is over")
			}
			return next, edit(next)
		})
		return err
	}
	t.storing.Lock()
	defer t.storing.Unlock()
	t.mu.Lock()
	next := p.Spent.clone()
	if err := edit(next); err != nil {
		t.mu.Unlock()
		return err
	}
	p.Spent, p.dirty = *next, false
	next = next.clone()
	t.mu.Unlock()
	if t.table == nil {
		return nil
	}
	_, err := t.table.Put(ctx, p.key, next)
	if err != nil {
		t.again(p.key)
		return protocol.Wrap(protocol.StoreUnavailable, err, "what the site has spent cannot be stored at the moment")
	}
	return nil
}
