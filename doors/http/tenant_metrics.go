package http

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aibridge/aibridge/protocol"
)

// TenantMetrics are the metrics as the principals of one space see them: without
// the series of other spaces, and without names that agents of any space have
// chosen.
type TenantMetrics struct {
	All   prometheus.Gatherer
	Space protocol.SpaceID
	Own   func(command string) bool // reports whether a command is the bridge's
}

// Gather implements [prometheus.Gatherer].
func (m TenantMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.All.Gather()
	shown := families[:0]
	for _, f := range families {
		f.Metric = slices.DeleteFunc(f.Metric, func(series *dto.Metric) bool { return !m.shows(series) })
		if len(f.Metric) > 0 {
			shown = append(shown, f)
		}
	}
	return shown, err
}

func (m TenantMetrics) shows(series *dto.Metric) bool {
	for _, label := range series.Label {
		value := label.GetValue()
		switch name := label.GetName(); {
		case name == "space":
			if value != string(m.Space) {
				return false
			}
		case name == "command":
			if !m.Own(value) {
				return false
			}
		case !slices.Contains(harmlessLabels, name):
			return false
		}
	}
	return true
}

// harmlessLabels have values that are the bridge's or its administrator's, and
// reveal nothing of spaces. A label that is not among them hides its series.
var harmlessLabels = []string{
	"action", "authority", "by", "code", "days", "how", "kind", "limit", "listener", "model", "of", "op", "outcome", "phase", "priority",
	"provider", "qos", "reason", "result", "ruling", "secret", "state", "status", "stop", "table", "version",
}
