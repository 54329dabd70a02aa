package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

func TestReadingsAreRatesOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	received := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aibridge_mqtt_received_total", Help: "x"}, []string{"qos"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: durations, Help: "x", Buckets: []float64{.01, .1, 1}}, []string{"command", "outcome"})
	online := prometheus.NewGauge(prometheus.GaugeOpts{Name: "aibridge_agents_online", Help: "x"})
	metrics.MustRegister(received, took, online)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := New(Options{Metrics: metrics, Now: func() time.Time { return now }})
	for minute := range 70 {
		s.take(true)
		received.WithLabelValues("0").Add(60)
		received.WithLabelValues("1").Add(60)
		online.Set(float64(minute))
		for range 10 {
			took.WithLabelValues("a.b", "success").Observe(.05)
		}
		took.WithLabelValues("a.b", "2003").Observe(.5)
		took.WithLabelValues("event.follow", "success").Observe(600)
		now = now.Add(time.Minute)
	}
	result, err := s.Status(t.Context(), nil, Params{})
	if err != nil || !result.Ready {
		t.Fatalf("%+v, %v", result, err)
	}
	got := make(map[string]Reading)
	for _, r := range result.Readings {
		got[r.Name] = r
		if len(r.Points) > minutes {
			t.Errorf("%s has %d points", r.Name, len(r.Points))
		}
	}
	for name, want := range map[string]float64{"received": 2, "commands": 11, "denied": 61, "agents_online": 69} {
		if now := got[name].Now; now < want-.01 || now > want+.01 {
			t.Errorf("%s is %v, want %v", name, now, want)
		}
	}
	if p99 := got["command_p99"].Now; p99 <= 100 || p99 > 1000 {
		t.Errorf("the slowest take %v ms", p99)
	}
	if points := got["agents_online"].Points; len(points) != minutes || points[minutes-1] != 68 {
		t.Errorf("agents that were online: %v", points)
	}
}

func TestABridgeThatHasJustStartedHasReadings(t *testing.T) {
	t.Parallel()
	s := New(Options{Metrics: prometheus.NewRegistry()})
	result, err := s.Status(t.Context(), nil, Params{})
	if err != nil || len(result.Readings) != len(meters) {
		t.Fatalf("%+v, %v", result, err)
	}
	for _, r := range result.Readings {
		if r.Now != 0 || len(r.Points) != 0 {
			t.Errorf("%s is %v, %v", r.Name, r.Now, r.Points)
		}
	}
}

func TestTheClusterTellsWhichPartFails(t *testing.T) {
	t.Parallel()
	s := New(Options{
		Metrics: prometheus.NewRegistry(), BridgeID: "b", Cluster: Cluster{Store: NATS, Replicas: 3, Standby: true, Epoch: 7},
		Checks: []Check{
			{Name: "store", Check: func() error { return nil }},
			{Name: "disk", Check: func() error { return protocol.Errorf(protocol.NoSpace, "the disk is full") }},
			{Name: "nats", Check: func() error { return errors.New("dial 10.0.0.7: secret") }},
		},
	})
	got, err := s.ShowCluster(t.Context(), nil, ClusterParams{})
	if err != nil || got.BridgeID != "b" || got.Epoch != 7 || len(got.Parts) != 3 || !got.Parts[0].OK {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Parts[1].OK || got.Parts[1].Why != "the disk is full" {
		t.Errorf("%+v", got.Parts[1])
	}
	if got.Parts[2].OK || strings.Contains(got.Parts[2].Why, "secret") {
		t.Errorf("%+v", got.Parts[2])
	}
	if config, err := s.Config(t.Context(), nil, ConfigParams{}); err != nil || config.Settings == nil {
		t.Errorf("%+v, %v", config, err)
	}
}
