package servertls

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// expirySoon is how long before its end a certificate is warned of. What is
	// renewed by itself is so before.
	expirySoon  = 14 * 24 * time.Hour
	expiryEvery = 24 * time.Hour
)

// Metrics shows the end of the certificate.
func (s *Server) Metrics() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_tls_certificate_expires_seconds",
		Help: "When the server certificate expires, in Unix time; 0 if there is none to show.",
	}, func() float64 {
		cert, err := s.certificate(nil)
		if err != nil {
			return 0
		}
		return float64(cert.Leaf.NotAfter.Unix())
	})
}

// Watch warns of the certificate when it is about to expire, at once and daily
// until ctx ends.
func (s *Server) Watch(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(expiryEvery)
	defer tick.Stop()
	for {
		s.warn(log, time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// warn logs that the certificate has expired or is about to.
func (s *Server) warn(log *slog.Logger, now time.Time) {
	cert, err := s.certificate(nil)
	if err != nil {
		log.Warn("there is no server certificate to show", "error", err)
		return
	}
	ends := cert.Leaf.NotAfter
	switch left := ends.Sub(now); {
	case left <= 0:
		log.Error("the server certificate has expired: clients refuse it; replace it", "expired", ends)
	case left < expirySoon:
		log.Warn("the server certificate expires soon; replace it", "expires", ends, "days", int(left.Hours()/24))
	}
}
