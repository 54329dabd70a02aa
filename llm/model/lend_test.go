package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// plantBridge is the principal of a site at its centre.
var plantBridge = &protocol.Principal{Kind: protocol.KindAgent, ID: "plant-bridge", Space: protocol.DefaultSpace}

// A lending is a centre with a site, whose clocks are the same.
type lending struct {
	now      time.Time
	table    *recordstest.Memory[Spent]
	accounts *recordstest.Memory[Account]
	budgets  []Budget
	alone    Budget
	dead     sync.Map
	shared   bool // the centre is a cluster
	made     int
	alerts   []BudgetAlert

	centre *treasury
	site   *borrower
	cut    bool // the line
	lost   bool // answers are lost
	twice  bool // questions arrive twice
	asked  int
	denied error // by the centre
}

func newLending(alone Budget, budgets ...Budget) *lending {
	l := &lending{
		now:   time.Date(2026, 11, 28, 9, 10, 0, 0, time.UTC),
		table: recordstest.New[Spent](), accounts: recordstest.New[Account](), budgets: budgets, alone: alone,
	}
	l.startCentre()
	l.startSite()
	return l
}

func (l *lending) clock() time.Time { return l.now }

func (l *lending) startCentre() {
	l.made++
	l.centre = newTreasury(l.table, l.clock)
	l.centre.alert = func(a BudgetAlert) { l.alerts = append(l.alerts, a) }
	if l.shared {
		l.centre.share(bridge{fmt.Sprint("bridge/", l.made), &l.dead})
	}
	l.centre.configure(l.budgets)
	l.centre.load()
}

func (l *lending) startSite() {
	l.site = newBorrower(Centre{Lend: l.lend, Account: "plant", Accounts: l.accounts, Alone: l.alone}, l.clock)
	l.site.load()
}

func (l *lending) lend(ctx context.Context, d Demand) (Loan, error) {
	if l.cut {
		return Loan{}, ErrUnreachable
	}
	l.asked++
	if l.denied != nil {
		return Loan{}, l.denied
	}
	for _, q := range []Quantity{d.Used, d.Busy, d.Need, d.Wish} { // as the command does
		if q.minus(mostTold) != q.minus(mostTold).atMost(Quantity{}) || q != q.atLeast(Quantity{}) {
			return Loan{}, protocol.InvalidParam("used", fmt.Sprintf("%+v is out of range", q))
		}
	}
	loan, err := l.centre.lend(ctx, plantBridge, &d)
	if l.twice {
		loan, err = l.centre.lend(ctx, plantBridge, &d)
	}
	if l.lost {
		return Loan{}, ErrUnreachable
	}
	return loan, err
}

// query is one at the site that has the use which it was expected to have.
func (l *lending) query(t *testing.T, tokens int64) error {
	t.Helper()
	r, err := l.site.reserve(t.Context(), demand{tokens: tokens, input: tokens}, 1)
	if err == nil {
		r.settle(chat.Usage{Input: int(tokens)}, 0)
	}
	return err
}

// spends has the site make queries that are answered.
func (l *lending) spends(t *testing.T, queries int, tokens int64) {
	t.Helper()
	for i := range queries {
		if err := l.query(t, tokens); err != nil {
			t.Fatalf("query %d: %v", i+1, err)
		}
	}
}

func (l *lending) refuses(t *testing.T, code protocol.Code, reason string) {
	t.Helper()
	err := l.query(t, 100)
	if protocol.CodeOf(err) != code || protocol.AsError(err).Details["reason"] != reason {
		t.Fatalf("the site is answered %v %v, not %s because of %q", err, protocol.AsError(err).Details, code, reason)
	}
}

