// Package status shows the last hour of a bridge: bridge.status shows a few
// readings, such as the messages that came in, minute by minute.
//
// The readings are taken from the bridge's metrics, which are there anyhow, and
// kept in memory: a number a minute for an hour. So a glance at the bridge needs
// no time series database.
package status

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// minutes is the age of the oldest readings.
const minutes = 60

// Options configure a [Service]. Metrics is needed.
type Options struct {
	Metrics  prometheus.Gatherer
	Version  string
	BridgeID string
	// Ready returns the reason why the bridge cannot work, or nil. Optional.
	Ready func(context.Context) error
	// Settings are the configuration as people may see it.
	Settings []Setting
	Cluster  Cluster
	Members  func() []cluster.Member // of the cluster; optional
	Absent   func() []cluster.Absent // whose copies are missing; optional
	Peers    func() []Peer           // to which messages are relayed; optional
	Checks   []Check                 // of the parts that the bridge cannot work without
	Drainer  Drainer                 // optional
	Remover  Remover                 // optional
	// Centre is the bridge that this one is a site of, as far as a principal may know,
	// nil for none. Optional.
	Centre func(*protocol.Principal) *Centre
	// Links counts the links to other brokers that a principal may know of, nil for
	// none. Optional.
	Links func(context.Context, *protocol.Principal) *Links
	Now   func() time.Time // default time.Now
}

// A Service takes the readings. [Service.Run] must run.
type Service struct {
	Options
	started time.Time

	mu     sync.Mutex
	taken  []sample // one a minute, the oldest first
	latest sample
}

// A sample is the values of the metrics at a time.
type sample struct {
	at      time.Time
	values  map[string]float64
	seconds histogram // of the durations of commands
}

// A histogram counts durations by upper bounds in seconds, the last infinite.
type histogram struct {
	bounds []float64
	counts []float64 // up to each bound
}

// New makes a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	return &Service{Options: o, started: o.Now()}
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{commands.New(bridgeStatus, s.Status), commands.New(bridgeConfig, s.Config), commands.New(bridgeCluster, s.ShowCluster), commands.New(bridgeDrain, s.Drain), commands.New(bridgeRemove, s.Remove)}
}

// Run takes a sample a minute until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		s.take(true)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// fresh is the greatest age of a sample that is shown as the present.
const fresh = 2 * time.Second

// take takes a sample, and keeps it as one of the minutes or as the latest.
func (s *Service) take(minute bool) {
	now := s.Now()
	s.mu.Lock()
	if !minute && now.Sub(s.latest.at) < fresh {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	taken := s.read(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = taken
	if !minute {
		return
	}
	if s.taken = append(s.taken, taken); len(s.taken) > minutes+1 {
		s.taken = s.taken[len(s.taken)-minutes-1:]
	}
}

const durations = "aibridge_command_duration_seconds"

// read sums the metrics up that readings are made of.
func (s *Service) read(now time.Time) sample {
	taken := sample{at: now, values: make(map[string]float64)}
	families, err := s.Metrics.Gather()
	if err != nil && len(families) == 0 {
		return taken
	}
	for _, f := range families {
		switch name := f.GetName(); {
		case name == durations:
			for _, m := range f.Metric {
				if label(m, "command") == waiting {
					continue
				}
				h := m.GetHistogram()
				taken.seconds.add(h)
				taken.values["commands"] += float64(h.GetSampleCount())
				if label(m, "outcome") == string(protocol.PermissionDenied) {
					taken.values["denied"] += float64(h.GetSampleCount())
				}
			}
		case sources[name] != "":
			for _, m := range f.Metric {
				taken.values[sources[name]] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return taken
}

// waiting is the command that only waits, whose durations do not count.
const waiting = "event.follow"

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// add counts a histogram in. All have the same bounds.
func (h *histogram) add(from *dto.Histogram) {
	if h.bounds == nil {
		h.bounds = make([]float64, len(from.Bucket)+1)
		h.counts = make([]float64, len(from.Bucket)+1)
		for i, b := range from.Bucket {
			h.bounds[i] = b.GetUpperBound()
		}
		h.bounds[len(from.Bucket)] = math.Inf(1)
	}
	for i, b := range from.Bucket {
		h.counts[i] += float64(b.GetCumulativeCount())
	}
	h.counts[len(from.Bucket)] += float64(from.GetSampleCount())
}

// quantile is the duration that a share of those since an earlier time were
// within, in seconds; 0 if there were none.
func (h *histogram) quantile(share float64, earlier histogram) float64 {
	if len(h.counts) == 0 {
		return 0
	}
	since := func(i int) float64 {
		if i < len(earlier.counts) {
			return h.counts[i] - earlier.counts[i]
		}
		return h.counts[i]
	}
	last := len(h.counts) - 1
	total := since(last)
	if total <= 0 {
		return 0
	}
	low, below := 0.0, 0.0
	for i, bound := range h.bounds {
		if n := since(i); n >= share*total {
			if i == last {
				return low
			}
			return low + (bound-low)*(share*total-below)/math.Max(n-below, 1)
		}
		low, below = bound, since(i)
	}
	return low
}

// sources are the metrics that are summed up, by the name of the sum.
var sources = map[string]string{
	"aibridge_mqtt_received_total":     "received",
	"aibridge_mqtt_sent_total":         "sent",
	"aibridge_mqtt_dropped_total":      "dropped",
	"aibridge_mqtt_refused_total":      "refused",
	"aibridge_mqtt_clients":            "clients",
	"aibridge_mqtt_sessions":           "sessions",
	"aibridge_agents":                  "agents",
	"aibridge_agents_online":           "agents_online",
	"aibridge_tasks_unfinished":        "tasks",
	"aibridge_runs_running":            "runs",
	"aibridge_store_view_lag_messages": "lag",
	"aibridge_disk_free_bytes":         "disk_free",
	"aibridge_disk_low":                "disk_low",
}
