package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// tlsConfig is how the bridge speaks TLS, nil if it has no certificate to
// show: TLS 1.2 or newer, and client certificates are asked for and, if they
// are shown, must be good.
func (a *App) tlsConfig(protocols ...string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols}
	switch {
	case a.config.TLS.Cert != "":
		files := &certificateFiles{cert: a.config.TLS.Cert, key: a.config.TLS.Key}
		if _, err := files.get(nil); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		config.GetCertificate = files.get
	case a.authorities != nil:
		config.GetCertificate = a.authorities.ServerCertificate
	default:
		return nil, nil
	}
	if a.authorities == nil {
		return config, nil
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	config.VerifyConnection = a.authorities.VerifyPeer
	config.ClientCAs = a.authorities.Pool()
	// Authorities may come and go while the bridge runs.
	current := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if pool := a.authorities.Pool(); !pool.Equal(config.ClientCAs) {
			changed := current.Clone()
			changed.ClientCAs = pool
			return changed, nil
		}
		return nil, nil
	}
	return config, nil
}

// certificateFiles is a server certificate in files, which may be renewed
// while the bridge runs.
type certificateFiles struct {
	cert, key string

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  [2]time.Time // of the files that pair was read from
	looked time.Time
}

// lookEvery is how often the files are looked at.
const lookEvery = 10 * time.Second

// get is the certificate. When the files cannot be read, or do not belong
// together because one of them is still to be replaced, the old one stays.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pair != nil && time.Since(f.looked) < lookEvery {
		return f.pair, nil
	}
	f.looked = time.Now()
	stamp, err := f.stamps()
	if err == nil && (f.pair == nil || stamp != f.stamp) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.pair, f.stamp = &pair, stamp
		}
	}
	if f.pair == nil {
		return nil, err
	}
	return f.pair, nil
}

func (f *certificateFiles) stamps() ([2]time.Time, error) {
	cert, err := os.Stat(f.cert)
	key, err2 := os.Stat(f.key)
	if err = errors.Join(err, err2); err != nil {
		return [2]time.Time{}, err
	}
	return [2]time.Time{cert.ModTime(), key.ModTime()}, nil
}

// openTLS readies MQTT over TLS. Without a certificate to show there is none,
// which is only right if nobody asked for it.
func (a *App) openTLS(ctx context.Context) (err error) {
	if a.mqttTLS, err = a.tlsConfig("mqtt"); err != nil || a.mqttTLS != nil || a.listeners["mqtts"] == nil {
		return err
	}
	if a.config.MQTTS != "" {
		return errors.New("mqtts: there is no certificate to show")
	}
	_ = a.listeners["mqtts"].Close()
	delete(a.listeners, "mqtts")
	a.addresses.MQTTS = ""
	a.log.WarnContext(ctx, "no MQTT over TLS: there is no certificate to show")
	return nil
}