func (l *lending) tells(t *testing.T) {
	t.Helper()
	if err := l.site.tell(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// has checks how much of the first budget is spent and reserved.
func (l *lending) has(t *testing.T, spent, reserved float64) {
	t.Helper()
	v := l.centre.list(plantBridge)
	if len(v) == 0 || len(v[0].Limits) == 0 || v[0].Limits[0].Spent != spent || v[0].Limits[0].Reserved != reserved {
		t.Errorf("the centre has %+v, not %v spent and %v reserved", v, spent, reserved)
	}
}

func tokensOf(limit int64, window string) Budget {
	return Budget{Per: perPrincipal, Window: window, Tokens: limit}
}

func TestASiteSpendsWhatItsCentreLends(t *testing.T) {
	l := newLending(Budget{}, tokensOf(10_000, "day"), Budget{Per: perSpace, Window: "hour", Tokens: 50_000, Requests: 1000})
	l.spends(t, 10, 100)
	if l.asked != 3 { // a twentieth of the rest each time
		t.Errorf("the centre is asked %d times for ten queries", l.asked)
	}
	l.tells(t)
	l.has(t, 1000, 355)
	l.spends(t, 1, 100)
	l.now = l.now.Add(idleAfter)
	l.tells(t)
	l.has(t, 1100, 0)
	l.spends(t, 89, 100)
	if l.asked > 70 {
		t.Errorf("the centre is asked %d times", l.asked)
	}
	l.refuses(t, protocol.BudgetSpent, "centre")
	l.tells(t)
	l.has(t, 10_000, 0)
	if got := fmt.Sprint(l.alerts); len(l.alerts) != 3 || l.alerts[0].Percent != 50 || l.alerts[1].Percent != 80 || l.alerts[2].Percent != 100 || l.alerts[0].Owner != "plant-bridge" {
		t.Errorf("the centre tells %s", got)
	}
	l.now = l.now.Add(24 * time.Hour)
	l.spends(t, 1, 100)
}

// TestWhatASiteTellsIsBookedOnce has questions arrive twice and answers be lost.
func TestWhatASiteTellsIsBookedOnce(t *testing.T) {
	l := newLending(tokensOf(5000, "day"), tokensOf(10_000, "day"), Budget{Per: perSpace, Window: "month", Tokens: 10_000})
	l.twice = true
	l.spends(t, 3, 100)
	l.lost = true
	l.spends(t, 20, 100) // partly by what it lends itself
	l.tells(t)
	l.tells(t)
	l.lost = false
	l.now = l.now.Add(idleAfter)
	l.tells(t)
	l.tells(t)
	for _, v := range l.centre.list(plantBridge) {
		if v.Limits[0].Spent != 2300 || v.Limits[0].Reserved != 0 {
			t.Errorf("of %s there are %+v", v.Per, v.Limits)
		}
	}
	if stored, _, _ := l.accounts.Get("plant"); len(stored.Owed) != 0 || stored.Open != nil {
		t.Errorf("the site owes %+v", stored)
	}
}

// TestNoAmountEndsAnAccount has a use that is beyond all that a centre takes, and the rounding
// error of a query that costs something beside one that does not.
func TestNoAmountEndsAnAccount(t *testing.T) {
	l := newLending(Budget{}, Budget{Per: perPrincipal, Window: "hour", Cost: 1e6})
	priced := func(tokens int64) demand { return demand{tokens: tokens, input: tokens, price: Price{Input: 1e6 / 10}} }
	var running []*borrowed
	for _, d := range []demand{priced(7), priced(1), {tokens: 1, input: 1}} {
		r, err := l.site.reserve(t.Context(), d, 1)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, r)
	}
	for _, r := range running[:2] {
		r.settle(chat.Usage{}, 0)
	}
	if left := l.site.reserved.Cost; left >= 0 {
		t.Errorf("there is no rounding error: %v", left)
	}
	l.tells(t)
	running[2].settle(chat.Usage{}, 3e9)
	l.refuses(t, protocol.BudgetSpent, "centre")
	l.now = l.now.Add(time.Hour)
	l.tells(t)
	l.spends(t, 1, 100)
}

func TestWhatAKilledSiteHeldIsSpent(t *testing.T) {
	l := newLending(Budget{}, tokensOf(10_000, "day"))
	l.spends(t, 1, 100)
	l.startSite()
	l.spends(t, 1, 100)
	l.now = l.now.Add(idleAfter)
	l.tells(t)
	l.has(t, 600, 0)
	l.accounts = recordstest.New[Account]() // the site has lost its state
	l.spends(t, 1, 100)
	l.startSite()
	l.now = l.now.Add(time.Second)
	l.spends(t, 1, 100)
	l.now = l.now.Add(idleAfter)
	l.tells(t)
	l.has(t, 600+470+100, 0)
}

func TestAKilledCentreKnowsWhatItHasLent(t *testing.T) {
	l := newLending(Budget{}, tokensOf(10_000, "day"))
	l.spends(t, 2, 100)
	l.startCentre()
	l.has(t, 0, 500)
	l.spends(t, 3, 100) // without asking
	if l.asked != 1 {
		t.Errorf("the centre is asked %d times", l.asked)
	}
	l.tells(t)
	l.startCentre()
	l.has(t, 500, 0)
}

// TestASpentBudgetOfACentreLeavesTheLease has others spend the budget while the site holds a
// part of it.
func TestASpentBudgetOfACentreLeavesTheLease(t *testing.T) {
	l := newLending(tokensOf(1000, "day"), Budget{Per: perSpace, Window: "day", Tokens: 10_000})
	l.spends(t, 1, 100)
	r, err := l.centre.reserve(t.Context(), alice, demand{tokens: 9500, input: 9500})
	if err != nil {
		t.Fatal(err)
	}
	r.settle(chat.Usage{Input: 9500}, 0)
	if _, err := l.centre.reserve(t.Context(), alice, demand{tokens: 1, input: 1}); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("what the site holds is spent by others: %v", err)
	}
	l.spends(t, 4, 100)
	l.refuses(t, protocol.BudgetSpent, "centre") // though it might spend something alone
}

