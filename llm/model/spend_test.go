package model

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func operator(space protocol.SpaceID, id string, roles ...string) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindOperator, ID: id, Space: space, Roles: roles}
}

func mustSpend(t *testing.T, s *Service, who *protocol.Principal, q SpendingQuery) SpendingResult {
	t.Helper()
	r, err := s.Spending(who, q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatIsSpentIsToldApartToWhoMaySeeIt(t *testing.T) {
	c := at(wiretest.New(t, said("yes"), said("yes"), said("yes"), said("yes")))
	c.Models[0].Routes[0].Price = Price{Input: 1e6, Output: 1e6}
	c.Cache.TTL = time.Hour
	h := newHouse(t, c)
	ask := func(who *protocol.Principal, skill protocol.SkillID, run string, repeatable bool) {
		q := Question{Principal: who, Skill: skill, Run: run, Repeatable: repeatable, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "Is it?")}}}
		if _, err := h.Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
	}
	lab := operator("lab", "alice")
	ask(alice, "door", "r1", false)
	ask(alice, "", "", true)
	ask(alice, "", "", true) // from the cache
	ask(operator(protocol.DefaultSpace, "bob"), "", "r2", false)
	ask(lab, "", "", false)

	all := mustSpend(t, h.Service, operator("", "root", protocol.RoleAdministrator), SpendingQuery{By: []string{BySpace, ByPrincipal}})
	if all.Sum.Requests != 4 || all.Sum.Repeated != 1 || all.Total != 3 || all.Sum.Cost != float64(all.Sum.Tokens) || all.Sum.Tokens != all.Sum.Input+all.Sum.Output {
		t.Errorf("an administrator sees %+v", all)
	}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		q    SpendingQuery
		want []string
	}{
		"oneself":                {alice, SpendingQuery{By: []string{ByPrincipal}}, []string{"alice//2"}},
		"nobody else":            {alice, SpendingQuery{By: []string{ByPrincipal}, Principal: "bob"}, nil},
		"not another's run":      {alice, SpendingQuery{By: []string{ByRun}, Run: "r2"}, nil},
		"one's own run":          {alice, SpendingQuery{By: []string{ByRun}, Run: "r1"}, []string{"/r1/1"}},
		"by skill":               {alice, SpendingQuery{By: []string{ByRun}, Skill: "door"}, []string{"/r1/1"}},
		"of another space":       {lab, SpendingQuery{By: []string{ByPrincipal}}, []string{"alice//1"}},
		"an operator":            {operator(protocol.DefaultSpace, "op", protocol.RoleOperator), SpendingQuery{By: []string{ByPrincipal}, Sort: "principal"}, []string{"alice//2", "bob//1"}},
		"an operator of the lab": {operator("lab", "op", protocol.RoleOperator), SpendingQuery{By: []string{ByPrincipal, ByRun}}, []string{"alice//1"}},
		"a stranger":             {operator("elsewhere", "alice", protocol.RoleOperator), SpendingQuery{By: []string{ByPrincipal}}, nil},
		"before":                 {alice, SpendingQuery{Until: "2001-01-01"}, nil},
	} {
		got := mustSpend(t, h.Service, test.who, test.q)
		var rows []string
		for _, r := range got.Rows {
			rows = append(rows, fmt.Sprintf("%s/%s/%d", r.Principal, r.Run, r.Requests))
		}
		if !slices.Equal(rows, test.want) {
			t.Errorf("%s: %q, want %q", name, rows, test.want)
		}
	}
	if _, err := h.Spending(alice, SpendingQuery{Sort: "colour"}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("sorted by what is no column: %v", err)
	}
}

