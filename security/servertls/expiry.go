package servertls

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

const (
	// expirySoon is the time before its end at which a certificate is warned of. One that
	// renews itself has done so before.
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

// Run gets certificates by ACME, if that is asked for, and warns of the one that
// is shown when it is about to expire, at once and daily, until ctx ends.
func (s *Server) Run(ctx context.Context, log *slog.Logger) error {
	if s.acme == nil {
		return s.watch(ctx, log)
	}
	var group errgroup.Group
	group.Go(func() error { return s.watch(ctx, log) })
	group.Go(func() error { return s.acme.run(ctx, log) })
	return group.Wait()
}

func (s *Server) watch(ctx context.Context, log *slog.Logger) error {
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
