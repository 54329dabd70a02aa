package model

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/anthropic"
	"github.com/aibridge/aibridge/llm/wire/gemini"
	"github.com/aibridge/aibridge/llm/wire/openai"
	"github.com/aibridge/aibridge/llm/wire/responses"
)

// A catalog is the working form of a configuration. It is immutable: a new
// configuration gets a new one, while queries under way keep theirs.
type catalog struct {
	revision  uint64
	config    Config
	providers []*provider
	models    []*model
	byName    map[string]*model // aliases too
	redactors []redactor
}

// A provider is a service of the configuration with its state.
type provider struct {
	config ProviderConfig
	chat.Provider
	breaker breaker
	embeds  breaker         // for embeddings, which have less time
	places  *fair.Semaphore // of concurrent requests
	used    atomic.Int64    // unix ns of the last request
	active  atomic.Int64
	recent  recent
	vendor  string               // name in OpenTelemetry
	server  []attribute.KeyValue // its address, for spans
}

// A model is a configured model with its targets.
type model struct {
	ModelConfig
	targets []target // by priority
}

// A target is one route of a model with its provider.
type target struct {
	Route
	provider *provider
}

const (
	defaultConcurrency = 256
	defaultIdle        = 2 * time.Minute

	// placePatience is the time that a query waits for a place when all providers of
	// its model have none for its principal.
	placePatience = 10 * time.Second
	// leastWaiting is the number of queries that may wait at a provider with few places.
	leastWaiting = 64
)

// newCatalog returns the catalog of a configuration. Unchanged providers keep their
// state.
func newCatalog(c Config, revision uint64, transport http.RoundTripper, now func() time.Time, before *catalog) (*catalog, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	cat := &catalog{revision: revision, config: c, byName: make(map[string]*model)}
	byName := make(map[string]*provider)
	for _, pc := range c.Providers {
		p, err := newProvider(pc, transport, now)
		if err != nil {
			return nil, err
		}
		if before != nil {
			p.inherit(before)
		}
		byName[pc.Name] = p
		cat.providers = append(cat.providers, p)
	}
	for _, mc := range c.Models {
		m := &model{ModelConfig: mc}
		for _, r := range mc.Routes {
			if r.Model == "" {
				r.Model = mc.Name
			}
			r.Weight = max(r.Weight, 1)
			m.targets = append(m.targets, target{r, byName[r.Provider]})
		}
		slices.SortStableFunc(m.targets, func(a, b target) int { return a.Priority - b.Priority })
		cat.models = append(cat.models, m)
		for _, name := range append([]string{mc.Name}, mc.Aliases...) {
			cat.byName[name] = m
		}
	}
	for _, r := range c.Redact {
		list, err := r.compile()
		if err != nil {
			return nil, err
		}
		cat.redactors = append(cat.redactors, list...)
	}
	return cat, nil
}

func newProvider(c ProviderConfig, transport http.RoundTripper, now func() time.Time) (*provider, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Idle == 0 {
		c.Idle = defaultIdle
	}
	client := &wire.Client{
		HTTP:    &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		BaseURL: strings.TrimRight(c.BaseURL, "/"),
		Header:  http.Header{"User-Agent": {"aibridge"}},
		Idle:    c.Idle,
		Now:     now,
	}
	for name, value := range c.Header {
		client.Header.Set(name, value)
		client.Secrets = append(client.Secrets, value)
	}
	p := &provider{config: c, vendor: vendor(&c), server: server(&c), places: fair.New(fair.Options{
		What: "queries to a language model", Capacity: int64(c.Concurrency), Waiting: max(c.Concurrency, leastWaiting), Patience: placePatience,
	})}
	p.breaker.now, p.embeds.now = now, now
	p.used.Store(now().UnixNano()) // no probe at once
	bearer := ""
	switch c.Wire {
	case "openai":
		bearer, p.Provider = "Authorization", &openai.Provider{Client: client, Dialect: c.Dialect.OpenAI}
	case "responses":
		bearer, p.Provider = "Authorization", &responses.Provider{Client: client, Dialect: c.Dialect.Responses}
	case "anthropic":
		client.BaseURL = strings.TrimSuffix(client.BaseURL, "/v1") // both forms are common
		client.Header.Set("Anthropic-Version", anthropic.Version)
		bearer, p.Provider = "X-Api-Key", &anthropic.Provider{Client: client, Dialect: c.Dialect.Anthropic}
	case "gemini":
		client.BaseURL = strings.TrimSuffix(client.BaseURL, "/v1beta")
		bearer, p.Provider = "X-Goog-Api-Key", &gemini.Provider{Client: client, Dialect: c.Dialect.Gemini}
	default:
		return nil, fmt.Errorf("provider %s: the wire %q is not known", c.Name, c.Wire)
	}
	if key != "" {
		client.Secrets = append(client.Secrets, key)
		if bearer == "Authorization" {
			client.Header.Set(bearer, "Bearer "+key)
		} else {
			client.Header.Set(bearer, key)
		}
	}
	return p, nil
}

// inherit copies the state of the same service under an earlier configuration.
func (p *provider) inherit(before *catalog) {
	for _, old := range before.providers {
		if old.config.Name == p.config.Name && old.config.BaseURL == p.config.BaseURL && old.config.KeyEnv == p.config.KeyEnv && old.config.KeyFile == p.config.KeyFile {
			p.breaker.inherit(&old.breaker)
			p.embeds.inherit(&old.embeds)
			p.used.Store(old.used.Load())
		}
	}
}

// find returns the model of a name, nil if the principal may not ask it. The name ""
// stands for the default model, or for the first allowed one if the default is not
// allowed.
func (c *catalog) find(name string, may access) *model {
	chosen := name == ""
	if chosen {
		name = c.config.Default
	}
	m := c.byName[name]
	if chosen && (m == nil && name == "" || len(may.models) > 0 && (m == nil || !may.allows(m))) {
		for _, candidate := range c.models {
			if candidate.Kind != EmbeddingModel && may.allows(candidate) {
				return candidate
			}
		}
		return nil
	}
	if m == nil || m.Kind == EmbeddingModel || !may.allows(m) {
		return nil
	}
	return m
}

// embedding returns the first model for embeddings that a space may use, nil
// for none.
func (c *catalog) embedding(space string) *model {
	for _, m := range c.models {
		if m.Kind == EmbeddingModel && m.allows(space) {
			return m
		}
	}
	return nil
}

// serves reports whether a provider has a model that a space may use.
func (c *catalog) serves(p *provider, space string) bool {
	return slices.ContainsFunc(c.models, func(m *model) bool {
		return m.allows(space) && slices.ContainsFunc(m.targets, func(t target) bool { return t.provider == p })
	})
}

func (m *model) allows(space string) bool {
	return len(m.Spaces) == 0 || slices.Contains(m.Spaces, space)
}

// order returns the targets of a model in the order of attempts: by priority, and among
// equals at random by weight, those with a place for the party first.
func (m *model) order(who fair.Party) []target {
	type drawn struct {
		target
		lot float64
	}
	list := make([]drawn, len(m.targets))
	for i, t := range m.targets {
		list[i] = drawn{t, rand.ExpFloat64() / float64(t.Weight)} // the probability of the least lot is proportional to the weight
		if !t.provider.places.Free(who, 1) {
			list[i].lot = math.Inf(1)
		}
	}
	slices.SortStableFunc(list, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.lot, b.lot))
	})
	order := make([]target, len(list))
	for i, d := range list {
		order[i] = d.target
	}
	return order
}
