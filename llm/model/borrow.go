package model

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Centre is the bridge whose budgets hold for this one, which is a site of it.
type Centre struct {
	// Lend is [Service.Lend] at the centre, for this site. The error is [ErrUnreachable] if
	// the centre cannot be asked at the moment.
	Lend func(ctx context.Context, d Demand) (Loan, error)
	// Account is the name of this bridge among those of the site.
	Account string
	// Accounts keeps the accounts; nil forgets them at the end of the process.
	Accounts records.Table[Account]
	// Alone is the budget of this bridge while the centre cannot be asked. Without limits
	// nothing may be spent then.
	Alone Budget
}

// ErrUnreachable is the error of a centre that cannot be asked at the moment.
var ErrUnreachable = errors.New("the centre cannot be asked at the moment")

// An Account is the record of what a site owes its centre.
type Account struct {
	Number int64    `json:"number"`         // of the last loan
	Open   *Debt    `json:"open,omitempty"` // loan that is being spent
	Owed   []Debt   `json:"owed,omitempty"` // loans that are over, and not settled yet, the oldest first
	Late   Quantity `json:"late,omitzero"`  // spending since a loan ended, of queries that began before
	Alone  Alone    `json:"alone,omitzero"` // spending without the centre
}

// Alone is the spending without the centre in a window, but for that of the open loan.
type Alone struct {
	From     time.Time `json:"from"`
	Quantity `json:"spent"`
}

// A Debt is one loan of a site, as the site knows it.
type Debt struct {
	Number int64    `json:"number"`
	Since  int64    `json:"since"` // Unix ms
	Ends   int64    `json:"ends"`  // Unix ms; nothing is spent of it afterwards
	Held   Bound    `json:"held"`
	Used   Quantity `json:"used"`
	Alone  bool     `json:"alone,omitempty"` // the site has lent it to itself
}

// Bounds of a site's account.
const (
	mostOwed    = 1000             // loans; the site spends nothing without its centre then
	askPatience = 5 * time.Second  // of a question to the centre
	deafFor     = 5 * time.Second  // without further questions, after one that was not answered
	idleAfter   = 30 * time.Second // without queries; then the rest of a loan is given back
	heldRetry   = time.Second      // after which a site asks again for what others hold
)

// roundingError is that of costs.
const roundingError = 1e-9

// A borrower has the budgets of a centre hold for this bridge. The questions to the centre are
// asked one after the other.
type borrower struct {
	Centre
	now func() time.Time

	asking chan struct{} // holds a token while the account is changed by questions

	mu       sync.Mutex
	account  Account
	running  int           // queries
	reserved Quantity      // by them
	used     time.Time     // time of the last query
	deaf     time.Time     // time until which the centre is not asked
	tried    int64         // number of a loan that was asked for, without an answer yet; 0 for none
	dirty    bool          // the account is not stored
	untold   bool          // there was spending since the centre was told
	settled  chan struct{} // closed when a query ends
}

func newBorrower(c Centre, now func() time.Time) *borrower {
	return &borrower{Centre: c, now: now, asking: make(chan struct{}, 1), settled: make(chan struct{})}
}

// A borrowed is the part of a loan that a query may spend.
type borrowed struct {
	b      *borrower
	part   Quantity
	answer int64 // tokens that the answer may have, 0 if nothing bounds it
}

// most is the bound, boundless for what it does not bound.
func (b Bound) most() Quantity {
	q := boundless
	if b.Tokens != nil {
		q.Tokens = *b.Tokens
	}
	if b.Cost != nil {
		q.Cost = *b.Cost
	}
	if b.Requests != nil {
		q.Requests = *b.Requests
	}
	return q
}

// load reads the account. What an earlier process that was killed had borrowed counts as spent.
func (b *borrower) load() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Accounts == nil {
		return
	}
	stored, _, ok := b.Accounts.Get(b.Account)
	if !ok {
		return
	}
	b.account = *stored.clone()
	if o := b.account.Open; o != nil {
		o.Used = o.claim()
		b.close()
	}
}

// claim is what may have been spent of a loan whose use is unknown.
func (d *Debt) claim() Quantity {
	claim, held := d.Used, d.Held
	if held.Tokens != nil {
		claim.Tokens = max(claim.Tokens, *held.Tokens)
	}
	if held.Cost != nil {
		claim.Cost = max(claim.Cost, *held.Cost)
	}
	if held.Requests != nil {
		claim.Requests = max(claim.Requests, *held.Requests)
	}
	return claim
}

