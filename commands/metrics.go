package commands

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// metrics are a router's figures for Prometheus.
type metrics struct {
	duration  *prometheus.HistogramVec
	succeeded map[string]prometheus.Observer // by command, found without hashing labels
	repeats   map[verdict]prometheus.Counter
	prepared  prometheus.Counter
}

// unknownCommand is the one label of requests for unknown commands.
const unknownCommand = "unknown"

func newMetrics(r *Router) *metrics {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "aibridge_command_duration_seconds",
		Help:    "Time from the arrival of a request to its answer, by command and outcome (success or the error code).",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600},
	}, []string{"command", "outcome"})
	repeats := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_command_repeats_total",
		Help: "Requests that were seen before: joined while running, replayed from the stored answer, in conflict with another body, or with an unknown outcome.",
	}, []string{"kind"})
	m := &metrics{
		duration: duration,
		prepared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_commands_prepared_total",
			Help: "Calls that were read and decided about by what was prepared for earlier ones in the same form.",
		}),
		succeeded: make(map[string]prometheus.Observer),
		repeats: map[verdict]prometheus.Counter{
			join:     repeats.WithLabelValues("joined"),
			replay:   repeats.WithLabelValues("replayed"),
			conflict: repeats.WithLabelValues("conflict"),
			unknown:  repeats.WithLabelValues("unknown"),
		},
	}
	for c := range r.set.All() {
		m.succeeded[c.Name] = duration.WithLabelValues(c.Name, protocol.StatusSuccess)
	}
	if reg := r.opts.Registerer; reg != nil {
		reg.MustRegister(append(r.gauges(), duration, repeats, m.prepared)...)
	}
	return m
}

// gauges read the state of the router when they are collected.
func (r *Router) gauges() []prometheus.Collector {
	gauge := func(name, help string, labels prometheus.Labels, read func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
	}
	all := []prometheus.Collector{
		gauge("aibridge_commands_in_flight", "Calls that were taken and are not done.", nil, r.inFlight.len),
		gauge("aibridge_commands_remembered", "Requests that are known for repeats.", nil, func() int { n, _ := r.ledger.usage(); return n }),
		gauge("aibridge_commands_remembered_bytes", "Memory of the answers kept for repeats.", nil, func() int { _, n := r.ledger.usage(); return n }),
	}
	for _, p := range []protocol.Priority{protocol.High, protocol.Medium, protocol.Low} {
		all = append(all, gauge("aibridge_commands_queued", "Calls that wait for a worker.",
			prometheus.Labels{"priority": p.String()}, func() int { return r.slots.depth(laneOf(p)) }))
	}
	return all
}

func (m *metrics) answered(c *Call, err *protocol.Error, took time.Duration) {
	if err == nil {
		if o, ok := m.succeeded[c.Command]; ok {
			o.Observe(took.Seconds())
			return
		}
	}
	command, outcome := unknownCommand, protocol.StatusSuccess
	if c.command != nil {
		command = c.command.Name
	}
	if err != nil {
		outcome = string(err.Code)
	}
	m.duration.WithLabelValues(command, outcome).Observe(took.Seconds())
}

func (m *metrics) deduplicated(v verdict) {
	if v != execute {
		m.repeats[v].Inc()
	}
}

// forget removes the series of commands that are gone.
func (m *metrics) forget(c *Command) {
	m.duration.DeletePartialMatch(prometheus.Labels{"command": c.Name})
}
