package security

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// A secretCollector counts the versions of secrets when it is asked.
type secretCollector struct {
	service  *SecretService
	versions *prometheus.Desc
	active   *prometheus.Desc
}

func (s *SecretService) registerMetrics(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	err := r.Register(&secretCollector{
		service:  s,
		versions: prometheus.NewDesc("aibridge_secret_versions", "Versions of the bridge's secrets by their state, as this bridge sees them.", []string{"secret", "state"}, nil),
		active:   prometheus.NewDesc("aibridge_secret_active_timestamp_seconds", "When the active version of a secret was made. There is none for the first versions of files in the data folder.", []string{"secret"}, nil),
	})
	if err != nil {
		return fmt.Errorf("secrets: register metrics: %w", err)
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (c *secretCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.versions
	to <- c.active
}

// Collect implements [prometheus.Collector].
func (c *secretCollector) Collect(to chan<- prometheus.Metric) {
	for name, secret := range c.service.secrets {
		counts := map[SecretState]int{SecretStaged: 0, SecretActive: 0, SecretOpen: 0, SecretRetired: 0, SecretUnreadable: 0}
		for _, v := range secret.Versions() {
			counts[v.State]++
			if v.State == SecretActive && v.CreatedAt != 0 {
				to <- prometheus.MustNewConstMetric(c.active, prometheus.GaugeValue, float64(v.CreatedAt)/1000, string(name))
			}
		}
		for state, n := range counts {
			to <- prometheus.MustNewConstMetric(c.versions, prometheus.GaugeValue, float64(n), string(name), string(state))
		}
	}
}
