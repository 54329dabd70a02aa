package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

// A bridge of a test is one of several that spend together.
type bridge struct {
	self string
	dead *sync.Map // bridges that have ended
}

func (b bridge) Self() string                   { return b.self }
func (b bridge) Catchup(context.Context) error  { return nil }
func (b bridge) Alive(process string) (is bool) { _, dead := b.dead.Load(process); return !dead }

// A line is a bridge's way to the table: it loses words, or is cut.
type line struct {
	*recordstest.Memory[Spent]
	cut       bool // nothing is stored
	unheardOf bool // the next write is stored, and not confirmed
}

var errLine = protocol.Errorf(protocol.StoreUnavailable, "the store is away")

func (l *line) through(write func() (uint64, error)) (uint64, error) {
	if l.cut {
		return 0, errLine
	}
	revision, err := write()
	if l.unheardOf && err == nil {
		l.unheardOf = false
		return 0, errLine
	}
	return revision, err
}

func (l *line) Create(ctx context.Context, key string, v *Spent) (uint64, error) {
	return l.through(func() (uint64, error) { return l.Memory.Create(ctx, key, v) })
}

func (l *line) Update(ctx context.Context, key string, v *Spent, expect uint64) (uint64, error) {
	return l.through(func() (uint64, error) { return l.Memory.Update(ctx, key, v, expect) })
}

// A spender is a bridge with its queries.
type spender struct {
	*treasury
	line    *line
	running []query
}

type query struct {
	*reservation
	cost float64
}

// A world of bridges that spend one budget, whatever happens to them.
type world struct {
	budget Budget
	table  *recordstest.Memory[Spent]
	dead   sync.Map
	now    time.Time
	living map[string]*spender
	gone   []*spender // that were declared dead, and do not know it
	made   int
	truth  Quantity // spent in the window, including queries of crashed bridges that may have been made
	most   float64  // cost of a query
}

func (w *world) join() {
	w.made++
	name := fmt.Sprint("bridge/", w.made)
	s := &spender{line: &line{Memory: w.table}}
	s.treasury = newTreasury(s.line, func() time.Time { return w.now })
	s.share(bridge{name, &w.dead})
	s.configure([]Budget{w.budget})
	w.living[name] = s
}

// try begins a query, unless it is refused or has to wait.
func (w *world) try(t *rapid.T, s *spender) {
	d := demand{input: rapid.Int64Range(0, 40).Draw(t, "input"), price: Price{Input: 1e6, Output: 1e6}}
	d.tokens = d.input
	if d.open = rapid.Bool().Draw(t, "open"); !d.open {
		d.tokens += rapid.Int64Range(0, 60).Draw(t, "answer")
	}
	for range 8 {
		r, lacking, _, err := s.attempt(alice, d)
		if r != nil {
			s.running = append(s.running, query{r, r.cost})
			w.most = max(w.most, r.cost)
			return
		}
		if err != nil || len(lacking) == 0 {
			return
		}
		if enough, err := s.extend(t.Context(), lacking); !enough || err != nil {
			return
		}
	}
	t.Fatal("a query is neither begun nor refused, nor has it to wait")
}

// end ends a query, which has used no more than it reserved.
func (w *world) end(t *rapid.T, s *spender) {
	i := rapid.IntRange(0, len(s.running)-1).Draw(t, "query")
	q := s.running[i]
	s.running = slices.Delete(s.running, i, i+1)
	used := rapid.Int64Range(0, q.tokens).Draw(t, "used")
	cost := q.cost * rapid.Float64Range(0, 1).Draw(t, "cost")
	w.truth = w.truth.plus(Quantity{used, cost, 1})
	s.settleIn(q, chat.Usage{Output: int(used)}, cost)
}

func (s *spender) settleIn(q query, used chat.Usage, cost float64) { q.settle(used, cost) }

// crash has a bridge end with its queries, whose use stays unknown.
func (w *world) crash(name string) {
	s := w.living[name]
	delete(w.living, name)
	w.dead.Store(name, true)
	w.lose(s)
}

func (w *world) lose(s *spender) {
	for _, q := range s.running {
		w.truth = w.truth.plus(Quantity{q.tokens, q.cost, 1})
	}
	s.running = nil
}

// check holds all that may have been spent against the budget.
func (w *world) check(t *rapid.T) {
	all := w.truth
	for _, s := range append(slices.Collect(maps.Values(w.living)), w.gone...) {
		for _, q := range s.running {
			all = all.plus(Quantity{q.tokens, q.cost, 1})
		}
	}
	if b := &w.budget; b.Tokens > 0 && all.Tokens > b.Tokens || b.Requests > 0 && all.Requests > b.Requests || b.Cost > 0 && all.Cost > b.Cost+w.most+1e-6 {
		t.Fatalf("%+v is or may be spent of %+v, %+v", all, w.budget, w.table)
	}
}

