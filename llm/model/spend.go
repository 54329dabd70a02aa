package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Payment is the purpose and the payer of spent tokens.
type Payment struct {
	Day       string           `json:"day"` // in UTC, as 2026-11-22
	Principal protocol.Party   `json:"principal"`
	Model     string           `json:"model"`
	Provider  string           `json:"provider,omitempty"` // "" for an answer from the cache or a flight
	Skill     protocol.SkillID `json:"skill,omitempty"`
	Run       string           `json:"run,omitempty"`
}

// Amounts are requests, tokens and cost together.
type Amounts struct {
	Requests int64   `json:"requests" doc:"answers requested from a provider, including those that broke off"`
	Repeated int64   `json:"repeated" doc:"answers without a cost: from the cache, or shared with an identical query"`
	Input    int64   `json:"input_tokens" doc:"tokens of questions"`
	Cached   int64   `json:"cached_tokens" doc:"tokens of questions that providers read from their caches"`
	Output   int64   `json:"output_tokens" doc:"tokens of answers"`
	Tokens   int64   `json:"tokens" doc:"tokens of questions and answers"`
	Cost     float64 `json:"cost" doc:"in the currency of the configured prices"`
}

func (a *Amounts) add(b *Amounts) {
	a.Requests += b.Requests
	a.Repeated += b.Repeated
	a.Input += b.Input
	a.Cached += b.Cached
	a.Output += b.Output
	a.Tokens += b.Tokens
	a.Cost += b.Cost
}

func (a *Amounts) subtract(b *Amounts) {
	a.Requests -= b.Requests
	a.Repeated -= b.Repeated
	a.Input -= b.Input
	a.Cached -= b.Cached
	a.Output -= b.Output
	a.Tokens -= b.Tokens
	a.Cost -= b.Cost
}

// amountsOf returns the amounts of one request.
func amountsOf(u chat.Usage, cost float64) Amounts {
	return Amounts{
		Requests: 1, Input: int64(u.Input), Cached: int64(u.Cached), Output: int64(u.Output), Tokens: int64(u.Total()), Cost: cost,
	}
}

// A Spending is the record of the amounts of one payment's key in a day.
type Spending struct {
	Payment
	Amounts
	// Bridges are the amounts by the asking bridge of a cluster. Their sum lacks
	// amounts of records from versions without this field.
	Bridges map[string]Amounts `json:"bridges,omitempty"`
}

// add adds the amounts of a bridge, "" without a cluster.
func (s *Spending) add(a *Amounts, bridge string) {
	s.Amounts.add(a)
	if bridge != "" {
		s.ascribe(a, bridge)
	}
}

// merge adds another part of the same line.
func (s *Spending) merge(part *Spending) {
	s.Amounts.add(&part.Amounts)
	for bridge, a := range part.Bridges {
		s.ascribe(&a, bridge)
	}
}

// ascribe adds amounts of the sum to those of a bridge.
func (s *Spending) ascribe(a *Amounts, bridge string) {
	if _, known := s.Bridges[bridge]; !known && len(s.Bridges) >= bridgesPerLine {
		bridge = Others
	}
	if s.Bridges == nil {
		s.Bridges = make(map[string]Amounts)
	}
	sum := s.Bridges[bridge]
	sum.add(a)
	s.Bridges[bridge] = sum
}

// clone returns a deep copy.
func (s *Spending) clone() *Spending {
	c := *s
	c.Bridges = maps.Clone(s.Bridges)
	return &c
}

// Others is the name of further principals, runs or bridges, whose spending is added
// up.
const Others = "(others)"

// The bounds of the ledger. The lines of a space at its bound have less detail: first
// without runs, then by models and providers alone, whose number the configuration
// bounds.
const (
	spendingDays     = 92
	detailedPerDay   = 500    // lines of a space
	linesPerDay      = 1000   // the same, without runs
	linesPerSpace    = 20_000 // of all days
	detailedPerSpace = 10_000 // the same, so that runs leave room for principals
	unstoredPerSpace = 4096   // lines of all days
	bridgesPerLine   = 128    // further ones count as Others
)

// A ledger adds up spending. Several bridges may share its table: each adds its amounts
// since its last store.
type ledger struct {
	table  records.Table[Spending] // nil keeps lines in memory alone
	bridge string                  // id of this bridge in a cluster, "" without a cluster
	now    func() time.Time

	storing sync.RWMutex // held while a line moves to the table, so that no reader counts it twice

	mu       sync.Mutex
	since    map[string]*Spending     // not stored yet, by key
	going    map[string]*Spending     // being stored
	unstored map[protocol.SpaceID]int // lines in since
	days     map[spaceDay]int         // lines
	spaces   map[protocol.SpaceID]int
}

type spaceDay struct {
	space protocol.SpaceID
	day   string
}

func newLedger(table records.Table[Spending], bridge string, now func() time.Time) *ledger {
	return &ledger{
		table: table, bridge: bridge, now: now, since: make(map[string]*Spending), unstored: make(map[protocol.SpaceID]int),
		days: make(map[spaceDay]int), spaces: make(map[protocol.SpaceID]int),
	}
}