// clone returns a copy whose debts can be changed.
func (a *Account) clone() *Account {
	c := *a
	c.Owed = slices.Clone(a.Owed)
	if a.Open != nil {
		open := *a.Open
		c.Open = &open
	}
	return &c
}

// reserve reserves a query's demand of a loan, which it extends or makes anew if needed. While
// others hold the rest of the centre's budgets, it waits.
//
// The errors: 4014 if a budget of the centre is spent, or the one for the time without it;
// 4010 if the centre cannot be asked, and nothing may be spent without it, or if it refuses the
// site.
func (b *borrower) reserve(ctx context.Context, d demand, requests int64) (*borrowed, error) {
	for {
		if r := b.take(d, requests, leastAnswer); r != nil {
			return r, nil
		}
		b.mu.Lock()
		settled := b.settled
		b.mu.Unlock()
		r, err := b.extend(ctx, d, requests)
		if err == nil || protocol.CodeOf(err) != protocol.Busy {
			return r, err
		}
		again := time.NewTimer(heldRetry)
		select {
		case <-settled:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		}
		again.Stop()
	}
}

// take reserves a demand of the open loan, nil if that does not cover it with an answer of at
// least so many tokens.
func (b *borrower) take(d demand, requests, least int64) *borrowed {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.account.Open
	if o == nil || b.now().UnixMilli() >= o.Ends {
		return nil
	}
	free := o.Held.most().minus(o.Used).minus(b.reserved)
	r := &borrowed{b: b}
	if priced := o.Held.Cost != nil && d.price.Output > 0; d.open && (priced || o.Held.Tokens != nil) {
		r.answer = min(mostAnswer, free.Tokens-d.tokens)
		if priced {
			r.answer = min(r.answer, d.answerFor(free.Cost+roundingError))
		}
		if r.answer < least {
			return nil
		}
	}
	r.part = Quantity{Tokens: d.tokens + r.answer, Cost: d.cost(r.answer), Requests: requests}
	if left := free.minus(r.part); left.Tokens < 0 || left.Requests < 0 || left.Cost < -roundingError {
		return nil
	}
	b.running++
	b.reserved = b.reserved.plus(r.part)
	b.used = b.now()
	return r
}

// settle books the use of a query.
func (r *borrowed) settle(used chat.Usage, cost float64) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if b.reserved = b.reserved.minus(r.part); b.running == 0 {
		b.reserved = Quantity{} // drop rounding errors
	}
	spent := Quantity{Tokens: int64(used.Total()), Cost: cost, Requests: r.part.Requests}
	if b.account.Open != nil {
		b.account.Open.Used = b.account.Open.Used.plus(spent)
	} else { // the loan has ended meanwhile
		b.account.Late = b.account.Late.plus(spent)
	}
	b.used, b.dirty, b.untold = b.now(), true, true
	close(b.settled)
	b.settled = make(chan struct{})
}

// number is the number of another loan. The caller holds the mutex.
func (b *borrower) number() int64 {
	b.account.Number = max(b.account.Number+1, b.now().UnixMilli())
	return b.account.Number
}

// another is the number of another loan, which is one that was asked for without an answer: the
// centre may have lent it. The caller holds the mutex.
func (b *borrower) another() int64 {
	number := b.tried
	if number == 0 {
		number = b.number()
	}
	b.tried = 0
	return number
}

// close ends the open loan. The caller holds the mutex.
func (b *borrower) close() {
	o := b.account.Open
	if o == nil {
		return
	}
	b.account.Open, b.dirty = nil, true
	if o.Alone && o.Since >= b.account.Alone.From.UnixMilli() {
		b.account.Alone.Quantity = b.account.Alone.plus(o.Used)
	}
	if !o.Alone || !o.Used.none() {
		b.account.Owed = append(b.account.Owed, *o)
	}
}

// extend extends the open loan for a demand, or makes another one: at the centre, or without it.
func (b *borrower) extend(ctx context.Context, d demand, requests int64) (*borrowed, error) {
	select {
	case b.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.asking }()
	if r := b.take(d, requests, leastAnswer); r != nil { // another query has extended it
		return r, nil
	}
	need := Quantity{Tokens: d.tokens, Cost: d.leastCost(), Requests: requests}
	wish := Quantity{Tokens: d.tokens, Cost: d.cost(0), Requests: requests}
	if d.open {
		need.Tokens++
		wish.Tokens, wish.Cost = d.tokens+leastAnswer, d.cost(leastAnswer) // a twentieth of most budgets is more
	}
	err := b.borrow(ctx, need, wish)
	if r := b.take(d, requests, 1); r != nil {
		return r, nil
	}
	if errors.Is(err, ErrUnreachable) {
		err = b.goAlone(ctx, need, wish)
	}
	if err != nil {
		return nil, err
	}
	if r := b.take(d, requests, 1); r != nil {
		return r, nil
	}
	return nil, protocol.BusyFor(heldRetry, "others hold what is left of a budget")
}