// TestBridgesSpendNoMoreThanTheBudget has bridges come and go, crash, be paused and
// declared dead while they go on, and lose words to and from the store.
func TestBridgesSpendNoMoreThanTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{table: recordstest.New[Spent](), now: time.Date(2030, 5, 4, 12, 0, 0, 0, time.UTC), living: make(map[string]*spender), budget: Budget{Per: "space", Window: "day"}}
		w.budget.Tokens = rapid.SampledFrom([]int64{0, 200, 30_000}).Draw(t, "tokens")
		w.budget.Requests = rapid.SampledFrom([]int64{0, 7, 50}).Draw(t, "requests")
		w.budget.Cost = rapid.SampledFrom([]float64{0, 150, 20_000}).Draw(t, "money")
		for range 3 {
			w.join()
		}
		name := func() string { return rapid.SampledFrom(slices.Sorted(maps.Keys(w.living))).Draw(t, "bridge") }
		any := func() *spender { return w.living[name()] }
		t.Repeat(map[string]func(*rapid.T){
			"":     w.check,
			"try":  func(t *rapid.T) { w.try(t, any()) },
			"try2": func(t *rapid.T) { w.try(t, any()) },
			"end": func(t *rapid.T) {
				if s := any(); len(s.running) > 0 {
					w.end(t, s)
				}
			},
			"tell": func(t *rapid.T) { _ = any().store(t.Context()) },
			"lose": func(*rapid.T) { any().line.unheardOf = true },
			"cut":  func(*rapid.T) { s := any(); s.line.cut = !s.line.cut },
			"crash": func(*rapid.T) {
				w.crash(name())
				w.join()
			},
			"pause": func(*rapid.T) { // it is declared dead, and goes on as long as it has something
				n := name()
				w.dead.Store(n, true)
				w.living[n].line.cut = true
				w.gone = append(w.gone, w.living[n])
				delete(w.living, n)
				w.join()
			},
			"zombie": func(t *rapid.T) {
				if len(w.gone) > 0 {
					w.try(t, w.gone[len(w.gone)-1])
				}
			},
			"leave": func(t *rapid.T) {
				n := name()
				for s := w.living[n]; len(s.running) > 0; {
					w.end(t, s)
				}
				if w.living[n].leave(t.Context()) == nil {
					w.crash(n)
					w.join()
				}
			},
			"tomorrow": func(*rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "day") > 0 {
					return
				}
				for _, s := range append(slices.Collect(maps.Values(w.living)), w.gone...) {
					w.lose(s)
				}
				w.gone, w.now, w.truth, w.most = nil, w.now.AddDate(0, 0, 1), Quantity{}, 0
				for n := range w.living {
					w.dead.Store(n, true)
					delete(w.living, n)
				}
				w.join()
				w.join()
			},
		})
		w.settle(t)
	})
}

// settle has everything come to an end. No process may then hold a part of the
// budget for ever.
func (w *world) settle(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(w.living)) {
		s := w.living[name]
		s.line.cut, s.line.unheardOf = false, false
		for len(s.running) > 0 {
			w.end(t, s)
		}
	}
	for range 3 {
		for _, name := range slices.Sorted(maps.Keys(w.living)) {
			if err := w.living[name].store(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.check(t)
	for key, record := range w.table.All() {
		for owner, share := range record.Shares {
			switch {
			case w.living[owner] == nil && w.knows(key):
				t.Fatalf("%s, which has ended, has a share: %+v", owner, record)
			case w.living[owner] != nil && !share.Held.minus(share.Used).none():
				t.Fatalf("%s holds what it does not need: %+v", owner, record)
			}
		}
	}
}

// knows reports whether a living bridge has a purse of the record.
func (w *world) knows(key string) bool {
	for _, s := range w.living {
		if s.purses[key] != nil {
			return true
		}
	}
	return false
}

// together makes services that spend the same budgets, each running.
func together(t *testing.T, c Config, n int) (houses []*house, dead *sync.Map, alerts func() []string) {
	t.Helper()
	spent, dead := recordstest.New[Spent](), new(sync.Map)
	var mu sync.Mutex
	var told []string
	for i := range n {
		h := newHouse(t, c, func(o *Options) {
			o.Spent, o.Bridges = spent, bridge{fmt.Sprint("b/", i), dead}
			o.Alert = func(a BudgetAlert) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprintf("%s %d", a.Owner, a.Percent))
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = h.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		houses = append(houses, h)
	}
	return houses, dead, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(told) }
}

// However many ask at three bridges at the same moment, the budget is spent once, and
// to its end.
func TestThreeBridgesSpendABudgetOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget Budget
		most   int
	}{
		"tokens":   {Budget{Per: "principal", Window: "day", Tokens: 195}, 13}, // 15 each
		"cost":     {Budget{Per: "principal", Window: "day", Cost: 6}, 3},      // 2 each
		"requests": {Budget{Per: "principal", Window: "day", Requests: 11}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			config := at(wiretest.New(t, said("ok")))
			config.Budgets = []Budget{c.budget}
			houses, _, _ := together(t, config, 3)
			var mu sync.Mutex
			ends := make(map[protocol.Code]int)
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					_, err := houses[i%3].ask(t, `{"query":"a"}`)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						ends[""]++
					} else {
						ends[err.Code]++
					}
				})
			}
			all.Wait()
			if ends[""] != c.most || ends[protocol.BudgetSpent] != 60-c.most {
				t.Errorf("they ended with %v, %d are to be answered", ends, c.most)
			}
		})
	}
}

