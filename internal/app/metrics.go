package app

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/policy"
)

// metricsFor yields the metrics that somebody may see: all of them for those who
// do everything in every space.
func (a *App) metricsFor(set *commands.Set) func(context.Context, *protocol.Principal) (prometheus.Gatherer, error) {
	own := func(command string) bool { _, ok := set.Find(command); return ok }
	return func(ctx context.Context, who *protocol.Principal) (prometheus.Gatherer, error) {
		if err := a.authorizer.Authorize(ctx, who, policy.ReadMetrics, commands.Resource{Type: "metrics", Space: who.Home()}); err != nil {
			return nil, err
		}
		if who.Unbounded() {
			return a.metrics, nil
		}
		return tenantMetrics{all: a.metrics, space: who.Home(), own: own}, nil
	}
}

// tenantMetrics are the metrics as the people of one space see them: without the
// series of other spaces, and without what agents of any space have named.
type tenantMetrics struct {
	all   prometheus.Gatherer
	space protocol.SpaceID
	own   func(command string) bool // reports whether it is the bridge's
}

// Gather implements [prometheus.Gatherer].
func (m tenantMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.all.Gather()
	shown := families[:0]
	for _, f := range families {
		f.Metric = slices.DeleteFunc(f.Metric, func(series *dto.Metric) bool { return !m.shows(series) })
		if len(f.Metric) > 0 {
			shown = append(shown, f)
		}
	}
	return shown, err
}

func (m tenantMetrics) shows(series *dto.Metric) bool {
	for _, label := range series.Label {
		value := label.GetValue()
		switch name := label.GetName(); {
		case name == "space":
			if value != string(m.space) {
				return false
			}
		case name == "command":
			if !m.own(value) {
				return false
			}
		case !slices.Contains(harmlessLabels, name):
			return false
		}
	}
	return true
}

// harmlessLabels have values that are the bridge's or its administrator's, and
// tell nothing of spaces. A label that is not among them hides its series.
var harmlessLabels = []string{
	"action", "authority", "by", "code", "days", "how", "kind", "limit", "listener", "model", "of", "op", "outcome", "phase", "priority",
	"provider", "qos", "reason", "result", "ruling", "state", "status", "stop", "table", "version",
}