// borrow has the centre extend the open loan, or make another one.
func (b *borrower) borrow(ctx context.Context, need, wish Quantity) error {
	for try := 0; ; try++ {
		if err := b.repay(ctx); err != nil {
			return err
		}
		if err := b.repayAlone(ctx); err != nil {
			return err
		}
		asked := b.now()
		d := b.demand(need, wish)
		loan, err := b.ask(ctx, d)
		switch {
		case protocol.CodeOf(err) == protocol.InvalidState && try == 0:
			b.overtaken(err)
			continue
		case err != nil:
			return err
		}
		b.hold(d.Number, loan, asked)
		if loan.Short {
			return protocol.BusyFor(heldRetry, "others hold what is left of a budget of the centre")
		}
		b.store(ctx) //nolint:errcheck // it is tried again; what the centre lends counts as spent there
		return nil
	}
}

// demand is what the centre is asked for.
func (b *borrower) demand(need, wish Quantity) Demand {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Demand{Account: b.Account, Busy: b.reserved, Need: need, Wish: wish}
	if o := b.account.Open; o != nil {
		d.Number, d.Since, d.Used = o.Number, o.Since, o.Used
	} else {
		if b.tried == 0 {
			b.tried = b.number()
		}
		d.Number = b.tried
	}
	b.untold = false
	return d
}

// hold notes what the centre has lent.
func (b *borrower) hold(number int64, loan Loan, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.account.Open == nil {
		b.account.Open = &Debt{Number: number, Since: loan.Since, Used: b.account.Late}
		b.account.Late, b.tried = Quantity{}, 0
	}
	o := b.account.Open
	o.Held, o.Ends = loan.Held, asked.Add(loan.Life).UnixMilli()
	b.dirty = true
}

// overtaken ends the open loan after the centre has: its hour is over, or the centre knows of a
// later loan, as this bridge has an older state.
func (b *borrower) overtaken(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
	b.tried = 0
	switch number := protocol.AsError(err).Details["number"].(type) {
	case int64:
		b.account.Number = max(b.account.Number, number)
	case float64: // from JSON
		b.account.Number = max(b.account.Number, int64(number))
	}
}

// ask asks the centre. What it says about its budgets is said of the centre.
func (b *borrower) ask(ctx context.Context, d Demand) (Loan, error) {
	b.mu.Lock()
	deaf := b.now().Before(b.deaf)
	b.mu.Unlock()
	if deaf {
		return Loan{}, ErrUnreachable
	}
	within, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	loan, err := b.Lend(within, d.tellable())
	switch {
	case err == nil:
		return loan, nil
	case ctx.Err() != nil:
		return Loan{}, context.Cause(ctx)
	case within.Err() != nil:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deaf = b.now().Add(deafFor)
		return Loan{}, ErrUnreachable
	case protocol.CodeOf(err) == protocol.BudgetSpent:
		failed := *protocol.AsError(err)
		failed.Message = "at the centre " + failed.Message
		return Loan{}, failed.With("reason", "centre")
	case errors.Is(err, ErrUnreachable) || protocol.CodeOf(err) == protocol.InvalidState:
		return Loan{}, err
	}
	return Loan{}, protocol.Wrap(protocol.LLMUnavailable, err, "the centre that this bridge is a site of does not let it spend anything: bridge.status says why").With("reason", "centre_refuses")
}

// mostTold is the most that a centre takes of each amount, see [Quantity].
var mostTold = Quantity{Tokens: 1e12, Cost: 1e9, Requests: 1e12}

// tellable is a demand that a centre takes: one that it refused for an amount would be refused
// for good, and every further one of the account. Rounding may leave a cost below zero.
func (d Demand) tellable() Demand {
	for _, q := range []*Quantity{&d.Used, &d.Busy, &d.Need, &d.Wish} {
		*q = q.atLeast(Quantity{}).atMost(mostTold)
	}
	return d
}