// What one ledger stores another finds, and several add to the same lines.
func TestWhatIsSpentOutlivesTheProcessAndIsAddedUpByAll(t *testing.T) {
	table := recordstest.New[Spending]()
	now := time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	one, other := newLedger(table, "a", clock), newLedger(table, "b", clock)
	pay := Payment{Principal: alice.Party(), Model: "m", Provider: "p"}
	one.book(pay, Amounts{Requests: 1, Tokens: 10, Cost: 0.5})
	other.book(pay, Amounts{Requests: 1, Tokens: 5, Cost: 0.25})
	table.BreakNext(1)
	if one.store(t.Context()) == nil {
		t.Fatal("a write that failed is no error")
	}
	var both sync.WaitGroup
	for _, l := range []*ledger{one, other} {
		both.Go(func() {
			if err := l.store(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	now = now.Add(time.Hour)
	later := New(Options{Spending: table, Now: clock})
	later.ledger.load()
	later.ledger.book(pay, Amounts{Requests: 1, Tokens: 1})
	got := mustSpend(t, later, alice, SpendingQuery{By: []string{ByDay}, Sort: "day"})
	if len(got.Rows) != 2 || got.Rows[0].Day != "2026-11-22" || got.Rows[0].Tokens != 15 || got.Rows[0].Cost != 0.75 || got.Rows[1].Day != "2026-11-23" || got.Sum.Requests != 3 {
		t.Errorf("found %+v", got)
	}
	var parts []string
	for _, r := range mustSpend(t, later, alice, SpendingQuery{By: []string{ByBridge}, Sort: "-tokens"}).Rows {
		parts = append(parts, fmt.Sprint(r.Bridge, " ", r.Tokens, " ", r.Requests, " ", r.Cost))
	}
	if want := []string{"a 10 1 0.5", "b 5 1 0.25", " 1 1 0"}; !slices.Equal(parts, want) {
		t.Errorf("by bridge it is %q", parts)
	}
	now = now.AddDate(0, 0, spendingDays-1)
	if err := later.ledger.store(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := later.ledger.store(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mustSpend(t, later, alice, SpendingQuery{By: []string{ByDay}}); len(got.Rows) != 1 || got.Rows[0].Day != "2026-11-23" || table.Len() != 1 {
		t.Errorf("after %d days there is %+v", spendingDays, got.Rows)
	}
}

// A space that asks in ever new names fills its own part, and no sum is wrong.
func TestASpaceThatSpendsInManyNamesIsToldApartLess(t *testing.T) {
	s := New(Options{Spending: recordstest.New[Spending]()})
	const many = 3 * linesPerDay
	for i := range many {
		s.ledger.book(Payment{Principal: operator("lab", fmt.Sprint("p", i)).Party(), Model: "m", Provider: "p", Run: fmt.Sprint("r", i)}, Amounts{Requests: 1, Tokens: 2})
		if i%1000 == 0 {
			if err := s.ledger.store(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.ledger.book(Payment{Principal: alice.Party(), Model: "m", Provider: "p", Run: "mine"}, Amounts{Requests: 1, Tokens: 2})
	all := mustSpend(t, s, operator("lab", "op", protocol.RoleOperator), SpendingQuery{By: []string{ByPrincipal, ByRun}, Sort: "-requests", Page: listing.Page{Limit: 1000}})
	if all.Sum.Requests != many || all.Sum.Tokens != 2*many || all.Total > linesPerDay+1 {
		t.Errorf("%d lines with %+v", all.Total, all.Sum)
	}
	others := slices.IndexFunc(all.Rows, func(r SpendingRow) bool { return r.Principal == Others })
	runs := 0
	for _, r := range all.Rows {
		if r.Run != "" && r.Run != Others {
			runs++ // one page has them all, but perhaps one
		}
	}
	if others < 0 || all.Rows[others].Requests != many-linesPerDay || runs < detailedPerDay-1 || runs > detailedPerDay {
		t.Errorf("others %d, %d runs", others, runs)
	}
	if own := mustSpend(t, s, alice, SpendingQuery{By: []string{ByRun}}); len(own.Rows) != 1 || own.Rows[0].Run != "mine" {
		t.Errorf("in another space: %+v", own.Rows)
	}
}

// Who has many runs every day for as long as spending is kept hides nobody else's.
func TestRunsLeaveRoomForPrincipals(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	s := New(Options{Spending: recordstest.New[Spending](), Now: func() time.Time { return now }})
	busy := Payment{Principal: operator("lab", "busy").Party(), Model: "m", Provider: "p"}
	other := Payment{Principal: operator("lab", "other").Party(), Model: "m", Provider: "p"}
	for range spendingDays {
		for i := range detailedPerDay {
			busy.Run = fmt.Sprint("r", i)
			s.ledger.book(busy, Amounts{Requests: 1})
		}
		s.ledger.book(other, Amounts{Requests: 1})
		if err := s.ledger.store(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.AddDate(0, 0, 1)
	}
	now = now.AddDate(0, 0, -1)
	for who, want := range map[string]int64{"busy": spendingDays * detailedPerDay, "other": spendingDays} {
		if got := mustSpend(t, s, operator("lab", who), SpendingQuery{By: []string{ByPrincipal}}); got.Sum.Requests != want {
			t.Errorf("%s is told of %d requests, want %d", who, got.Sum.Requests, want)
		}
	}
}

func TestBudgetsAreListedAndToldOfOnce(t *testing.T) {
	c := at(wiretest.New(t, said("yes"), said("yes"), said("yes"), said("yes"), said("yes")))
	c.Budgets = []Budget{
		{Per: perSpace, Window: "month", Requests: 100},
		{Per: perKey, Of: "k1", Window: "hour", Requests: 2},
		{Per: perPrincipal, Window: "day", Requests: 4, Tokens: 1_000_000},
	}
	spent := recordstest.New[Spent]()
	var told []string
	house := func() *house {
		return newHouse(t, c, func(o *Options) {
			o.Spent = spent
			o.Alert = func(a BudgetAlert) {
				told = append(told, fmt.Sprintf("%s %s/%s %s %d", a.Per, a.Space, a.Owner, a.Window, a.Percent))
			}
		})
	}
	h := house()
	keyed := operator(protocol.DefaultSpace, "alice")
	keyed.Method, keyed.Credential = protocol.MethodAPIKey, "k1"
	ask := func(who *protocol.Principal) *protocol.Error {
		_, err := h.asks(t, who, `{"query":"Is it?"}`, nil)
		return err
	}
	for i := range 2 {
		if err := ask(keyed); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := ask(keyed); err == nil || err.Code != protocol.BudgetSpent {
		t.Errorf("a key that is used up: %v", err)
	}
	h.store(t.Context())
	h = house() // as after a restart
	if err := ask(alice); err != nil {
		t.Errorf("the same principal without the key: %v", err)
	}
	if want := []string{"key default/k1 hour 50", "key default/k1 hour 100", "principal default/alice day 50"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		want []string
	}{
		"who spends":             {alice, []string{"principal alice 3 of 4", "space default 3 of 100"}},
		"with a key":             {keyed, []string{"key k1 2 of 2", "principal alice 3 of 4", "space default 3 of 100"}},
		"who manages":            {operator("", "op", protocol.RoleOperator), []string{"key k1 2 of 2", "principal alice 3 of 4", "space default 3 of 100", "principal op 0 of 4"}},
		"who manages elsewhere":  {operator("lab", "op", protocol.RoleOperator), []string{"principal op 0 of 4", "space lab 0 of 100"}},
		"the same name, but not": {operator("lab", "alice"), []string{"principal alice 0 of 4", "space lab 0 of 100"}},
	} {
		var got []string
		for _, b := range h.Budgets(test.who) {
			l := b.Limits[len(b.Limits)-1]
			got = append(got, fmt.Sprintf("%s %s %g of %g", b.Per, b.Owner, l.Spent, l.Limit))
			if l.Of != "requests" || l.Left != l.Limit-l.Spent || b.ResetsAt <= b.Since {
				t.Errorf("%s: %+v", name, b)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestLatencyIsOfTheLastHour(t *testing.T) {
	var r recent
	now := time.Now()
	r.add(now.Add(-2*time.Hour), time.Minute, time.Hour)
	if r.latency(now) != nil {
		t.Error("an answer of two hours ago counts")
	}
	for i := range 2 * recentAnswers {
		r.add(now, time.Duration(i)*time.Millisecond, time.Duration(2*i)*time.Millisecond)
	}
	l := r.latency(now)
	if l == nil || l.Answers != recentAnswers || l.FirstP50 != 383 || l.FirstP99 != 509 || l.WholeP50 != 766 || l.WholeP99 != 1018 {
		t.Errorf("got %+v", l)
	}
}

// readWhenWritten is a table that has somebody read whenever a line was written,
// before the write returns.
type readWhenWritten struct {
	*recordstest.Memory[Spending]
	read func()
}

func (t readWhenWritten) Create(ctx context.Context, key string, v *Spending) (uint64, error) {
	revision, err := t.Memory.Create(ctx, key, v)
	t.read()
	return revision, err
}

func (t readWhenWritten) Update(ctx context.Context, key string, v *Spending, expect uint64) (uint64, error) {
	revision, err := t.Memory.Update(ctx, key, v, expect)
	t.read()
	return revision, err
}

// Whoever asks while spending is stored is told each line once.
func TestWhatIsBeingStoredCountsOnce(t *testing.T) {
	table := readWhenWritten{Memory: recordstest.New[Spending]()}
	l := newLedger(&table, "", time.Now)
	var reading sync.WaitGroup
	told := make(chan int64, 100)
	table.read = func() {
		reading.Go(func() {
			var sum int64
			for _, s := range l.all() {
				sum += s.Requests
			}
			told <- sum
		})
		for range 1000 { // the reader goes on meanwhile, as far as it may
			runtime.Gosched()
		}
	}
	var booked int64
	for range 5 {
		for i := range 10 {
			l.book(Payment{Principal: operator("lab", fmt.Sprint("p", i)).Party(), Model: "m"}, Amounts{Requests: 1})
			booked++
		}
		if err := l.store(t.Context()); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
		for range 10 {
			if sum := <-told; sum != booked {
				t.Errorf("%d requests are told of %d", sum, booked)
			}
		}
	}
}

// A space that spends in many names before they are stored takes no room from others.
func TestUnstoredSpendingOfOneSpaceLeavesRoomForOthers(t *testing.T) {
	l := newLedger(nil, "", time.Now)
	for day := range 10 { // a space has no more lines of one day
		now := time.Now().AddDate(0, 0, day)
		l.now = func() time.Time { return now }
		for i := range linesPerDay {
			l.book(Payment{Principal: operator("busy", fmt.Sprint("p", i)).Party(), Model: "m"}, Amounts{Requests: 1})
		}
	}
	if n := l.unstored["busy"]; n > unstoredPerSpace+10 {
		t.Errorf("%d lines of one space wait to be stored", n)
	}
	l.book(Payment{Principal: operator("quiet", "ada").Party(), Model: "m"}, Amounts{Requests: 1})
	if !slices.ContainsFunc(l.all(), func(s *Spending) bool { return s.Principal.ID == "ada" }) {
		t.Error("the one line of another space is not told apart")
	}
}