// load counts the stored lines of each space and day.
func (l *ledger) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table == nil {
		return
	}
	for _, s := range l.table.All() {
		l.count(&s.Payment, 1)
	}
}

// key is the key of a payment's line. It is bounded, since names of models are hardly.
func (p *Payment) key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.Principal.String(), p.Model, p.Provider, string(p.Skill), p.Run}, "\x00")))
	return p.Day + "/" + hex.EncodeToString(sum[:16])
}

// book adds the amounts of a request to its line.
func (l *ledger) book(p Payment, a Amounts) {
	p.Day = dayOf(l.now())
	p.Principal.Space = cmp.Or(p.Principal.Space, protocol.DefaultSpace)
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.place(&p)
	line := l.since[key]
	if line == nil {
		line = &Spending{Payment: p}
		l.since[key] = line
		l.unstored[p.Principal.Space]++
	}
	line.add(&a, l.bridge)
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// place finds the line of a payment. A new line beyond a bound loses its principal,
// skill and run, or its run alone.
func (l *ledger) place(p *Payment) (key string) {
	day := spaceDay{p.Principal.Space, p.Day}
	for {
		key = p.key()
		if l.known(key) {
			return key
		}
		full := l.spaces[day.space] >= linesPerSpace || l.days[day] >= linesPerDay || l.unstored[day.space] >= unstoredPerSpace
		switch {
		case full && p.Principal.ID != Others:
			p.Principal, p.Skill, p.Run = protocol.Party{Kind: protocol.KindBridge, Space: day.space, ID: Others}, "", ""
		case !full && !l.detailed(day) && p.Run != "" && p.Run != Others:
			p.Run = Others
		default:
			l.count(p, 1)
			return key
		}
	}
}

// detailed reports whether a space has room for one more line with a run.
func (l *ledger) detailed(day spaceDay) bool {
	return l.days[day] < detailedPerDay && l.spaces[day.space] < detailedPerSpace
}

// known reports whether there is a line of a key.
func (l *ledger) known(key string) bool {
	if l.since[key] != nil || l.going[key] != nil {
		return true
	}
	if l.table == nil {
		return false
	}
	_, _, ok := l.table.Get(key)
	return ok
}

func (l *ledger) count(p *Payment, n int) {
	day := spaceDay{p.Principal.Space, p.Day}
	if l.days[day] += n; l.days[day] <= 0 {
		delete(l.days, day)
	}
	if l.spaces[day.space] += n; l.spaces[day.space] <= 0 {
		delete(l.spaces, day.space)
	}
}

// all returns all lines, stored or not. A line may come in two parts.
func (l *ledger) all() []*Spending {
	l.storing.RLock()
	defer l.storing.RUnlock()
	l.mu.Lock()
	lines := make([]*Spending, 0, len(l.since)+len(l.going))
	for _, part := range []map[string]*Spending{l.since, l.going} {
		for _, s := range part {
			lines = append(lines, s.clone())
		}
	}
	l.mu.Unlock()
	if l.table != nil {
		for _, s := range l.table.All() {
			lines = append(lines, s)
		}
	}
	return lines
}

// store writes the spending since its last call, and deletes days before the oldest
// one.
func (l *ledger) store(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	l.mu.Lock()
	since := l.since
	l.since, l.going = make(map[string]*Spending), maps.Clone(since)
	clear(l.unstored)
	l.mu.Unlock()
	var errs []error
	for key, s := range since {
		errs = append(errs, l.storeLine(ctx, key, s))
	}
	return errors.Join(append(errs, l.forget(ctx))...)
}

// storeLine stores a line, or keeps it for the next time.
func (l *ledger) storeLine(ctx context.Context, key string, s *Spending) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	err := l.add(ctx, key, s)
	l.gone(key, s, err == nil)
	return err
}

// add adds to a stored line.
func (l *ledger) add(ctx context.Context, key string, s *Spending) error {
	_, _, err := records.Change(ctx, l.table, key, func(old *Spending, _ uint64) (*Spending, error) {
		sum := s.clone()
		if old != nil {
			sum.merge(old)
		}
		return sum, nil
	})
	return err
}

// gone removes a stored line, or keeps it for the next time.
func (l *ledger) gone(key string, s *Spending, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.going, key)
	if stored {
		return
	}
	if now := l.since[key]; now != nil {
		now.merge(s)
		return
	}
	l.since[key] = s
	l.unstored[s.Principal.Space]++
}

// oldest is the first kept day.
func (l *ledger) oldest() string { return dayOf(l.now().AddDate(0, 0, 1-spendingDays)) }

func (l *ledger) forget(ctx context.Context) error {
	oldest := l.oldest()
	l.mu.Lock()
	past := false
	for day := range maps.Keys(l.days) {
		past = past || day.day < oldest
	}
	l.mu.Unlock()
	if !past {
		return nil
	}
	var errs []error
	for key, s := range l.table.All() {
		if s.Day >= oldest {
			continue
		}
		if err := l.table.Delete(ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			errs = append(errs, err)
			continue
		}
		l.mu.Lock()
		l.count(&s.Payment, -1)
		l.mu.Unlock()
	}
	return errors.Join(errs...)
}