func TestABudgetOfSeveralBridgesIsTold(t *testing.T) {
	config := at(wiretest.New(t, said("ok")))
	config.Budgets = []Budget{{Per: "principal", Window: "day", Requests: 4}}
	houses, dead, alerts := together(t, config, 2)
	a, b := houses[0], houses[1]
	for _, h := range []*house{a, b} {
		if _, err := h.ask(t, `{"query":"a"}`); err != nil {
			t.Fatal(err)
		}
	}
	tell := func(h *house) {
		t.Helper()
		if err := h.budgets.tell(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	// tell passes over a purse that the service itself is just telling of.
	var got BudgetLimit
	eventually.Holds(t, "both bridges know what both have spent", func() bool {
		tell(a)
		tell(b)
		got = a.Budgets(alice)[0].Limits[0]
		return got == BudgetLimit{Of: "requests", Limit: 4, Spent: 2, Here: 1, Left: 2}
	}, &got)
	if told := alerts(); !slices.Equal(told, []string{"alice 50"}) {
		t.Errorf("told %q", told)
	}

	// The share of a dead bridge counts as spent.
	if _, err := b.ask(t, `{"query":"a"}`); err != nil {
		t.Fatal(err)
	}
	dead.Store("b/1", true)
	eventually.Holds(t, "the share of the dead bridge is ended", func() bool {
		tell(a)
		got = a.Budgets(alice)[0].Limits[0]
		return got.Spent == 3 && got.Here == 1
	}, &got)
	if _, err := a.ask(t, `{"query":"a"}`); err != nil {
		t.Error(err)
	}
	if _, err := a.ask(t, `{"query":"a"}`); err == nil || err.Code != protocol.BudgetSpent {
		t.Errorf("a fifth: %v", err)
	}
}

// Without the store a bridge spends its share, and refuses then.
func TestABridgeSpendsWhatItHoldsWhileTheStoreIsAway(t *testing.T) {
	l := &line{Memory: recordstest.New[Spent]()}
	tr := newTreasury(l, time.Now)
	tr.share(bridge{"a/1", new(sync.Map)})
	tr.configure([]Budget{{Per: "principal", Window: "day", Requests: 100}})
	ask := func() protocol.Code {
		r, err := tr.reserve(t.Context(), alice, demand{tokens: 1})
		if r != nil {
			r.settle(chat.Usage{Output: 1}, 0)
		}
		return protocol.CodeOf(err)
	}
	if code := ask(); code != "" {
		t.Fatal(code)
	}
	l.cut = true
	for i := range 4 { // it took a twentieth
		if code := ask(); code != "" {
			t.Fatalf("%d: %s", i, code)
		}
	}
	if code := ask(); code != protocol.StoreUnavailable {
		t.Errorf("then it is told %q", code)
	}
	l.cut = false
	if code := ask(); code != "" {
		t.Error(code)
	}
	if err := tr.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	single := newTreasury(l, time.Now)
	single.configure([]Budget{{Per: "principal", Window: "day", Requests: 7}})
	single.load()
	for i, want := range []protocol.Code{"", protocol.BudgetSpent} {
		if _, err := single.reserve(t.Context(), alice, demand{tokens: 1}); protocol.CodeOf(err) != want {
			t.Errorf("alone, request %d of what is left: %v", i+7, err)
		}
	}
}
