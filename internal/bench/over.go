package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Over is the transport of MQTT.
type Over string

// The transports.
const (
	OverTCP       Over = ""
	OverTLS       Over = "tls"       // TLS 1.3 with X25519 and a P-256 certificate
	OverWebSocket Over = "websocket" // without TLS
)

// Files of a broker's directory.
const (
	certificateFile = "server.pem"
	keyFile         = "server.key"
)

// writeCertificate makes the certificate of a broker: P-256, which all brokers take,
// for any name.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	for name, block := range map[string]*pem.Block{
		certificateFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	return nil
}

// serverTLS is the configuration of a broker with the certificate in dir.
func serverTLS(dir string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
}

// clientTLS trusts every server, since the server is on this machine. It has one curve,
// which all brokers support, so that all are measured with the same keys.
func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true, CurvePreferences: []tls.CurveID{tls.X25519}}
}
