package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// repay tells the centre of the loans that are over.
func (b *borrower) repay(ctx context.Context) error {
	for {
		b.mu.Lock()
		if len(b.account.Owed) == 0 {
			b.mu.Unlock()
			return nil
		}
		o := b.account.Owed[0]
		b.mu.Unlock()
		if _, err := b.ask(ctx, o.over(b.Account)); err != nil {
			return err
		}
		b.mu.Lock()
		b.account.Owed = slices.Delete(b.account.Owed, 0, 1)
		b.dirty = true
		b.mu.Unlock()
	}
}

// repayAlone tells the centre of the open loan, if this bridge has lent it to itself, and ends it.
func (b *borrower) repayAlone(ctx context.Context) error {
	b.mu.Lock()
	o := b.account.Open
	if o == nil || !o.Alone {
		b.mu.Unlock()
		return nil
	}
	told := *o
	b.mu.Unlock()
	if !told.Used.none() {
		if _, err := b.ask(ctx, told.over(b.Account)); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.Late = b.account.Late.plus(o.Used.minus(told.Used))
	o.Used = told.Used
	b.close()
	b.account.Owed = slices.DeleteFunc(b.account.Owed, func(d Debt) bool { return d.Number == told.Number })
	return nil
}

// over is what the centre is told of a loan that is over.
func (d *Debt) over(account string) Demand {
	return Demand{Account: account, Number: d.Number, Since: d.Since, Used: d.Used, Done: true}
}

// goAlone lends this bridge a part of its budget for the time without the centre. It is stored
// before it is spent.
func (b *borrower) goAlone(ctx context.Context, need, wish Quantity) error {
	if b.Alone.Tokens == 0 && b.Alone.Cost == 0 && b.Alone.Requests == 0 {
		return protocol.Errorf(protocol.LLMUnavailable, "the centre that this bridge is a site of cannot be asked for its budget at the moment, and nothing may be spent without it").
			With("reason", "centre_unreachable")
	}
	ends, err := b.lendAlone(need, wish)
	if err != nil {
		return err
	}
	if err := b.store(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.Open.Ends = ends
	return nil
}

// lendAlone opens a loan of this bridge to itself that nothing is spent of yet, and returns when
// it ends.
func (b *borrower) lendAlone(need, wish Quantity) (ends int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	hour := now.UTC().Truncate(time.Hour)
	if o := b.account.Open; o != nil && (!o.Alone || o.Since < hour.UnixMilli()) {
		b.close()
	}
	if len(b.account.Owed) >= mostOwed {
		return 0, protocol.Errorf(protocol.LimitReached, "the centre has not been told yet of %d hours in which this bridge has spent something without it, which is the limit", mostOwed).
			With("limit", mostOwed).With("reason", "centre_unreachable")
	}
	from, to := b.Alone.window(now)
	if !b.account.Alone.From.Equal(from) {
		b.account.Alone = Alone{From: from}
	}
	o := Debt{Since: now.UnixMilli(), Used: b.account.Late, Alone: true}
	if b.account.Open != nil {
		o = *b.account.Open
	}
	limit := Quantity{Tokens: b.Alone.Tokens, Cost: b.Alone.Cost, Requests: b.Alone.Requests}
	spent := b.account.Alone.plus(o.Used)
	if what := b.Alone.exceeded(spent, need); what != "" {
		return 0, protocol.Errorf(protocol.BudgetSpent, "the centre that this bridge is a site of cannot be asked at the moment, and what may be spent without it is spent: %s of the %s", what, b.Alone.Window).
			With("limit", what).With("reason", "centre_unreachable").With("retry_after_ms", to.Sub(now).Milliseconds())
	}
	more, enough := chunks(limit, limit.minus(spent).minus(b.reserved), need, wish, false)
	if !enough {
		return 0, protocol.BusyFor(heldRetry, "queries under way hold what may be spent without the centre")
	}
	if o.Number == 0 {
		o.Number, b.account.Late = b.another(), Quantity{}
	}
	o.Held = Bound{}.within(limit, o.Used.plus(b.reserved).plus(more))
	o.Ends = 0
	b.account.Open, b.dirty = &o, true
	return min(now.Add(leaseLife).UnixMilli(), hour.Add(time.Hour).UnixMilli()), nil
}

// store stores the account if it has changed.
func (b *borrower) store(ctx context.Context) error {
	b.mu.Lock()
	if !b.dirty || b.Accounts == nil {
		b.mu.Unlock()
		return nil
	}
	b.dirty = false
	now := b.account.clone()
	b.mu.Unlock()
	if _, err := b.Accounts.Put(ctx, b.Account, now); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dirty = true
		return protocol.Wrap(protocol.StoreUnavailable, err, "what this bridge spends cannot be stored at the moment")
	}
	return nil
}

// tell stores the account, tells the centre what was spent, and gives back what is not needed:
// all of it if the bridge is leaving.
func (b *borrower) tell(ctx context.Context, leaving bool) error {
	select {
	case b.asking <- struct{}{}:
	default: // a query asks the centre, which tells it
		if !leaving {
			return nil
		}
		select {
		case b.asking <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-b.asking }()
	b.mu.Lock()
	o := b.account.Open
	if o != nil && b.running == 0 && (leaving || b.now().UnixMilli() >= o.Ends || b.now().Sub(b.used) >= idleAfter) {
		b.close()
		o = nil
	}
	if late := b.account.Late; o == nil && b.running == 0 && (b.tried != 0 || !late.none()) {
		b.account.Owed = append(b.account.Owed, Debt{Number: b.another(), Since: b.now().UnixMilli(), Used: late})
		b.account.Late, b.dirty = Quantity{}, true
	}
	report := o != nil && !o.Alone && b.untold
	b.mu.Unlock()
	err := b.repay(ctx)
	if err == nil {
		err = b.repayAlone(ctx)
	}
	if err == nil && report {
		err = b.report(ctx)
	}
	if errors.Is(err, ErrUnreachable) {
		err = nil
	}
	return errors.Join(err, b.store(ctx))
}

// report tells the centre what was spent of the open loan.
func (b *borrower) report(ctx context.Context) error {
	asked := b.now()
	d := b.demand(Quantity{}, Quantity{})
	loan, err := b.ask(ctx, d)
	switch {
	case err == nil:
		b.hold(d.Number, loan, asked)
	case protocol.CodeOf(err) == protocol.InvalidState: // another loan is made with the next query
	default:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.untold = true
		return err
	}
	return nil
}
