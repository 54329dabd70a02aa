package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// metrics are the metrics of the store.
type metrics struct {
	writes  *prometheus.HistogramVec // seconds by op and code
	claims  prometheus.Counter
	resyncs prometheus.Counter
	damaged prometheus.Counter
	lost    prometheus.Counter
	fenced  *prometheus.CounterVec // by why
	all     []prometheus.Collector
}

// Reasons to refuse writes that could conflict with another bridge's.
const (
	whyUnsure = "unsure"
	whyTaken  = "taken"
)

func newMetrics(v *view) *metrics {
	m := &metrics{
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "aibridge_store_write_seconds",
			Help:    "Time from a write's begin to its acknowledgement and, in tables, its appearance in the view.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 18), // 25 µs to 3.3 s
		}, []string{"op", "code"}),
		claims: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_claims_total",
			Help: "Claims of commands, of which one record holds many.",
		}),
		resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_resyncs_total",
			Help: "Times the view lost the thread and read the registry anew.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_unreadable_total",
			Help: "Stored values that could not be read.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_lost_messages_total",
			Help: "Messages of the MQTT journal that were found lost at start: after a power cut, or on a damaged disk.",
		}),
		fenced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_store_fenced_writes_total",
			Help: "Writes that were refused so that this bridge does not write beside another one: its membership was in doubt (unsure), or another bridge writes in its place (taken).",
		}, []string{"reason"}),
	}
	for _, why := range []string{whyUnsure, whyTaken} {
		m.fenced.WithLabelValues(why)
	}
	current := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_store_view_current",
		Help: "1 while the view follows the registry, 0 while it is being read anew or NATS is away.",
	}, func() float64 {
		if v.current.Load() {
			return 1
		}
		return 0
	})
	lag := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_store_view_lag_messages",
		Help: "Changes of the registry that are yet to reach the view.",
	}, func() float64 { return float64(v.left.Load()) })
	silence := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_store_view_silence_seconds",
		Help: "Time since NATS gave the view a sign of life, which it does twice a second.",
	}, func() float64 {
		heard := v.heard.Load()
		if heard == 0 {
			return 0
		}
		return time.Since(time.Unix(0, heard)).Seconds()
	})
	m.all = []prometheus.Collector{m.writes, m.claims, m.resyncs, m.damaged, m.lost, m.fenced, current, lag, silence, keyCounts{v}}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			for _, c := range m.all[:i] {
				r.Unregister(c)
			}
			return err
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all {
		r.Unregister(c)
	}
}

// wrote records a write. Its code is "ok" or the protocol's.
func (m *metrics) wrote(op string, began time.Time, err error) {
	code := "ok"
	if err != nil {
		code = string(protocol.CodeOf(err))
	}
	m.writes.WithLabelValues(op, code).Observe(time.Since(began).Seconds())
}

// keyCounts are the numbers of keys of the tables.
type keyCounts struct{ view *view }

var keyCountDesc = prometheus.NewDesc("aibridge_store_keys", "Keys in a table of the registry.", []string{"table"}, nil)

func (k keyCounts) Describe(ch chan<- *prometheus.Desc) { ch <- keyCountDesc }

func (k keyCounts) Collect(ch chan<- prometheus.Metric) {
	t := k.view.tally()
	if t == nil { // not known until the view is current
		return
	}
	for table, keys := range t.Keys {
		ch <- prometheus.MustNewConstMetric(keyCountDesc, prometheus.GaugeValue, float64(keys), table)
	}
}
