package bridgetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
)

// DialAs connects the SDK over TLS, until the test ends, with a certificate
// that allows an agent and the skill of the same name to lead scenes of a
// type. The certificate is asked for by admin.
func (n *Node) DialAs(t testing.TB, admin *client.Client, name, sceneType string, opts ...client.Option) *client.Client {
	t.Helper()
	pool := x509.NewCertPool()
	roots, err := os.ReadFile(filepath.Join(n.Config.Data, app.CAFile))
	if err != nil || !pool.AppendCertsFromPEM(roots) {
		t.Fatalf("the bridge's roots: %v", err)
	}
	config := &tls.Config{
		RootCAs:      pool,
		Certificates: []tls.Certificate{certificate(t, admin, name, sceneType)},
		ServerName:   "127.0.0.1",
		MinVersion:   tls.VersionTLS12,
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c, err := client.Dial(ctx, "mqtts://"+n.MQTTS, append(opts, client.WithTLS(config))...)
	if err != nil {
		t.Fatalf("dial over TLS: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// certificate has the bridge issue one for a key made here.
func certificate(t testing.TB, admin *client.Client, name, sceneType string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	issued, err := client.Call[struct {
		Chain []string `json:"chain"`
	}](ctx, admin, "cert.issue", map[string]any{
		"authority": "operator", "agent_id": name, "skill_id": name, "role": "agent_route", "scene_types": []string{sceneType},
		"csr": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
	})
	if err != nil || len(issued.Chain) < 2 {
		t.Fatalf("cert.issue: %v", err)
	}
	cert := tls.Certificate{PrivateKey: key}
	for _, text := range issued.Chain[:2] { // without the root
		block, _ := pem.Decode([]byte(text))
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	return cert
}
