package llm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func TestBudgetsOfTwoSpacesAndTwoRulesAreCountedOnce(t *testing.T) {
	stranger := &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "elsewhere"}
	tr := newTreasury(forgetful{}, time.Now)
	tr.configure([]Budget{
		{Per: "principal", Window: "day", Requests: 2},
		{Per: "principal", Of: "alice", Window: "day", Tokens: 1000}, // the same spending
	})
	for i := range 2 {
		if _, err := tr.reserve(alice, 400); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	if _, err := tr.reserve(alice, 1); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("a third one: %v", err)
	}
	if _, err := tr.reserve(stranger, 400); err != nil {
		t.Errorf("somebody of the same id in another space: %v", err)
	}
	tr.configure([]Budget{{Per: "space", Window: "month", Requests: 1}, {Per: "space", Of: "default", Window: "month", Requests: 1}})
	nowhere := &protocol.Principal{ID: "bob"} // which is at home in the default space
	if _, err := tr.reserve(nowhere, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.reserve(alice, 1); protocol.CodeOf(err) != protocol.BudgetSpent {
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
