package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

// embedding is a configuration with a model for embeddings at these servers.
func embedding(wire string, servers ...*wiretest.Server) Config {
	c := Config{Probe: -1, Models: []ModelConfig{{Name: "meaning", Kind: EmbeddingModel, Dimensions: 2}}}
	for i, s := range servers {
		name := fmt.Sprint("p", i)
		c.Providers = append(c.Providers, ProviderConfig{Name: name, Wire: wire, BaseURL: s.URL})
		c.Models[0].Routes = append(c.Models[0].Routes, Route{Provider: name, Model: "small", Priority: i, Price: Price{Input: 1e6}})
	}
	return c
}

const twoVectors = `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0,1]},{"object":"embedding","index":0,"embedding":[1,0.5]}],"model":"small","usage":{"prompt_tokens":7,"total_tokens":7}}`

func TestTextsBecomeVectorsOnEveryWire(t *testing.T) {
	for wire, want := range map[string]struct{ reply, path, body string }{
		"openai":    {twoVectors, "/embeddings", `{"model":"small","input":["warm","[redacted]"],"dimensions":2}`},
		"responses": {twoVectors, "/embeddings", `{"model":"small","input":["warm","[redacted]"],"dimensions":2}`},
		"gemini": {`{"embeddings":[{"values":[1,0.5]},{"values":[0,1]}]}`, "/v1beta/models/small:batchEmbedContents",
			`{"requests":[{"model":"models/small","content":{"parts":[{"text":"warm"}]},"outputDimensionality":2},{"model":"models/small","content":{"parts":[{"text":"[redacted]"}]},"outputDimensionality":2}]}`},
	} {
		t.Run(wire, func(t *testing.T) {
			server := wiretest.New(t, wiretest.JSON(200, want.reply))
			c := embedding(wire, server)
			c.Redact = []Redaction{{Pattern: "alice@example.org"}}
			h := newHouse(t, c)
			if name := h.Embeds(protocol.DefaultSpace); name != "small/2" {
				t.Errorf("the vectors are %q", name)
			}
			made, err := h.Embed(t.Context(), EmbedQuestion{Principal: alice, Texts: []string{"warm", "alice@example.org"}})
			if err != nil || fmt.Sprint(made.Vectors) != "[[1 0.5] [0 1]]" || made.Model != "small/2" {
				t.Fatalf("made %+v, %v", made, err)
			}
			asked := server.Requests()[0]
			if asked.Path != want.path || string(asked.Body) != want.body {
				t.Errorf("asked %s %s", asked.Path, asked.Body)
			}
		})
	}
}

