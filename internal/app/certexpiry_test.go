package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificateUntil is a pair of files with a server certificate.
func certificateUntil(t *testing.T, end time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestAnExpiringCertificateIsToldOf(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		end  time.Time
		want string
	}{
		"expired":    {now.Add(-time.Minute), "level=ERROR msg=\"the server certificate has expired"},
		"soon":       {now.Add(3*24*time.Hour + time.Hour), "days=3"},
		"far away":   {now.Add(15 * 24 * time.Hour), ""},
		"is missing": {time.Time{}, "no server certificate"},
	} {
		var log bytes.Buffer
		shown := func() (*tls.Certificate, error) { return nil, errors.New("gone") }
		if !test.end.IsZero() {
			a := &App{}
			a.config.TLS.Cert, a.config.TLS.Key = certificateUntil(t, test.end)
			shown = a.shownCertificate()
		}
		tellExpiry(slog.New(slog.NewTextHandler(&log, nil)), shown, now)
		if got := log.String(); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: the log has %q", name, got)
		}
	}
	if (&App{}).shownCertificate() != nil {
		t.Error("a bridge without certificates watches one")
	}
}
