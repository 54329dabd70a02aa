package vfs

import "github.com/prometheus/client_golang/prometheus"

// metrics count what a store does.
type metrics struct {
	puts  prometheus.Counter
	bytes prometheus.Counter
	saved prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		puts:  prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_vfs_puts_total", Help: "Versions of files that were written."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_vfs_written_bytes_total", Help: "Bytes of versions that were written."}),
		saved: prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_vfs_shared_bytes_total", Help: "Bytes of versions that were written, as far as an earlier version had them already."}),
	}
	if r != nil {
		r.MustRegister(m.puts, m.bytes, m.saved)
	}
	return m
}

// usage shows how much there is.
func (m *metrics) usage(r prometheus.Registerer, total func() (files int, bytes int64)) {
	if r == nil {
		return
	}
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_vfs_files", Help: "Files that are there."},
			func() float64 { files, _ := total(); return float64(files) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_vfs_stored_bytes", Help: "Bytes of all kept versions of all files."},
			func() float64 { _, bytes := total(); return float64(bytes) }),
	)
}

func (m *metrics) written(c *received) {
	m.puts.Inc()
	m.bytes.Add(float64(c.size))
	m.saved.Add(float64(c.saved))
}
