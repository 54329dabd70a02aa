package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func question1(text string) Question {
	return Question{Principal: alice, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, text)}}}
}

func TestAskTellsEventsAndThenTheWholeAnswer(t *testing.T) {
	h := newHouse(t, at(wiretest.New(t, said("hello"))))
	var text strings.Builder
	o, err := h.Ask(t.Context(), question1("hi"), func(e chat.Event) error {
		text.WriteString(e.Text)
		return nil
	})
	if err != nil || text.String() != "hello" || o.Answer.Text() != "hello" || o.Usage.Total() != 15 || o.Model != "m" || o.Provider != "p0" || o.Cost != 2 || o.From != "provider" {
		t.Errorf("got %q, %+v, %v", text.String(), o, err)
	}
}

func TestAListenerWhoHadEnoughEndsTheAnswer(t *testing.T) {
	h := newHouse(t, at(wiretest.New(t, said("hello"))))
	enough := errors.New("enough")
	if _, err := h.Ask(t.Context(), question1("hi"), func(chat.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if state, last, _ := h.catalog.Load().providers[0].breaker.state(); state != "closed" || last != "" {
		t.Errorf("the provider is blamed: %s, %s", state, last)
	}
}

func TestAskingLeavesTheQuestionAsItWas(t *testing.T) {
	c := at(wiretest.New(t, said("ok")))
	c.Redact = []Redaction{{Pattern: "secret"}}
	c.Models[0].MaxTokens = 7
	h := newHouse(t, c)
	q := question1("a secret")
	if _, err := h.Ask(t.Context(), q, nil); err != nil {
		t.Fatal(err)
	}
	if q.Request.Messages[0].Segments[0].Text != "a secret" || q.Request.Options.MaxTokens != 0 {
		t.Errorf("it became %+v", q.Request)
	}
}

func TestTheSpaceOfAQuestionMayDifferFromItsPrincipals(t *testing.T) {
	c := at(wiretest.New(t, said("ok")))
	c.Models[0].Spaces = []string{"lab"}
	h := newHouse(t, c)
	q := question1("a")
	if _, err := h.Ask(t.Context(), q, nil); err == nil {
		t.Error("another space's model answers")
	}
	q.Space = "lab"
	if _, err := h.Ask(t.Context(), q, nil); err != nil {
		t.Error(err)
	}
}
