package model

import (
	"cmp"
	"slices"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// Status is the state of the models that a space may use.
type Status struct {
	Status         string           `json:"status" enum:"available,degraded,unavailable,unconfigured" doc:"available; degraded if the last request to some provider failed; unavailable if the breakers of all are open; unconfigured without providers"`
	Uptime         float64          `json:"uptime" doc:"seconds since the service started"`
	ActiveRequests int64            `json:"active_requests" doc:"queries under way, of all spaces; for administrators"`
	Revision       uint64           `json:"revision" doc:"of the configuration"`
	Cache          *CacheStatus     `json:"cache,omitempty" doc:"cache of answers of the caller's space; absent without models"`
	Providers      []ProviderStatus `json:"providers" doc:"providers of the models that the caller's space may use, in the order of the configuration"`
	Others         []BridgeStatus   `json:"others,omitempty" doc:"state of the models at the other bridges of a cluster, each of which has its own connections; for administrators"`
}

// BridgeStatus is the state of the models at another bridge.
type BridgeStatus struct {
	Bridge         string           `json:"bridge_id" doc:"id of the bridge"`
	Status         string           `json:"status" enum:"available,degraded,unavailable,unconfigured,silent" doc:"as above; silent if it did not answer in time, and then the other fields are empty"`
	ActiveRequests int64            `json:"active_requests" doc:"queries under way there"`
	Revision       uint64           `json:"revision" doc:"of its configuration"`
	Providers      []ProviderStatus `json:"providers" doc:"state of the providers at that bridge"`
}

// ProviderStatus is the state of one provider.
type ProviderStatus struct {
	Name           string `json:"name" doc:"name of the provider"`
	Wire           string `json:"wire" doc:"protocol that it speaks: openai, responses, anthropic or gemini"`
	Breaker        string `json:"breaker" enum:"closed,open,half-open" doc:"state of the circuit breaker: closed while the provider is used; open during a pause after failures; half-open when the next request is a probe"`
	LastError      string `json:"last_error,omitempty" doc:"failure of its last request"`
	RetryAfter     int64  `json:"retry_after_ms,omitempty" doc:"rest of the pause, in milliseconds"`
	ActiveRequests int64  `json:"active_requests" doc:"requests under way, of all spaces; for administrators"`
	Concurrency    int    `json:"concurrency" doc:"greatest number of concurrent requests"`

	Models  []string `json:"models" doc:"the models that run there, of those that the caller's space may use"`
	Latency *Latency `json:"latency,omitempty" doc:"times of its answers, for all spaces; for administrators; absent without an answer within an hour"`
}

// Status returns the state of the models that the space of a principal may use. Their
// load, which includes that of other spaces, is for administrators alone.
func (s *Service) Status(who *protocol.Principal) Status {
	return s.status(who.Unbounded(), string(who.Home()))
}

// StatusHere is the state of all models at this bridge.
func (s *Service) StatusHere() Status { return s.status(true, string(protocol.DefaultSpace)) }

func (s *Service) status(all bool, space string) Status {
	r := Status{
		Status:    "unconfigured",
		Uptime:    s.opts.Now().Sub(s.started).Seconds(),
		Providers: []ProviderStatus{},
	}
	if all {
		r.ActiveRequests = s.active.Load()
	}
	cat := s.catalog.Load()
	if cat == nil || len(cat.models) == 0 {
		return r
	}
	r.Revision = cat.revision
	cache := s.cache.status(space, cat.config.Cache)
	r.Cache = &cache
	var sum health
	for _, p := range cat.providers {
		if !all && !cat.serves(p, space) {
			continue
		}
		state, last, wait := p.breaker.state()
		sum.add(state, last)
		view := ProviderStatus{
			Name: p.config.Name, Wire: p.config.Wire, Breaker: state, LastError: string(last), RetryAfter: wait.Milliseconds(),
			Concurrency: cmp.Or(p.config.Concurrency, defaultConcurrency), Models: cat.modelsAt(p, all, space),
		}
		if all {
			view.ActiveRequests, view.Latency = p.active.Load(), p.recent.latency(s.opts.Now())
		}
		r.Providers = append(r.Providers, view)
	}
	if sum.all > 0 {
		r.Status = sum.status()
	}
	return r
}

// health sums up the states of several providers.
type health struct{ all, open, troubled int }

func (h *health) add(state string, last chat.ErrorKind) {
	h.all++
	if state == "open" {
		h.open++
	}
	if state != "closed" || last != "" {
		h.troubled++
	}
}

func (h *health) status() string {
	switch {
	case h.troubled == 0:
		return "available"
	case h.open == h.all:
		return "unavailable"
	}
	return "degraded"
}

// modelsAt lists the models at a provider: all, or those that a space may use.
func (c *catalog) modelsAt(p *provider, all bool, space string) []string {
	names := []string{}
	for _, m := range c.models {
		at := slices.ContainsFunc(m.targets, func(t target) bool { return t.provider == p })
		if at && (all || m.allows(space)) {
			names = append(names, m.Name)
		}
	}
	return names
}
