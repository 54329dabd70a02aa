package direct

import "github.com/prometheus/client_golang/prometheus"

// metrics count the frames and bytes on lines, broken lines and refused connections.
type metrics struct {
	frames, bytes, broken, refused prometheus.Counter
}

func newMetrics(s *Switch) *metrics {
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_relay_direct_" + name + "_total", Help: help})
		if s.o.Registerer != nil {
			s.o.Registerer.MustRegister(c)
		}
		return c
	}
	m := &metrics{
		frames:  count("frames_sent", "Frames sent to other bridges over direct lines."),
		bytes:   count("bytes_sent", "Bytes sent to other bridges over direct lines."),
		broken:  count("lines_broken", "Direct lines with other bridges that have ended."),
		refused: count("refused", "Connections to the port for bridges that did not become a line: of strangers and port scans, and of bridges of the cluster that came too early or were cut off. Few at a start mean nothing."),
	}
	if s.o.Registerer != nil {
		s.o.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_relay_direct_peers", Help: "Bridges with which there is a direct line.",
		}, func() (n float64) {
			for _, p := range s.Status() {
				if p.Direct {
					n++
				}
			}
			return n
		}))
	}
	return m
}
