package app

import (
	"context"
	"crypto/tls"
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

// watchExpiry tells of the server certificate when it is about to expire, at the
// start and daily, and shows its end as a metric.
func (a *App) watchExpiry() {
	shown := a.shownCertificate()
	if shown == nil {
		return
	}
	a.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_tls_certificate_expires_seconds",
		Help: "When the server certificate expires, in Unix time; 0 if there is none to show.",
	}, func() float64 {
		cert, err := shown()
		if err != nil {
			return 0
		}
		return float64(cert.Leaf.NotAfter.Unix())
	}))
	a.run("expiry of the certificate", func(ctx context.Context) error {
		tick := time.NewTicker(expiryEvery)
		defer tick.Stop()
		for {
			tellExpiry(a.log, shown, time.Now())
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// shownCertificate yields the server certificate as it is at the moment; it is
// nil if there is none.
func (a *App) shownCertificate() func() (*tls.Certificate, error) {
	switch {
	case a.config.TLS.Cert != "":
		files := &certificateFiles{cert: a.config.TLS.Cert, key: a.config.TLS.Key}
		return func() (*tls.Certificate, error) { return files.get(nil) }
	case a.authorities != nil:
		return func() (*tls.Certificate, error) { return a.authorities.ServerCertificate(nil) }
	}
	return nil
}

// tellExpiry logs that a certificate has expired or is about to.
func tellExpiry(log *slog.Logger, shown func() (*tls.Certificate, error), now time.Time) {
	cert, err := shown()
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
