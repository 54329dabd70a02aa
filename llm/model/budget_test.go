package model

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func TestBudgetsOfTwoSpacesAndTwoRulesAreCountedOnce(t *testing.T) {
	stranger := &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "elsewhere"}
	tr := newTreasury(nil, time.Now)
	tr.configure([]Budget{
		{Per: "principal", Window: "day", Requests: 2},
		{Per: "principal", Of: "alice", Window: "day", Tokens: 1000}, // the same spending
	})
	for i := range 2 {
		if _, err := tr.reserve(t.Context(), alice, demand{tokens: 400}); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 1}); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("a third one: %v", err)
	}
	if _, err := tr.reserve(t.Context(), stranger, demand{tokens: 400}); err != nil {
		t.Errorf("somebody of the same id in another space: %v", err)
	}
	tr.configure([]Budget{{Per: "space", Window: "month", Requests: 1}, {Per: "space", Of: "default", Window: "month", Requests: 1}})
	nowhere := &protocol.Principal{ID: "bob"} // which is at home in the default space
	if _, err := tr.reserve(t.Context(), nowhere, demand{tokens: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 1}); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("another of the default space: %v", err)
	}
}

func TestWhoHangsUpPaysForWhatWasSaid(t *testing.T) {
	c := at(wiretest.New(t, said(strings.Repeat("word ", 80))))
	c.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 100}}
	h := newHouse(t, c)
	enough := errors.New("enough")
	q := Question{Principal: alice, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "Tell me a story.")}}}
	if _, err := h.Ask(t.Context(), q, func(chat.Event) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if _, err := h.Ask(t.Context(), q, nil); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("after 104 tokens: %v", err)
	}
}

// However many ask at the same moment, a budget is spent and not overspent:
// who finds it held by others waits for what they leave.
func TestABudgetHoldsForManyAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget Budget
		most   int32
	}{
		"tokens": {Budget{Per: "principal", Window: "day", Tokens: 195}, 13}, // 15 each
		"cost":   {Budget{Per: "principal", Window: "day", Cost: 6}, 3},      // 2 each
	} {
		t.Run(name, func(t *testing.T) {
			config := at(wiretest.New(t, said("ok")))
			config.Budgets = []Budget{c.budget}
			h := newHouse(t, config)
			var answered, refused atomic.Int32
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					switch _, err := h.ask(t, `{"query":"a"}`); {
					case err == nil:
						answered.Add(1)
					case err.Code == protocol.BudgetSpent:
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			if answered.Load() != c.most || refused.Load() != 40-c.most {
				t.Errorf("%d were answered and %d refused", answered.Load(), refused.Load())
			}
		})
	}
}

// An answer that nobody bounds may be as long as the budget has tokens left.
func TestAnAnswerIsBoundedByWhatIsLeft(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	config := at(s)
	config.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 100}}
	h := newHouse(t, config)
	if _, err := h.ask(t, `{"query":"a"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ask(t, `{"query":"a","options":{"max_tokens":20}}`); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`:100`, `:20`} {
		if body := string(s.Requests()[i].Body); !strings.Contains(body, `max_completion_tokens"`+want) && !strings.Contains(body, `max_tokens"`+want) {
			t.Errorf("request %d: %s, want %s tokens", i, body, want)
		}
	}
}

func TestWhoWaitsForABudgetMayGiveUp(t *testing.T) {
	tr := newTreasury(nil, time.Now)
	tr.configure([]Budget{{Per: "principal", Window: "day", Tokens: 100}})
	held, err := tr.reserve(t.Context(), alice, demand{tokens: 60})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.reserve(ctx, alice, demand{tokens: 60}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	held.settle(chat.Usage{Output: 40}, 0)
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 60}); err != nil {
		t.Errorf("what was not used is not there: %v", err)
	}
}

func TestAnAnswerThatIsNotCountedIsEstimated(t *testing.T) {
	text, _ := json.Marshal(strings.Repeat("word ", 80))
	uncounted := wiretest.Stream(`{"model":"m-1","choices":[{"delta":{"content":`+string(text)+`}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
	config := at(wiretest.New(t, uncounted))
	config.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 100}}
	h := newHouse(t, config)
	q, err := h.ask(t, `{"query":"How are you, and what is new?"}`)
	if err != nil {
		t.Fatal(err)
	}
	if !q.Usage.Estimated || q.Usage.Output != 100 || q.Usage.Input != 7 || q.Cost == 0 {
		t.Errorf("it is taken for %+v, %v", q.Usage, q.Cost)
	}
	if _, err := h.ask(t, `{"query":"And now?"}`); err == nil || err.Code != protocol.BudgetSpent {
		t.Errorf("the next one: %v", err)
	}
}

// TestAProviderGivesNothingBack whatever it says of the usage.
func TestAProviderGivesNothingBack(t *testing.T) {
	answer := func(usage string) wiretest.Reply {
		return wiretest.JSON(200, `{"model":"m-1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"That is it."}]}],"usage":`+usage+`}`)
	}
	for name, usage := range map[string]string{
		"less than nothing": `{"input_tokens":-1000000,"output_tokens":-1000000}`,
		"a large cache":     `{"input_tokens":10,"output_tokens":5,"input_tokens_details":{"cached_tokens":2000000000,"cache_write_tokens":2000000000}}`,
		"too much":          `{"input_tokens":9000000000000000000,"output_tokens":9000000000000000000}`,
	} {
		config := at(wiretest.New(t, answer(usage)))
		config.Providers[0].Wire = "responses"
		config.Models[0].Routes[0].Price.Cached = 1
		config.Budgets = []Budget{{Per: perPrincipal, Window: "day", Tokens: 1e6, Cost: 1e6}}
		h := newHouse(t, config)
		q, err := h.ask(t, `{"query":"How are you, and what is new?"}`)
		if err != nil {
			t.Fatal(err)
		}
		if q.Cost <= 0 || q.Usage.Total() <= 0 || q.Usage.Total() > 1000 {
			t.Errorf("%s: it is taken for %+v, %v", name, q.Usage, q.Cost)
		}
		for _, l := range h.budgets.list(alice)[0].Limits {
			if l.Spent <= 0 {
				t.Errorf("%s: of %s are spent %v", name, l.Of, l.Spent)
			}
		}
	}
}

// A query that may cost more than is left of a budget is not let in, even if it is the
// only one, and an answer that nobody bounds is as long as the rest pays for.
func TestACostIsNotExceededByOneQueryAlone(t *testing.T) {
	price := Price{Input: 1_000_000, Output: 1_000_000} // 1 a token
	open, bounded := demand{tokens: 10, input: 10, open: true, price: price}, demand{tokens: 40, input: 10, price: price}
	tr := newTreasury(nil, time.Now)
	tr.configure([]Budget{{Per: "principal", Window: "day", Cost: 100}})
	spend := func(d demand, answer int64, used int) {
		t.Helper()
		r, err := tr.reserve(t.Context(), alice, d)
		if err != nil || r.answer != answer {
			t.Fatalf("an answer of %d tokens is let in: %+v, %v", answer, r, err)
		}
		r.settle(chat.Usage{Input: 10, Output: used}, price.cost(chat.Usage{Input: 10, Output: used}))
	}
	spend(open, 90, 40)   // 50
	spend(bounded, 0, 20) // 80
	if _, err := tr.reserve(t.Context(), alice, bounded); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("a query for 40 of the 20 that are left: %v", err)
	}
	spend(open, 10, 9) // 99
	if _, err := tr.reserve(t.Context(), alice, open); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("a query for 11 of what is left: %v", err)
	}
}
