package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Budget bounds what is spent in a window of time by each principal or each
// space. Zero limits bound nothing.
type Budget struct {
	Per      string  `yaml:"per"`    // principal or space
	Of       string  `yaml:"of"`     // only this one: alice, lab/alice, lab/agent/alice, or the name of a space; all by default
	Window   string  `yaml:"window"` // hour, day or month, in UTC
	Tokens   int64   `yaml:"tokens"`
	Cost     float64 `yaml:"cost"`
	Requests int64   `yaml:"requests"`
}

func (b *Budget) check() error {
	switch b.Per {
	case "principal", "space":
	default:
		return fmt.Errorf("per: %q is neither principal nor space", b.Per)
	}
	switch b.Window {
	case "hour", "day", "month":
	default:
		return fmt.Errorf("window: %q is none of hour, day and month", b.Window)
	}
	if b.Tokens < 0 || b.Cost < 0 || b.Requests < 0 {
		return errors.New("limits must not be negative")
	}
	return nil
}

// window is when the running window began and when it ends.
func (b *Budget) window(now time.Time) (from, to time.Time) {
	now = now.UTC()
	switch b.Window {
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

// Spent is what was spent in one window. It is stored, so that a restart
// gives nobody a new budget.
type Spent struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Tokens   int64     `json:"tokens"`
	Cost     float64   `json:"cost"`
	Requests int64     `json:"requests"`
}

// SpentTable is where spending is kept, by budget.
type SpentTable interface {
	All() iter.Seq2[string, *Spent]
	Put(ctx context.Context, key string, value *Spent) (revision uint64, err error)
	Delete(ctx context.Context, key string, expect uint64) error
}

// purse is the spending of one budget's owner in the running window.
type purse struct {
	Spent
	reserved int64 // tokens of queries that run
	dirty    bool
}

// A treasury keeps everybody to their budgets.
type treasury struct {
	table SpentTable
	now   func() time.Time

	mu      sync.Mutex
	budgets []Budget
	purses  map[string]*purse
}

func newTreasury(table SpentTable, now func() time.Time) *treasury {
	return &treasury{table: table, now: now, purses: make(map[string]*purse)}
}

// load takes over what was stored.
func (t *treasury) load() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, spent := range t.table.All() {
		t.purses[key] = &purse{Spent: *spent}
	}
}

func (t *treasury) configure(budgets []Budget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.budgets = budgets
}

// A reservation holds what a query may spend until it is known what it has.
type reservation struct {
	t      *treasury
	purses []*purse
	tokens int64
}

// reserve takes tokens out of all budgets that a principal is under, or says
// which of them is spent (4014).
func (t *treasury) reserve(who *protocol.Principal, tokens int64) (*reservation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &reservation{t: t, tokens: tokens}
	now := t.now()
	for _, b := range t.budgets {
		owner, bound := b.bounds(who)
		if !bound {
			continue
		}
		p := t.purse(b, owner, now)
		if what := b.exceeded(p, tokens); what != "" {
			return nil, protocol.Errorf(protocol.BudgetSpent, "the budget of the %s is spent: %s of the %s", b.Per, what, b.Window).
				With("limit", what).With("retry_after_ms", p.To.Sub(now).Milliseconds())
		}
		if !slices.Contains(r.purses, p) { // two budgets may bound the same spending
			r.purses = append(r.purses, p)
		}
	}
	for _, p := range r.purses {
		p.reserved += tokens
		p.Requests++
		p.dirty = true
	}
	return r, nil
}

// bounds tells whether a principal is under the budget, and who of those that
// are spends it.
func (b *Budget) bounds(who *protocol.Principal) (owner string, ok bool) {
	if b.Per == "space" {
		owner = string(who.Home())
		return owner, b.Of == "" || b.Of == owner
	}
	var of protocol.Party
	if b.Of != "" && (of.UnmarshalText([]byte(b.Of)) != nil || !of.Is(who)) {
		return "", false
	}
	return who.Party().String(), true
}

func (b *Budget) exceeded(p *purse, tokens int64) string {
	switch {
	case b.Requests > 0 && p.Requests >= b.Requests:
		return "requests"
	case b.Tokens > 0 && p.Tokens+p.reserved+tokens > b.Tokens:
		return "tokens"
	case b.Cost > 0 && p.Cost >= b.Cost:
		return "cost"
	}
	return ""
}

// purse returns that of a budget's owner, emptied if its window is over.
func (t *treasury) purse(b Budget, owner string, now time.Time) *purse {
	from, to := b.window(now)
	key := b.Per + "/" + owner + "/" + b.Window
	p := t.purses[key]
	if p == nil {
		p = &purse{}
		t.purses[key] = p
	}
	if !p.From.Equal(from) {
		p.Spent = Spent{From: from, To: to}
	}
	return p
}

// uncounted has the reservation be no request of its own, but part of one.
func (r *reservation) uncounted() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for _, p := range r.purses {
		p.Requests--
	}
}

// settle books what a query has used, which is nothing if its provider failed.
func (r *reservation) settle(used chat.Usage, cost float64) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for _, p := range r.purses {
		p.reserved -= r.tokens
		p.Tokens += int64(used.Total())
		p.Cost += cost
		p.dirty = true
	}
}

// store writes what has changed since it was called last, and forgets
// windows that are over.
func (t *treasury) store(ctx context.Context) error {
	t.mu.Lock()
	changed := make(map[string]Spent)
	var over []string
	now := t.now()
	for key, p := range t.purses {
		switch {
		case p.To.Before(now) && p.reserved == 0:
			delete(t.purses, key)
			over = append(over, key)
		case p.dirty:
			p.dirty = false
			changed[key] = p.Spent
		}
	}
	t.mu.Unlock()
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

// again has a purse stored next time that could not be now.
func (t *treasury) again(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.purses[key]; p != nil {
		p.dirty = true
	}
}

// cost is what tokens cost at a price.
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
