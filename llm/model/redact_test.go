package model

import (
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

// TestASharedAnswerHasTheValuesOfWhoAsks though it is kept once: to the
// provider both questions are the same.
func TestASharedAnswerHasTheValuesOfWhoAsks(t *testing.T) {
	s := wiretest.New(t, said("[email-1] looks right, [email-2] is nobody's"))
	c := at(s)
	c.Redact = []Redaction{{Kinds: []string{"email"}}}
	c.Cache = CacheConfig{TTL: time.Hour, Shared: true}
	h := newHouse(t, c)
	bob := &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
	for i, test := range []struct {
		who   *protocol.Principal
		email string
		from  string
	}{{alice, "ann@x.org", "provider"}, {bob, "bob@x.org", "cache"}, {alice, "ann@x.org", "cache"}} {
		var heard strings.Builder
		q := question1("Is " + test.email + " right?")
		q.Principal, q.Repeatable = test.who, true
		o, err := h.Ask(t.Context(), q, func(e chat.Event) error {
			heard.WriteString(e.Text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := test.email + " looks right, [email-2] is nobody's"
		if o.From != test.from || o.Answer.Text() != want || heard.String() != want {
			t.Errorf("%d: got %q, heard %q, from %s", i, o.Answer.Text(), heard.String(), o.From)
		}
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}

func TestSpacesHaveRedactionsOfTheirOwn(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	c := at(s)
	c.Redact = []Redaction{{Spaces: []string{"lab"}, Kinds: []string{"email"}, With: "somebody"}}
	h := newHouse(t, c)
	for _, space := range []protocol.SpaceID{"lab", protocol.DefaultSpace} {
		q := question1("Ask ann@x.org.")
		q.Space = space
		if _, err := h.Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.Requests(); !strings.Contains(string(r[0].Body), `"Ask somebody."`) || !strings.Contains(string(r[1].Body), `"Ask ann@x.org."`) {
		t.Errorf("asked %s, then %s", r[0].Body, r[1].Body)
	}
}

func TestWhatWasSignedLeavesWithoutValuesToo(t *testing.T) {
	s := wiretest.New(t, wiretest.Stream(`{"choices":[{"delta":{"reasoning_content":"Ask [email-1]?"}}]}`, `{"choices":[{"delta":{"content":"I ask [email-1]."},"finish_reason":"stop"}]}`, "[DONE]"), said("ok"))
	c := at(s)
	c.Providers[0].Dialect.OpenAI.ReplayReasoning = true
	c.Redact = []Redaction{{Kinds: []string{"email"}}}
	h := newHouse(t, c)
	q := question1("Ask ann@x.org.")
	o, err := h.Ask(t.Context(), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Answer.Segments[0].Text; got != "Ask ann@x.org?" {
		t.Errorf("thought %q", got)
	}
	q.Request.Messages = append(q.Request.Messages, o.Answer.Message(), chat.Message{Role: chat.Assistant, Segments: []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "1", Name: "f"}}}},
		chat.Message{Role: chat.ToolRole, ToolCallID: "1"}, chat.TextMessage(chat.User, "Now!"))
	if _, err := h.Ask(t.Context(), q, nil); err != nil {
		t.Fatal(err)
	}
	if body := string(s.Requests()[1].Body); strings.Contains(body, "x.org") || !strings.Contains(body, `"reasoning_content":"Ask [email-1]?"`) {
		t.Errorf("asked %s", body)
	}
}