func TestASiteWithoutItsCentre(t *testing.T) {
	l := newLending(Budget{}, tokensOf(10_000, "day"))
	l.spends(t, 1, 100)
	l.cut = true
	l.spends(t, 4, 100) // what is left of the lease
	l.refuses(t, protocol.LLMUnavailable, "centre_unreachable")
	l.cut = false
	l.spends(t, 1, 100)
	l.cut = true
	l.now = l.now.Add(leaseLife)
	l.refuses(t, protocol.LLMUnavailable, "centre_unreachable")

	l = newLending(tokensOf(1000, "day"), tokensOf(10_000, "day"))
	l.cut = true
	l.spends(t, 4, 100)
	l.startSite() // killed: what it had lent itself counts, 50 at first, then as much as a query needs
	l.spends(t, 2, 100)
	l.now = l.now.Add(2 * time.Hour)
	l.spends(t, 4, 100)
	l.refuses(t, protocol.BudgetSpent, "centre_unreachable")
	l.tells(t)
	l.cut = false
	l.tells(t)
	l.has(t, 1000, 0)
	l.cut = true
	l.refuses(t, protocol.BudgetSpent, "centre_unreachable")
	l.now = l.now.Add(24 * time.Hour)
	l.spends(t, 3, 100)
	l.now = l.now.Add(24 * time.Hour)
	l.spends(t, 2, 100)
	l.cut = false
	l.now = l.now.Add(idleAfter)
	l.tells(t)
	l.has(t, 200, 0) // yesterday is over
}

// TestNothingIsSpentAloneBeforeItIsStored as a killed site would not know of it.
func TestNothingIsSpentAloneBeforeItIsStored(t *testing.T) {
	l := newLending(tokensOf(1000, "day"), tokensOf(10_000, "day"))
	l.cut = true
	l.accounts.Break(errors.New("the disk is gone"))
	for range 2 {
		if err := l.query(t, 100); protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("the site is answered %v", err)
		}
	}
	l.accounts.Break(nil)
	l.spends(t, 10, 100)
	l.refuses(t, protocol.BudgetSpent, "centre_unreachable")
	l.cut = false
	l.tells(t)
	l.has(t, 1000, 0)
}

// TestACentreThatRefusesIsNoCentreThatIsAway has the site spend nothing, though it might alone.
func TestACentreThatRefusesIsNoCentreThatIsAway(t *testing.T) {
	l := newLending(tokensOf(1000, "day"), tokensOf(1000, "day"))
	l.denied = protocol.Errorf(protocol.PermissionDenied, "it is none of the sites")
	l.refuses(t, protocol.LLMUnavailable, "centre_refuses")
	l.denied = nil
	l.spends(t, 1, 100)
}

// TestWhatIsLeftBoundsTheAnswer of a query without a bound of its own.
func TestWhatIsLeftBoundsTheAnswer(t *testing.T) {
	for name, b := range map[string]Budget{
		"tokens": tokensOf(600, "day"),
		"cost":   {Per: perPrincipal, Window: "day", Cost: 600},
	} {
		l := newLending(Budget{}, b)
		r, err := l.site.reserve(t.Context(), demand{tokens: 100, input: 100, open: true, price: Price{Input: 1e6, Output: 1e6}}, 1)
		if err != nil || r.answer != 500 {
			t.Errorf("%s: the answer may have %+v, %v", name, r, err)
		}
	}
	l := newLending(Budget{}, Budget{Per: perPrincipal, Window: "day", Requests: 600})
	if r, err := l.site.reserve(t.Context(), demand{tokens: 100, input: 100, open: true}, 1); err != nil || r.answer != 0 {
		t.Errorf("the answer may have %+v, %v", r, err)
	}
}

// TestTheLastTokenOfACostIsSpent though rounding may say that it is not quite paid for.
func TestTheLastTokenOfACostIsSpent(t *testing.T) {
	for input := range int64(200) {
		d := demand{tokens: input, input: input, open: true, price: Price{Input: 0.3, Output: 0.7}}
		l := newLending(Budget{}, Budget{Per: perPrincipal, Window: "day", Cost: d.leastCost()})
		if r, err := l.site.extend(t.Context(), d, 1); err != nil || r.answer != 1 {
			t.Fatalf("after %d tokens the answer has %+v, %v", input, r, err)
		}
	}
}