func TestOddVectorsAreRefused(t *testing.T) {
	for name, reply := range map[string]wiretest.Reply{
		"too few":         wiretest.JSON(200, `{"data":[{"index":0,"embedding":[1]}]}`),
		"a number twice":  wiretest.JSON(200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`),
		"no such number":  wiretest.JSON(200, `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`),
		"of two lengths":  wiretest.JSON(200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`),
		"empty":           wiretest.JSON(200, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`),
		"texts":           wiretest.JSON(200, `{"data":[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"}]}`),
		"no JSON":         wiretest.JSON(200, `{"data":[`),
		"a stream":        wiretest.Stream(`{"data":[]}`),
		"an error within": wiretest.JSON(200, `{"error":{"message":"no such model","code":"model_not_found"}}`),
		"nothing":         {Header: map[string]string{"Content-Type": "text/plain"}},
		"refused":         wiretest.JSON(401, `{"error":{"message":"bad key"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, embedding("openai", wiretest.New(t, reply)))
			made, err := h.Embed(t.Context(), EmbedQuestion{Principal: alice, Texts: []string{"a", "b"}})
			if err == nil {
				t.Errorf("made %v", made.Vectors)
			}
			if shown := new(protocol.Error); !errors.As(err, &shown) {
				t.Errorf("told %v", err)
			}
		})
	}
}

func TestTheNextProviderMakesTheVectorsWhenOneFails(t *testing.T) {
	first, second := wiretest.New(t, wiretest.JSON(500, `{}`)), wiretest.New(t, wiretest.JSON(200, twoVectors))
	h := newHouse(t, embedding("openai", first, second))
	for range 5 {
		if _, err := h.Embed(t.Context(), EmbedQuestion{Principal: alice, Texts: []string{"a", "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(first.Requests()); n != openAfter {
		t.Errorf("who fails was asked %d times", n)
	}
	if state, _, _ := h.catalog.Load().providers[0].breaker.state(); state != "closed" {
		t.Errorf("for answers it is %s", state)
	}
}

func TestVectorsAreOnlyWaitedForSoLong(t *testing.T) {
	server := wiretest.New(t, wiretest.Reply{Hang: time.Hour})
	h := newHouse(t, embedding("openai", server))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Embed(ctx, EmbedQuestion{Principal: alice, Texts: []string{"a", "b"}}); protocol.CodeOf(err) != protocol.TimedOut {
		t.Errorf("got %v", err)
	}
}

func TestEmbeddingsArePaidForByWhoAsks(t *testing.T) {
	c := embedding("openai", wiretest.New(t, wiretest.JSON(200, twoVectors)))
	c.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 10, Requests: 1}}
	h := newHouse(t, c)
	ask := func(who *protocol.Principal) error {
		_, err := h.Embed(t.Context(), EmbedQuestion{Principal: who, Space: protocol.DefaultSpace, Texts: []string{"four", "more"}})
		return err
	}
	for range 2 { // 7 tokens each; no requests of their own
		if err := ask(alice); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(alice); protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("beyond the budget: %v", err)
	}
	if err := ask(nil); err != nil {
		t.Errorf("what is for everybody: %v", err)
	}
}

func TestAProviderOfEmbeddingsTakesNoWholeBudget(t *testing.T) {
	c := embedding("openai", wiretest.New(t, wiretest.JSON(200, strings.ReplaceAll(twoVectors, ":7", ":9000000000000000000"))))
	c.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 1000}}
	h := newHouse(t, c)
	if _, err := h.Embed(t.Context(), EmbedQuestion{Principal: alice, Space: protocol.DefaultSpace, Texts: []string{"four", "more"}}); err != nil {
		t.Fatal(err)
	}
	if spent := h.budgets.list(alice)[0].Limits[0].Spent; spent != 2 {
		t.Errorf("%v tokens are spent", spent)
	}
}

func TestEmbeddingsArePaidForWhereTheProviderCountsNothing(t *testing.T) {
	c := embedding("gemini", wiretest.New(t, wiretest.JSON(200, `{"embeddings":[{"values":[1,0.5]},{"values":[0,1]}]}`)))
	c.Budgets = []Budget{{Per: "principal", Window: "day", Tokens: 10}}
	h := newHouse(t, c)
	var err error
	asked := 0
	for ; err == nil && asked < 20; asked++ { // about 2 tokens each
		_, err = h.Embed(t.Context(), EmbedQuestion{Principal: alice, Texts: []string{"four", "more"}})
	}
	if protocol.CodeOf(err) != protocol.BudgetSpent {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestAModelForEmbeddingsAnswersNobody(t *testing.T) {
	server := wiretest.New(t, wiretest.JSON(200, twoVectors))
	c := embedding("openai", server)
	c.Models[0].Aliases, c.Models[0].Spaces = []string{"default-model"}, []string{"default"}
	h := newHouse(t, c)
	for _, params := range []string{`{"query":"Hi"}`, `{"query":"Hi","options":{"model":"meaning"}}`, `{"query":"Hi","options":{"model":"default-model"}}`} {
		if _, err := h.ask(t, params); err == nil {
			t.Errorf("%s is answered", params)
		}
	}
	if list := h.List(protocol.DefaultSpace); len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
	if name := h.Embeds("lab"); name != "" {
		t.Errorf("the space lab has the vectors %q", name)
	}
	if _, err := h.Embed(t.Context(), EmbedQuestion{Principal: alice, Space: "lab", Texts: []string{"a"}}); !errors.Is(err, ErrNoEmbeddings) {
		t.Errorf("the space lab: %v", err)
	}
}

func TestModelsForEmbeddingsAreChecked(t *testing.T) {
	for want, text := range map[string]string{
		"models[0].kind":                                   `{models: [{name: m, kind: vectors, routes: [{provider: p}]}]}`,
		"models[0].dimensions":                             `{models: [{name: m, dimensions: 3, routes: [{provider: p}]}]}`,
		"models[0].max_tokens":                             `{models: [{name: m, kind: embedding, max_tokens: 3, routes: [{provider: p}]}]}`,
		"models[0].routes[1].model":                        `{models: [{name: m, kind: embedding, routes: [{provider: p, model: a}, {provider: p, model: b}]}]}`,
		"models[0].routes[0].provider: the wire anthropic": `{models: [{name: m, kind: embedding, routes: [{provider: c}]}]}`,
		"default: there is no model":                       `{default: m, models: [{name: m, kind: embedding, routes: [{provider: p}]}]}`,
	} {
		c, err := ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c.Providers = []ProviderConfig{{Name: "p", Wire: "openai", BaseURL: "http://127.0.0.1/v1"}, {Name: "c", Wire: "anthropic", BaseURL: "http://127.0.0.1"}}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add([]byte(twoVectors))
	f.Add([]byte(`{"embeddings":[{"values":[1,0.5]},{"values":[0,1]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, wire := range []string{"openai", "gemini"} {
			c := Config{Probe: -1, Providers: []ProviderConfig{{Name: "p", Wire: wire, BaseURL: "http://127.0.0.1"}},
				Models: []ModelConfig{{Name: "m", Kind: EmbeddingModel, Routes: []Route{{Provider: "p"}}}}}
			s := New(Options{Transport: wiretest.Canned("application/json", data)})
			if _, err := s.Configure(c); err != nil {
				t.Fatal(err)
			}
			made, err := s.Embed(t.Context(), EmbedQuestion{Principal: alice, Texts: []string{"a", "b"}})
			if err != nil {
				continue
			}
			if len(made.Vectors) != 2 || len(made.Vectors[0]) == 0 || len(made.Vectors[0]) != len(made.Vectors[1]) {
				t.Errorf("made %v of %s", made.Vectors, data)
			}
			if _, err := json.Marshal(made); err != nil {
				t.Error(err)
			}
		}
	})
}
