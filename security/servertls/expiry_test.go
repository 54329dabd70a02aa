package servertls

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

	"github.com/prometheus/client_golang/prometheus/testutil"
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
		s := &Server{certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("gone") }}
		expires := 0.0
		if !test.end.IsZero() {
			var err error
			cert, key := certificateUntil(t, test.end)
			if s, err = New(Settings{Cert: cert, Key: key}, noAuthority{}, ""); err != nil {
				t.Fatal(err)
			}
			expires = float64(test.end.Unix())
		}
		s.warn(slog.New(slog.NewTextHandler(&log, nil)), now)
		if got := log.String(); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: the log has %q", name, got)
		}
		if got := testutil.ToFloat64(s.Metrics()); got != expires {
			t.Errorf("%s: the metric says %v, want %v", name, got, expires)
		}
	}
}

type noAuthority struct{}

func (noAuthority) Pool() *x509.CertPool { return x509.NewCertPool() }
func (noAuthority) ServerCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("none")
}
func (noAuthority) VerifyPeer(tls.ConnectionState) error { return nil }

func TestFilesThatCannotBeReadAreToldAtOnce(t *testing.T) {
	cert, key := certificateUntil(t, time.Now().Add(time.Hour))
	for name, c := range map[string]Settings{"no file": {Cert: cert + "x", Key: key}, "another's key": {Cert: cert, Key: cert}} {
		if _, err := New(c, noAuthority{}, ""); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (&Settings{Cert: cert}).Check() == nil || (&Settings{Key: key}).Check() == nil {
		t.Error("a certificate without its key is taken")
	}
}

// TestARenewedCertificateIsTakenUp replaces the files one after the other.
func TestARenewedCertificateIsTakenUp(t *testing.T) {
	cert, key := certificateUntil(t, time.Now().Add(time.Hour))
	f := &files{cert: cert, key: key}
	first, err := f.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := func() *tls.Certificate {
		t.Helper()
		f.looked = time.Time{} // as if it was long ago
		c, err := f.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	newCert, newKey := certificateUntil(t, time.Now().Add(2*time.Hour))
	later := time.Now().Add(time.Minute)
	replace := func(to, from string) {
		t.Helper()
		if err := errors.Join(os.Rename(from, to), os.Chtimes(to, later, later)); err != nil {
			t.Fatal(err)
		}
	}
	if again() != first {
		t.Error("it is read again without a change")
	}
	replace(cert, newCert)
	if again() != first {
		t.Error("a certificate without its key is shown")
	}
	replace(key, newKey)
	if second := again(); second == first || second.Leaf.Equal(first.Leaf) {
		t.Error("the renewed certificate is not shown")
	}
}