// TestBudgetsAreKeptOverAnyLine has a site and its centre, each of which may be killed, spend one
// budget over a line that is cut and loses answers.
func TestBudgetsAreKeptOverAnyLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 20_000
		l := newLending(Budget{}, tokensOf(limit, "day"), Budget{Per: perSpace, Window: "month", Tokens: limit + 5000})
		l.shared = rapid.Bool().Draw(t, "cluster")
		l.startCentre()
		var truth int64 // spent
		var lost bool   // a process was killed, so more counts as spent
		var running []*borrowed
		query := func(t *rapid.T) {
			d := demand{input: rapid.Int64Range(1, 800).Draw(t, "input"), open: rapid.Bool().Draw(t, "open")}
			d.tokens = d.input
			if r := l.site.take(d, 1, leastAnswer); r != nil {
				running = append(running, r)
				return
			}
			switch r, err := l.site.extend(context.Background(), d, 1); {
			case err == nil:
				running = append(running, r)
			case !slices.Contains([]protocol.Code{protocol.BudgetSpent, protocol.LLMUnavailable, protocol.Busy}, protocol.CodeOf(err)):
				t.Fatal(err)
			}
		}
		settle := func(t *rapid.T) {
			if len(running) == 0 {
				return
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "query")
			used := rapid.Int64Range(0, running[i].part.Tokens).Draw(t, "used")
			running[i].settle(chat.Usage{Input: int(used)}, 0)
			running = slices.Delete(running, i, i+1)
			truth += used
		}
		spent := func() int64 {
			v := l.centre.list(plantBridge)
			i := slices.IndexFunc(v, func(b BudgetView) bool { return b.Per == perPrincipal })
			if i < 0 {
				return 0
			}
			return int64(v[i].Limits[0].Spent)
		}
		t.Repeat(map[string]func(*rapid.T){
			"query":  query,
			"settle": settle,
			"tell":   func(t *rapid.T) { must(t, l.site.tell(context.Background(), false)) },
			"line": func(t *rapid.T) {
				l.cut, l.lost, l.twice = rapid.Bool().Draw(t, "cut"), rapid.Bool().Draw(t, "lost"), rapid.Bool().Draw(t, "twice")
			},
			"time": func(t *rapid.T) {
				l.now = l.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute}).Draw(t, "more"))
			},
			"kill the centre": func(t *rapid.T) {
				if l.shared {
					l.dead.Store(l.centre.self(), true)
				}
				l.startCentre()
			},
			"kill the site": func(t *rapid.T) {
				for _, r := range running { // their use is unknown
					truth += r.part.Tokens
				}
				running, lost = nil, true
				l.startSite()
			},
			"": func(t *rapid.T) {
				if l.now.Day() != 28 {
					t.Skip("the day is over")
				}
				if truth > limit {
					t.Fatalf("%d are spent", truth)
				}
				if got := spent(); !lost && got > truth {
					t.Fatalf("the centre has %d of %d", got, truth)
				}
			},
		})
		for len(running) > 0 {
			settle(t)
		}
		l.cut, l.lost = false, false
		for range 3 {
			l.now = l.now.Add(idleAfter)
			must(t, l.site.tell(context.Background(), false))
		}
		if l.now.Day() == 28 {
			if got := spent(); got < truth || !lost && got != truth {
				t.Fatalf("the centre has %d, and %d were spent", got, truth)
			}
		}
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnAccountThatOwesTooMuchSpendsNothingAlone(t *testing.T) {
	l := newLending(tokensOf(1e9, "month"), tokensOf(1000, "day"))
	l.cut = true
	for range mostOwed {
		l.spends(t, 1, 1)
		l.now = l.now.Add(time.Hour)
	}
	if err := l.query(t, 1); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("the site is answered %v", err)
	}
	if !errors.Is(l.site.repay(t.Context()), ErrUnreachable) {
		t.Error("it has been told")
	}
}

func TestASiteHasSoManyAccounts(t *testing.T) {
	l := newLending(Budget{}, tokensOf(1_000_000, "day"))
	for i := range mostAccountsOfSite + 1 {
		_, err := l.centre.lend(t.Context(), plantBridge, &Demand{Account: fmt.Sprint(i), Number: 1, Need: Quantity{Tokens: 1}})
		if want := i == mostAccountsOfSite; (protocol.CodeOf(err) == protocol.LimitReached) != want {
			t.Errorf("account %d: %v", i, err)
		}
	}
}
