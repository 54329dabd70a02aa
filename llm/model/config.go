package model

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/llm/wire/anthropic"
	"github.com/aibridge/aibridge/llm/wire/gemini"
	"github.com/aibridge/aibridge/llm/wire/openai"
	"github.com/aibridge/aibridge/llm/wire/responses"
)

// Config is the configuration of providers, models and budgets. Durations are written
// as in 30s.
type Config struct {
	// Revision is the number of the configuration, for callers that keep a history; 0
	// is the next number.
	Revision uint64 `yaml:"-"`

	Providers []ProviderConfig `yaml:"providers,omitempty"`
	Models    []ModelConfig    `yaml:"models,omitempty"`
	Default   string           `yaml:"default,omitempty"` // model of queries that name none; the first model if empty
	Budgets   []Budget         `yaml:"budgets,omitempty"`
	Cache     CacheConfig      `yaml:"cache,omitempty"`
	Redact    []Redaction      `yaml:"redact,omitempty"`
	Degrade   []Degradation    `yaml:"degrade,omitempty"`
	Probe     time.Duration    `yaml:"probe,omitempty"` // interval of probes of an idle provider; 0 is 30s, negative never
}

// ProviderConfig is one service that runs models.
type ProviderConfig struct {
	Name    string `yaml:"name,omitempty"`
	Wire    string `yaml:"wire,omitempty"`     // openai, responses, anthropic or gemini
	BaseURL string `yaml:"base_url,omitempty"` // https, or http to loopback and private addresses
	// KeyEnv or KeyFile names the environment variable or the file with the key. The
	// key itself is never in the configuration.
	KeyEnv  string            `yaml:"key_env,omitempty"`
	KeyFile string            `yaml:"key_file,omitempty"`
	Header  map[string]string `yaml:"header,omitempty"` // of every request, besides the key
	Dialect Dialect           `yaml:"dialect,omitempty"`

	Concurrency int           `yaml:"concurrency,omitempty"` // requests at once; 0 is 256
	Idle        time.Duration `yaml:"idle,omitempty"`        // silence after which an answer is given up; 0 is 2m
}

// Dialect holds the differences of a service from others on its wire. Dialects of other
// wires are ignored.
type Dialect struct {
	OpenAI    openai.Dialect    `yaml:"openai,omitempty"`
	Responses responses.Dialect `yaml:"responses,omitempty"`
	Anthropic anthropic.Dialect `yaml:"anthropic,omitempty"`
	Gemini    gemini.Dialect    `yaml:"gemini,omitempty"`
}

// ModelConfig is the configuration of a model, with its routes.
type ModelConfig struct {
	Name       string    `yaml:"name,omitempty"`
	Kind       ModelKind `yaml:"kind,omitempty"` // chat by default
	Aliases    []string  `yaml:"aliases,omitempty"`
	Version    string    `yaml:"version,omitempty"`
	Routes     []Route   `yaml:"routes,omitempty"`
	Spaces     []string  `yaml:"spaces,omitempty"`     // spaces that may use it; all by default
	MaxTokens  int       `yaml:"max_tokens,omitempty"` // upper limit of an answer
	Dimensions int       `yaml:"dimensions,omitempty"` // of vectors; 0 leaves it to the model
}

// A ModelKind is the purpose of a model.
type ModelKind string

// The kinds of models.
const (
	ChatModel      ModelKind = "chat"
	EmbeddingModel ModelKind = "embedding" // turns texts into vectors, and gives no answers
)

// A Route is a provider of a model. Routes with the lowest priority number are tried
// first; among equals the load is shared by weight.
type Route struct {
	Provider string `yaml:"provider,omitempty"`
	Model    string `yaml:"model,omitempty"` // as the provider names it; the model's own name by default
	Priority int    `yaml:"priority,omitempty"`
	Weight   int    `yaml:"weight,omitempty"` // 0 is 1
	Price    Price  `yaml:"price,omitempty"`
}

// Price is the price of a million tokens, in the currency of the budgets.
type Price struct {
	Input      float64 `yaml:"input,omitempty"`
	Output     float64 `yaml:"output,omitempty"`
	Cached     float64 `yaml:"cached,omitempty"`
	CacheWrite float64 `yaml:"cache_write,omitempty"`
}

// CacheConfig is the configuration of the cache of answers.
type CacheConfig struct {
	TTL    time.Duration `yaml:"ttl,omitempty"`    // 0 keeps none
	Bytes  int           `yaml:"bytes,omitempty"`  // of each space; 0 is 16 MiB
	Shared bool          `yaml:"shared,omitempty"` // across the principals of a space
}

