package model

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// metrics are the metrics of the models.
type metrics struct {
	requests  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	cost      *prometheus.CounterVec
	first     *prometheus.HistogramVec
	whole     *prometheus.HistogramVec
	failovers *prometheus.CounterVec
	cacheHits prometheus.Counter
	joined    prometheus.Counter
	degraded  prometheus.Counter
	redacted  prometheus.Counter
	embedded  *prometheus.CounterVec

	// By the conventions of OpenTelemetry, for comparison with other services.
	durations *prometheus.HistogramVec
	chunks    *prometheus.HistogramVec
	usage     *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, s *Service) *metrics {
	name := func(n string) string { return "aibridge_llm_" + n }
	counter := func(n, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name(n), Help: help})
	}
	vec := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(n), Help: help}, labels)
	}
	seconds := func(n, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name(n), Help: help, Buckets: prometheus.ExponentialBuckets(0.05, 2, 13)}, []string{"model", "provider"})
	}
	m := &metrics{
		requests:  vec("requests_total", "Requests to providers, by outcome.", "model", "provider", "space", "outcome"),
		tokens:    vec("tokens_total", "Tokens used, by kind: input, output, cached, reasoning.", "model", "space", "kind"),
		cost:      vec("cost_total", "What was spent, in the currency of the prices.", "model", "space"),
		first:     seconds("first_token_seconds", "Time until the first event of an answer."),
		whole:     seconds("answer_seconds", "Time until an answer was whole."),
		failovers: vec("failovers_total", "Requests repeated at another provider.", "model"),
		cacheHits: counter("cache_hits_total", "Queries answered from the cache."),
		joined:    counter("joined_total", "Queries that shared the answer of an identical one."),
		degraded:  counter("degraded_total", "Queries answered with less, or refused, under load."),
		redacted:  counter("redacted_total", "Pieces taken out of queries before they left."),
		embedded:  vec("embeddings_total", "Requests for embeddings, by outcome.", "model", "provider", "space", "outcome"),

		durations: semconv.Seconds("gen_ai_client_operation_duration_seconds", "Time of requests to providers, by OpenTelemetry's conventions.", "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"),
		chunks:    semconv.Seconds("gen_ai_client_operation_time_to_first_chunk_seconds", "Time until the first event of an answer, by OpenTelemetry's conventions.", "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"),
		usage:     semconv.Tokens("gen_ai_client_token_usage", "Tokens of a request, by OpenTelemetry's conventions.", "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"),
	}
	if r != nil {
		r.MustRegister(m.requests, m.tokens, m.cost, m.first, m.whole, m.failovers, m.cacheHits, m.joined, m.degraded, m.redacted, m.embedded, m.durations, m.chunks, m.usage, (*gauges)(s))
	}
	return m
}

// asked counts a request that has ended.
func (m *metrics) asked(on *model, t target, who *protocol.Principal, a *chat.Answer, err error, first, took time.Duration) {
	provider, space := t.provider.config.Name, string(who.Space)
	end := "cancelled"
	switch failure := asFailure(err); {
	case err == nil:
		end = string(a.Finish.Reason)
	case failure != nil:
		end = string(failure.Kind)
	case errors.Is(err, context.DeadlineExceeded):
		end = "timeout"
	}
	m.requests.WithLabelValues(on.Name, provider, space, end).Inc()
	m.told(semconv.Chat, t, err, took)
	if first > 0 {
		m.chunks.WithLabelValues(semconv.Chat, t.provider.vendor, t.Model).Observe(first.Seconds())
		m.first.WithLabelValues(on.Name, provider).Observe(first.Seconds())
	}
	if err != nil {
		return
	}
	m.whole.WithLabelValues(on.Name, provider).Observe(took.Seconds())
	u := a.Finish.Usage
	m.usage.WithLabelValues(semconv.Chat, t.provider.vendor, t.Model, "input").Observe(float64(u.Input))
	m.usage.WithLabelValues(semconv.Chat, t.provider.vendor, t.Model, "output").Observe(float64(u.Output))
	for kind, n := range map[string]int{"input": u.Input, "output": u.Output, "cached": u.Cached, "reasoning": u.Reasoning} {
		if n > 0 {
			m.tokens.WithLabelValues(on.Name, space, kind).Add(float64(n))
		}
	}
}

// told observes a request in the metrics by the conventions.
func (m *metrics) told(operation string, t target, err error, took time.Duration) {
	kind := ""
	if err != nil {
		kind = ending(err)
	}
	m.durations.WithLabelValues(operation, t.provider.vendor, t.Model, kind).Observe(took.Seconds())
}

func (m *metrics) spent(on *model, who *protocol.Principal, cost float64) {
	if cost > 0 {
		m.cost.WithLabelValues(on.Name, string(who.Space)).Add(cost)
	}
}

// gauges is the collector of the current state.
type gauges Service

var (
	activeDesc   = prometheus.NewDesc("aibridge_llm_active", "Queries under way.", nil, nil)
	breakerDesc  = prometheus.NewDesc("aibridge_llm_breaker_open", "1 if the circuit breaker of a provider is open or half-open after failures, else 0.", []string{"provider"}, nil)
	revisionDesc = prometheus.NewDesc("aibridge_llm_configuration_revision", "Revision of the configuration.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- activeDesc
	ch <- breakerDesc
	ch <- revisionDesc
}

// Collect implements [prometheus.Collector].
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(activeDesc, prometheus.GaugeValue, float64(g.active.Load()))
	cat := g.catalog.Load()
	if cat == nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(revisionDesc, prometheus.GaugeValue, float64(cat.revision))
	for _, p := range cat.providers {
		open := 0.0
		if state, _, _ := p.breaker.state(); state != "closed" {
			open = 1
		}
		ch <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, open, p.config.Name)
	}
}
