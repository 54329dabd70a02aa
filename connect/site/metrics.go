package site

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// metrics count the calls of the centre, the questions to it about budgets, and the files that
// follow to it.
type metrics struct {
	calls   *prometheus.CounterVec
	budgets *prometheus.CounterVec
	files   *prometheus.CounterVec
	bytes   prometheus.Counter
	behind  prometheus.Gauge
}

func newMetrics(s *Site) *metrics {
	m := &metrics{calls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_site_calls_total", Help: "Calls of the centre that this bridge is a site of, by how they ended: ok or a code.",
	}, []string{"code"}),
		budgets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_site_budget_requests_total", Help: "Questions to the centre about its budgets for language models, by how they ended: ok or a code.",
		}, []string{"code"}),
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_site_file_versions_total", Help: "Versions of files, deletions included, that followed to the centre, by how that ended: ok or the code of its refusal.",
		}, []string{"code"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_site_file_bytes_total", Help: "Bytes of files that followed to the centre.",
		}),
		behind: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aibridge_site_file_groups_behind", Help: "Groups of files of which the centre lacks something, as of the last attempt.",
		}),
	}
	if s.Registerer != nil {
		s.Registerer.MustRegister(m.calls, s)
		if s.Budgets.Hold {
			s.Registerer.MustRegister(m.budgets)
		}
		if len(s.Files) > 0 {
			s.Registerer.MustRegister(m.files, m.bytes, m.behind)
		}
	}
	return m
}

func (m *metrics) called(err error) { m.calls.WithLabelValues(outcome(err)).Inc() }

// borrowed counts a question about budgets.
func (m *metrics) borrowed(err error) { m.budgets.WithLabelValues(outcome(err)).Inc() }

// followed counts a version of a file that has followed, or was refused.
func (m *metrics) followed(err error, bytes int64) {
	m.files.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.bytes.Add(float64(bytes))
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return string(protocol.CodeOf(err))
}

var (
	connectedDesc = prometheus.NewDesc("aibridge_site_connected", "Whether this bridge is connected to the centre that it is a site of, 1 or 0.", nil, nil)
	agentsDesc    = prometheus.NewDesc("aibridge_site_agents", "Agents that the centre has been told of which this bridge is a site of.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (s *Site) Describe(to chan<- *prometheus.Desc) {
	to <- connectedDesc
	to <- agentsDesc
}

// Collect implements [prometheus.Collector]. In a cluster only the bridge that is
// connected to the centre, or tries to be, reports them.
func (s *Site) Collect(to chan<- prometheus.Metric) {
	v, running := s.Look()
	if !running {
		return
	}
	up := 0.0
	if v.State == Connected {
		up = 1
	}
	to <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, up)
	to <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, float64(v.Agents))
}

var (
	storedDesc  = prometheus.NewDesc("aibridge_site_stored_bytes", "Bytes of files of a site that this bridge keeps, all kept versions together.", []string{"space", "site"}, nil)
	roomDesc    = prometheus.NewDesc("aibridge_site_room_bytes", "Room for files of a site, in bytes.", []string{"space", "site"}, nil)
	refusedDesc = prometheus.NewDesc("aibridge_site_files_refused_total", "Versions of files of a site that this bridge had no room for.", []string{"space", "site"}, nil)
)

// FileRooms are the metrics of the rooms for files of sites.
func FileRooms(rooms func() []vfs.Allotment) prometheus.Collector { return fileRooms(rooms) }

type fileRooms func() []vfs.Allotment

// Describe implements [prometheus.Collector].
func (f fileRooms) Describe(to chan<- *prometheus.Desc) {
	to <- storedDesc
	to <- roomDesc
	to <- refusedDesc
}

// Collect implements [prometheus.Collector].
func (f fileRooms) Collect(to chan<- prometheus.Metric) {
	for _, r := range f() {
		labels := []string{string(r.Space), strings.TrimPrefix(r.Name, roomOf)}
		to <- prometheus.MustNewConstMetric(storedDesc, prometheus.GaugeValue, float64(r.Used), labels...)
		to <- prometheus.MustNewConstMetric(roomDesc, prometheus.GaugeValue, float64(r.Bytes), labels...)
		to <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(r.Refused), labels...)
	}
}