// Degradation is a rule for load: it replaces the model, shortens answers or refuses
// queries above a number of concurrent ones.
type Degradation struct {
	Above     int    `yaml:"above,omitempty"`      // number of concurrent queries
	Model     string `yaml:"model,omitempty"`      // model that answers instead
	MaxTokens int    `yaml:"max_tokens,omitempty"` // longest answer
	Refuse    bool   `yaml:"refuse,omitempty"`     // with 4008
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// Check returns all faults of a configuration as one error.
func (c *Config) Check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	providers := make(map[string]bool)
	for i, p := range c.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		if !nameRule.MatchString(p.Name) || providers[p.Name] {
			fail("%s.name: %q is no name, or the second of that name", at, p.Name)
		}
		providers[p.Name] = true
		if !slices.Contains(wires, p.Wire) {
			fail("%s.wire: %q is none of %q", at, p.Wire, wires)
		}
		if reason := checkURL(p.BaseURL); reason != "" {
			fail("%s.base_url: %s", at, reason)
		}
		if p.KeyEnv != "" && p.KeyFile != "" {
			fail("%s: key_env and key_file exclude each other", at)
		}
		if p.Concurrency < 0 {
			fail("%s.concurrency: must not be negative", at)
		}
	}
	names := make(map[string]bool)
	for i, m := range c.Models {
		at := fmt.Sprintf("models[%d]", i)
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			if !nameRule.MatchString(name) || names[name] {
				fail("%s: %q is no name, or the second of that name", at, name)
			}
			names[name] = true
		}
		if len(m.Routes) == 0 {
			fail("%s.routes: at least one is needed", at)
		}
		if reason := m.checkKind(c.Providers); reason != "" {
			fail("%s.%s", at, reason)
		}
		for j, r := range m.Routes {
			if !providers[r.Provider] {
				fail("%s.routes[%d].provider: there is no provider %q", at, j, r.Provider)
			}
			if r.Weight < 0 {
				fail("%s.routes[%d].weight: must not be negative", at, j)
			}
		}
	}
	if c.Default != "" && !c.answers(c.Default) {
		fail("default: there is no model %q", c.Default)
	}
	for i, b := range c.Budgets {
		if err := b.check(); err != nil {
			fail("budgets[%d]: %w", i, err)
		}
	}
	for i, r := range c.Redact {
		if _, err := r.compile(); err != nil {
			fail("redact[%d]: %w", i, err)
		}
	}
	for i, d := range c.Degrade {
		if d.Model != "" && !c.answers(d.Model) {
			fail("degrade[%d].model: there is no model %q", i, d.Model)
		}
		if d.Above < 1 {
			fail("degrade[%d].above: must be positive", i)
		}
	}
	return errors.Join(errs...)
}

// answers reports whether a name is the name or an alias of a chat model.
func (c *Config) answers(name string) bool {
	return slices.ContainsFunc(c.Models, func(m ModelConfig) bool {
		return m.Kind != EmbeddingModel && (m.Name == name || slices.Contains(m.Aliases, name))
	})
}

// checkKind returns the fault of the fields that depend on the kind of a model, "" for
// none.
func (m *ModelConfig) checkKind(providers []ProviderConfig) string {
	switch m.Kind {
	case "", ChatModel:
		if m.Dimensions != 0 {
			return "dimensions: only models of kind embedding have any"
		}
		return ""
	case EmbeddingModel:
	default:
		return fmt.Sprintf("kind: %q is neither chat nor embedding", m.Kind)
	}
	if m.Dimensions < 0 {
		return "dimensions: must not be negative"
	}
	if m.MaxTokens != 0 {
		return "max_tokens: a model of kind embedding answers nothing"
	}
	for j, r := range m.Routes {
		if r.Model != m.Routes[0].Model {
			return fmt.Sprintf("routes[%d].model: vectors of %q cannot be compared with those of %q", j, r.Model, m.Routes[0].Model)
		}
		for _, p := range providers {
			if p.Name == r.Provider && p.Wire == "anthropic" {
				return fmt.Sprintf("routes[%d].provider: the wire anthropic has no embeddings", j)
			}
		}
	}
	return ""
}

var wires = []string{"openai", "responses", "anthropic", "gemini"}

func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Sprintf("%q is not a URL", text)
	case u.Scheme != "https" && u.Scheme != "http":
		return "must begin with https://, or with http:// for a service on this machine or network"
	case cleartext.Exposes(u) != "":
		return cleartext.Exposes(u)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "may have neither a user nor a query"
	}
	return ""
}

// key reads the key of a provider.
func (p *ProviderConfig) key() (string, error) {
	switch {
	case p.KeyEnv != "":
		key := os.Getenv(p.KeyEnv)
		if key == "" {
			return "", fmt.Errorf("provider %s: the environment variable %s is empty", p.Name, p.KeyEnv)
		}
		return key, nil
	case p.KeyFile != "":
		data, err := os.ReadFile(p.KeyFile)
		if err != nil {
			return "", fmt.Errorf("provider %s: %w", p.Name, err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	return "", nil
}

// Simple is the configuration of one model at one OpenAI-compatible service.
func Simple(baseURL, model, keyEnv string) Config {
	return Config{
		Providers: []ProviderConfig{{Name: "default", Wire: "openai", BaseURL: baseURL, KeyEnv: keyEnv}},
		Models:    []ModelConfig{{Name: model, Routes: []Route{{Provider: "default"}}}},
	}
}
