package pki

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A collector counts the certificates when it is asked.
type collector struct {
	service      *Service
	certificates *prometheus.Desc
	expiring     *prometheus.Desc
	requests     *prometheus.Desc
}

func (s *Service) registerMetrics(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	err := r.Register(&collector{
		service:      s,
		certificates: prometheus.NewDesc("aibridge_certificates", "Certificates by authority and how they stand.", []string{"authority", "status"}, nil),
		expiring:     prometheus.NewDesc("aibridge_certificates_expiring", "Valid certificates without a successor that end within some days.", []string{"days"}, nil),
		requests:     prometheus.NewDesc("aibridge_certificate_requests", "Requests for certificates by how far they have come.", []string{"status"}, nil),
	})
	if err != nil {
		return fmt.Errorf("pki: register metrics: %w", err)
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.certificates
	to <- c.expiring
	to <- c.requests
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	type state struct {
		authority Authority
		status    Status
	}
	gauge := func(desc *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n, labels...)
	}
	counts, expiring := make(map[state]int), make(map[int]int)
	for _, a := range Authorities() {
		for _, status := range []Status{StatusValid, StatusExpired, StatusRevoked} {
			counts[state{a, status}] = 0
		}
	}
	now := c.service.opts.Now()
	for _, e := range c.service.index.all() {
		status := e.status(now)
		counts[state{e.Authority, status}]++
		if status != StatusValid || e.notAfter.Sub(now) > 30*day || c.service.Successor(e.Serial) != "" {
			continue
		}
		for _, days := range warnings() {
			if e.notAfter.Sub(now) <= time.Duration(days)*day {
				expiring[days]++
			}
		}
	}
	for of, n := range counts {
		gauge(c.certificates, float64(n), string(of.authority), string(of.status))
	}
	for _, days := range warnings() {
		gauge(c.expiring, float64(expiring[days]), fmt.Sprint(days))
	}
	requests := map[RequestState]int{Pending: 0, Approved: 0, Rejected: 0, Issued: 0}
	for _, r := range c.service.opts.Requests.All() {
		requests[r.State]++
	}
	for status, n := range requests {
		gauge(c.requests, float64(n), string(status))
	}
}
