package model

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

// A house is a service with what tests ask it.
type house struct{ *Service }

func newHouse(t testing.TB, c Config, change ...func(*Options)) *house {
	t.Helper()
	o := Options{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, f := range change {
		f(&o)
	}
	s := New(o)
	if len(c.Models) > 0 {
		if _, err := s.Configure(c); err != nil {
			t.Fatal(err)
		}
	}
	return &house{s}
}

// A told reply is one with its text.
type told struct {
	Reply
	Result string
}

// ask asks as alice. Params are those of llm.advanced-query, as far as they
// matter here.
func (h *house) ask(t testing.TB, params string) (told, *protocol.Error) {
	t.Helper()
	return h.asks(t, alice, params, nil)
}

func (h *house) asks(t testing.TB, who *protocol.Principal, params string, emit func(chat.Event) error) (told, *protocol.Error) {
	t.Helper()
	var p struct {
		Query   string
		Options struct {
			Model       string
			Temperature *float64
			MaxTokens   int `json:"max_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		t.Fatal(err)
	}
	q := question1(p.Query)
	q.Principal, q.Model = who, p.Options.Model
	q.Request.Options.Temperature, q.Request.Options.MaxTokens = p.Options.Temperature, p.Options.MaxTokens
	o, err := h.Ask(t.Context(), q, emit)
	if err != nil {
		return told{}, protocol.AsError(err)
	}
	return told{*o, o.Answer.Text()}, nil
}

func said(text string) wiretest.Reply {
	raw, _ := json.Marshal(text)
	return wiretest.Stream(`{"model":"m-1","choices":[{"delta":{"content":`+string(raw)+`}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]")
}

// at is a configuration with one model, "m", at these servers, one priority
// after the other.
func at(servers ...*wiretest.Server) Config {
	c := Config{Models: []ModelConfig{{Name: "m", Aliases: []string{"small"}}}, Probe: -1}
	for i, s := range servers {
		name := fmt.Sprint("p", i)
		c.Providers = append(c.Providers, ProviderConfig{Name: name, Wire: "openai", BaseURL: s.URL})
		c.Models[0].Routes = append(c.Models[0].Routes, Route{Provider: name, Model: "real-m", Priority: i, Price: Price{Input: 1e5, Output: 2e5}})
	}
	return c
}

func TestTheNextProviderAnswersWhenOneFails(t *testing.T) {
	for name, broken := range map[string]wiretest.Reply{
		"500": wiretest.JSON(500, `{}`), "429": wiretest.JSON(429, `{}`), "401": wiretest.JSON(401, `{}`), "404": wiretest.JSON(404, `{}`),
		"a key refused with 400": wiretest.JSON(400, `{"error":{"message":"Incorrect API key provided"}}`), "a key refused as api_error": wiretest.JSON(401, `{"type":"error","error":{"type":"api_error"}}`),
		"garbage": wiretest.Stream(`{`), "cut at once": {Cut: true}, "too long": wiretest.JSON(400, `{"error":{"code":"context_length_exceeded"}}`),
		"cut in the middle": wiretest.Stream(`{"choices":[{"delta":{"content":"x"}}]}`), // nobody listens, so nobody heard it
	} {
		first, second := wiretest.New(t, broken), wiretest.New(t, said("from the second"))
		h := newHouse(t, at(first, second))
		if q, err := h.ask(t, `{"query":"a"}`); err != nil || q.Result != "from the second" {
			t.Errorf("%s: got %+v, %v", name, q, err)
		}
	}
}

func TestAnAnswerHasOneAuthor(t *testing.T) {
	first, second := wiretest.New(t, wiretest.Stream(`{"choices":[{"delta":{"content":"x"}}]}`)), wiretest.New(t, said("from the second"))
	h := newHouse(t, at(first, second))
	if _, err := h.asks(t, alice, `{"query":"hi"}`, func(chat.Event) error { return nil }); err == nil || err.Code != protocol.LLMUnavailable || len(second.Requests()) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestFailuresAreToldInTheBridgesCodes(t *testing.T) {
	for name, test := range map[string]struct {
		reply  wiretest.Reply
		code   protocol.Code
		reason string
	}{
		"a wrong key":       {wiretest.JSON(401, `{"error":{"message":"the key sk-1 is wrong"}}`), protocol.LLMRefused, "auth"},
		"a bad request":     {wiretest.JSON(400, `{"error":{"message":"no such field"}}`), protocol.LLMRefused, "bad_request"},
		"an unknown model":  {wiretest.JSON(404, `{}`), protocol.LLMRefused, "unknown_model"},
		"too long":          {wiretest.JSON(413, `{}`), protocol.LLMRefused, "context_length"},
		"overloaded":        {wiretest.JSON(503, `{}`), protocol.LLMUnavailable, "overloaded"},
		"slow down":         {wiretest.JSON(429, `{}`), protocol.LLMUnavailable, "rate_limited"},
		"no JSON":           {wiretest.Stream(`{`), protocol.LLMUnavailable, "bad_response"},
		"cut in the middle": {wiretest.Stream(`{"choices":[{"delta":{"content":"x"}}]}`), protocol.LLMUnavailable, "cut_off"},
	} {
		h := newHouse(t, at(wiretest.New(t, test.reply)))
		_, err := h.ask(t, `{"query":"a"}`)
		if err == nil || err.Code != test.code || err.Details["reason"] != test.reason || strings.Contains(err.Message, "sk-1") {
			t.Errorf("%s: got %v %v", name, err, err.Details)
		}
		if retry := err.Details["retry_after_ms"]; (test.code == protocol.LLMUnavailable) != (retry != nil) {
			t.Errorf("%s: retry after %v", name, retry)
		}
	}
}

func TestABrokenProviderIsLeftAloneForAWhile(t *testing.T) {
	s := wiretest.New(t, wiretest.Reply{Status: 503, Header: map[string]string{"Retry-After": "600"}})
	h := newHouse(t, at(s))
	for range 5 {
		if _, err := h.ask(t, `{"query":"a"}`); err == nil || err.Code != protocol.LLMUnavailable {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	got := h.Status(alice)
	if got.Status != "unavailable" || got.Providers[0].Breaker != "open" || got.Providers[0].LastError != "overloaded" || got.Providers[0].RetryAfter < 500_000 {
		t.Errorf("got %+v", got)
	}
	if list := h.List(alice.Home()); list[0].Status != "unavailable" {
		t.Errorf("got %+v", list)
	}
}

func TestABreakerOpensAndCloses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &breaker{now: time.Now}
		ok := func() bool { ok, _ := b.admit(); return ok }
		for range openAfter - 1 {
			b.failed(&chat.Error{Kind: chat.Unavailable})
		}
		if !ok() {
			t.Fatal("two failures open it")
		}
		b.failed(&chat.Error{Kind: chat.Unavailable})
		if ok() {
			t.Fatal("three do not")
		}
		time.Sleep(firstPause)
		if !ok() || ok() {
			t.Fatal("after the pause exactly one may look")
		}
		b.abandoned()
		if !ok() {
			t.Fatal("nobody may look any more")
		}
		b.failed(&chat.Error{Kind: chat.Unavailable})
		if ok() {
			t.Fatal("it failed again")
		}
		time.Sleep(longestWait)
		if !ok() {
			t.Fatal("it stays open for ever")
		}
		b.succeeded()
		if !ok() || !ok() {
			t.Error("it does not close")
		}
		b.failed(&chat.Error{Kind: chat.RateLimited, RetryAfter: time.Minute})
		if _, wait := b.admit(); wait != time.Minute {
			t.Errorf("it waits %v", wait)
		}
	})
}

func TestIdenticalDeterministicQueriesShareAnAnswer(t *testing.T) {
	s := wiretest.New(t, said("one"), said("two"), said("three"), said("four"))
	c := at(s)
	c.Cache.TTL = time.Hour
	h := newHouse(t, c)
	bob := &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
	query := `{"query":"a","options":{"temperature":0}}`
	q1, _ := h.ask(t, query)
	q2, _ := h.ask(t, query)
	if q1.Result != "one" || q1.From != "provider" || q2.Result != "one" || q2.From != "cache" || q2.Cost != 0 {
		t.Errorf("got %+v, then %+v", q1, q2)
	}
	if q, _ := h.asks(t, bob, query, nil); q.Result != "two" {
		t.Errorf("bob gets %+v", q)
	}
	if q, _ := h.ask(t, `{"query":"a"}`); q.Result != "three" {
		t.Errorf("without temperature 0: %+v", q)
	}
	if _, err := h.Configure(c); err != nil {
		t.Fatal(err)
	}
	if q, _ := h.ask(t, query); q.Result != "four" {
		t.Errorf("after a new configuration: %+v", q)
	}
	var pieces int
	count := func(chat.Event) error {
		pieces++
		return nil
	}
	if q, _ := h.asks(t, alice, query, count); q.From != "cache" || pieces != 2 {
		t.Errorf("streamed from the cache: %+v with %d events", q, pieces)
	}
}

func TestAnswersOfTheCacheAreBounded(t *testing.T) {
	c := newAnswerCache(time.Now)
	config := CacheConfig{TTL: time.Hour, Bytes: 10_000}
	answer := func(n int) *Reply {
		return &Reply{Answer: &chat.Answer{Segments: []chat.Segment{{Type: chat.Text, Text: strings.Repeat("x", n)}}}}
	}
	key := func(i int) cacheKey { return cacheKey{"s", [32]byte{byte(i)}} }
	for i := range 50 {
		c.put(key(i), answer(1000), config)
	}
	c.put(key(100), answer(5000), config)
	if c.get(key(0)) != nil || c.get(key(49)) == nil || c.get(key(100)) != nil || c.spaces["s"].bytes > 10_000 {
		t.Errorf("%d bytes are kept", c.spaces["s"].bytes)
	}
}

func TestBudgetsHold(t *testing.T) {
	for name, test := range map[string]struct {
		budget Budget
		most   int
	}{
		"requests":             {Budget{Per: "principal", Window: "day", Requests: 3}, 3},
		"tokens":               {Budget{Per: "principal", Window: "hour", Tokens: 40}, 3}, // 15 each, and less than 15 are left
		"cost":                 {Budget{Per: "space", Window: "month", Cost: 3}, 2},       // 2 each
		"of somebody else":     {Budget{Per: "principal", Of: "bob", Window: "day", Requests: 1}, 5},
		"of this one":          {Budget{Per: "principal", Of: "alice", Window: "day", Requests: 1}, 1},
		"of a space, together": {Budget{Per: "space", Window: "day", Requests: 2}, 2},
	} {
		c := at(wiretest.New(t, said("ok")))
		c.Budgets = []Budget{test.budget}
		h := newHouse(t, c)
		answered := 0
		for range 5 {
			_, err := h.ask(t, `{"query":"a"}`)
			switch {
			case err == nil:
				answered++
			case err.Code != protocol.BudgetSpent || err.Details["retry_after_ms"] == nil:
				t.Errorf("%s: %v", name, err)
			}
		}
		if answered != test.most {
			t.Errorf("%s: %d were answered", name, answered)
		}
	}
}

func TestWhatWasSpentIsRemembered(t *testing.T) {
	table := recordstest.New[Spent]()
	c := at(wiretest.New(t, said("ok")))
	c.Budgets = []Budget{{Per: "principal", Window: "month", Requests: 1}}
	h := newHouse(t, c, func(o *Options) { o.Spent = table })
	if _, err := h.ask(t, `{"query":"a"}`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Run(ctx); err != nil {
		t.Fatal(err)
	}
	h = newHouse(t, c, func(o *Options) { o.Spent = table })
	h.budgets.load()
	if _, err := h.ask(t, `{"query":"a"}`); err == nil || err.Code != protocol.BudgetSpent {
		t.Errorf("a restart gives a new budget: %v", err)
	}
}

func TestBudgetsBeginAnewWithTheirWindow(t *testing.T) {
	now := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
	tr := newTreasury(nil, func() time.Time { return now })
	tr.configure([]Budget{{Per: "principal", Window: "month", Requests: 1}})
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 1}); err == nil {
		t.Fatal("a second one")
	}
	now = now.Add(time.Minute)
	if _, err := tr.reserve(t.Context(), alice, demand{tokens: 1}); err != nil {
		t.Errorf("in March: %v", err)
	}
}

func TestWhatMustNotLeaveIsTakenOut(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	c := at(s)
	c.Redact = []Redaction{
		{Kinds: []string{"email", "phone", "card", "iban", "ip", "key"}},
		{Spaces: []string{"other"}, Pattern: "bedroom"},
		{Pattern: `project \w+`, With: "a project"},
	}
	h := newHouse(t, c)
	if _, err := h.ask(t, `{"query":"Ask ann@example.org or +49 30 1234567 about 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, 10.0.0.1 and sk-abcdefghijklmnopqrstuvwx in the bedroom of project Zeus"}`); err != nil {
		t.Fatal(err)
	}
	body := string(s.Requests()[0].Body)
	if !strings.Contains(body, `"Ask [email-1] or [phone-1] about [card-1], [iban-1], [ip-1] and [key-1] in the bedroom of a project"`) {
		t.Errorf("asked %s", body)
	}
}

func TestUnderLoadLessIsPromised(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	c := at(s)
	c.Models = append(c.Models, ModelConfig{Name: "tiny", Routes: []Route{{Provider: "p0"}}})
	c.Degrade = []Degradation{{Above: 1, Model: "tiny", MaxTokens: 7}, {Above: 5, Refuse: true}}
	h := newHouse(t, c)
	if q, _ := h.ask(t, `{"query":"a"}`); q.Model != "m" {
		t.Errorf("alone: %+v", q)
	}
	h.active.Add(3)
	if q, _ := h.ask(t, `{"query":"a","options":{"max_tokens":100}}`); q.Model != "tiny" || !strings.Contains(string(s.Requests()[1].Body), `"max_tokens":7`) {
		t.Errorf("with others: %+v, %s", q, s.Requests()[1].Body)
	}
	h.active.Add(3)
	if _, err := h.ask(t, `{"query":"a"}`); err == nil || err.Code != protocol.Busy {
		t.Errorf("with many: %v", err)
	}
}

func TestSpacesSeeTheirModelsOnly(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	c := at(s)
	c.Models[0].Spaces = []string{"lab"}
	h := newHouse(t, c)
	if _, err := h.ask(t, `{"query":"a","options":{"model":"m"}}`); err == nil || err.Code != protocol.NotFound || err.Details["param_name"] != "options.model" {
		t.Errorf("got %v", err)
	}
	lab := &protocol.Principal{ID: "x", Space: "lab"}
	for _, name := range []string{"m", "small", ""} {
		params := fmt.Sprintf(`{"query":"a","options":{"model":%q}}`, name)
		if name == "" {
			params = `{"query":"a"}`
		}
		if q, err := h.asks(t, lab, params, nil); err != nil || q.Model != "m" {
			t.Errorf("as %q: %+v, %v", name, q, err)
		}
	}
}

func TestStatusIsOfTheModelsOfASpace(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	c := at(s)
	c.Models[0].Spaces = []string{"lab"}
	h := newHouse(t, c)
	h.active.Add(3) // queries of whoever
	for name, test := range map[string]struct {
		who       *protocol.Principal
		status    string
		providers int
		active    int64
	}{
		"who may use none":  {alice, "unconfigured", 0, 0},
		"who may use it":    {&protocol.Principal{Kind: protocol.KindOperator, ID: "x", Space: "lab"}, "available", 1, 0},
		"the administrator": {&protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}, "available", 1, 3},
	} {
		got := h.Status(test.who)
		if got.Status != test.status || len(got.Providers) != test.providers || got.ActiveRequests != test.active {
			t.Errorf("%s: %+v", name, got)
		}
	}
	h.active.Add(-3)
}

func TestACallerWhoGoesAwayEndsTheRequest(t *testing.T) {
	slow := said("late")
	slow.Hang = time.Minute
	h := newHouse(t, at(wiretest.New(t, slow)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.Ask(ctx, Question{Principal: alice, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "a")}}}, nil)
		done <- err
	}()
	cancel()
	if err := <-done; err == nil || asFailure(err) != nil {
		t.Errorf("got %v", err)
	}
	if state, _, _ := h.catalog.Load().providers[0].breaker.state(); state != "closed" {
		t.Error("the provider is blamed")
	}
}

func TestConfigurationsAreChecked(t *testing.T) {
	good := at(&wiretest.Server{URL: "https://example.org/v1"})
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"providers[0].wire":            func(c *Config) { c.Providers[0].Wire = "smoke" },
		"providers[0].base_url":        func(c *Config) { c.Providers[0].BaseURL = "https://user:pw@example.org" },
		"providers[1].name":            func(c *Config) { c.Providers = append(c.Providers, c.Providers[0]) },
		"models[0].routes[0].provider": func(c *Config) { c.Models[0].Routes[0].Provider = "nobody" },
		"models[0].routes":             func(c *Config) { c.Models[0].Routes = nil },
		"models[0]":                    func(c *Config) { c.Models[0].Aliases = []string{"m"} },
		"default":                      func(c *Config) { c.Default = "nobody" },
		"budgets[0]":                   func(c *Config) { c.Budgets = []Budget{{Per: "house", Window: "day"}} },
		"budgets[0]: cost":             func(c *Config) { c.Budgets = []Budget{{Per: perSpace, Window: "day", Cost: math.NaN()}} },
		"redact[0]":                    func(c *Config) { c.Redact = []Redaction{{Pattern: "("}} },
		"degrade[0].above":             func(c *Config) { c.Degrade = []Degradation{{Refuse: true}} },
	} {
		c := at(&wiretest.Server{URL: "https://example.org/v1"})
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := newHouse(t, good)
	if _, err := h.Configure(Config{Default: "x"}); err == nil || h.catalog.Load().revision != 1 {
		t.Error("a bad configuration replaces a good one")
	}
	if revision, err := h.Configure(good); err != nil || revision != 2 {
		t.Errorf("revision %d, %v", revision, err)
	}
}

func TestLoadIsSharedByWeight(t *testing.T) {
	single := func() *provider { return &provider{places: fair.New(fair.Options{Capacity: 1})} }
	p, q, backup := single(), single(), single()
	anybody := fair.Party{Principal: "anybody"}
	m := &model{targets: []target{{Route{Weight: 3}, p}, {Route{Weight: 1}, q}, {Route{Priority: 1, Weight: 100}, backup}}}
	first := map[*provider]int{}
	for range 4000 {
		order := m.order(anybody)
		first[order[0].provider]++
		if order[2].provider != backup {
			t.Fatal("the backup comes before its turn")
		}
	}
	if first[p] < 2800 || first[p] > 3200 {
		t.Errorf("three quarters of 4000 are %d", first[p])
	}
	if err := p.places.TryAcquire(fair.Party{Principal: "somebody"}, 1); err != nil {
		t.Fatal(err)
	}
	if m.order(anybody)[0].provider != q {
		t.Error("a full provider comes first")
	}
}
