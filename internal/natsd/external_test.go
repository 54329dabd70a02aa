package natsd

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestAServerThatPingsItsClientTooSoonIsDialledAgain has a server do to its first
// client what NATS does to one that is slow to connect.
func TestAServerThatPingsItsClientTooSoonIsDialledAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for _, greeting := range []string{"PING\r\nPONG\r\n", "PONG\r\n"} {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.11.0\",\"max_payload\":1048576,\"headers\":true}\r\n")
			for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "PING"; {
			}
			fmt.Fprint(conn, greeting)
		}
	}()
	conn, err := dial("nats://"+l.Addr().String(), nats.Timeout(eventually.Patience), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// identity makes a certificate that is its own root, for servers and clients
// on loopback, and returns its files and the pair.
func identity(t *testing.T) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}

func TestNATSIsReachedOverTLSWithACertificateOfOnesOwn(t *testing.T) {
	cert, key, pair := identity(t)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Username: "bridge", Password: "s3cret", AuthTimeout: eventually.Patience.Seconds(), TLSTimeout: eventually.Patience.Seconds(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(eventually.Patience) {
		t.Fatal("NATS did not start")
	}
	host := srv.Addr().String()
	good := ExternalOptions{URL: "tls://bridge:s3cret@" + host, CA: cert, Cert: cert, Key: key}
	s, err := Connect(good)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for name, change := range map[string]func(*ExternalOptions){
		"roots of others":  func(o *ExternalOptions) { o.CA = "" },
		"no certificate":   func(o *ExternalOptions) { o.Cert, o.Key = "", "" },
		"a wrong password": func(o *ExternalOptions) { o.URL = "tls://bridge:s3cret2@" + host },
		"a missing file":   func(o *ExternalOptions) { o.Credentials = filepath.Join(t.TempDir(), "none") },
	} {
		bad := good
		change(&bad)
		s, err := Connect(bad)
		if err == nil {
			s.Close()
			t.Errorf("%s: connected", name)
			continue
		}
		if errors.Is(err, ErrAway) {
			t.Errorf("%s: waiting would not help: %v", name, err)
		}
		if !strings.Contains(err.Error(), "tls://bridge:xxxxx@"+host) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnErrorNamesTheServersWithoutPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"nats://127.0.0.1:1":                     "nats://127.0.0.1:1",
		"nats://me:s3cret@127.0.0.1:1":           "nats://me:xxxxx@127.0.0.1:1",
		"me:s3cret@127.0.0.1:1":                  "nats://me:xxxxx@127.0.0.1:1",
		"nats://s3cret@127.0.0.1:1, 127.0.0.1:1": "nats://xxxxx@127.0.0.1:1,",
		"nats://me:s3cret@127.0.0.1:x":           "xxxxx",
		"nats://me:s3cret/@127.0.0.1:1":          "xxxxx",
	} {
		s, err := Connect(ExternalOptions{URL: url})
		if err == nil {
			s.Close()
			t.Fatalf("connected to %s", url)
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestAConnectionThatNATSHasClosedSaysWhy lowers max_payload, and sends what was allowed
// before.
func TestAConnectionThatNATSHasClosedSaysWhy(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(eventually.Patience) {
		t.Fatal("NATS does not come up")
	}
	s, err := Connect(ExternalOptions{URL: srv.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lower := server.Options{Host: "127.0.0.1", Port: srv.Addr().(*net.TCPAddr).Port, NoSigs: true, NoLog: true, MaxPayload: 1 << 10}
	if err := srv.ReloadOptions(&lower); err != nil {
		t.Fatal(err)
	}
	// A larger one would be reset while it is sent: the client connects again then, and
	// knows the limit.
	if err := s.State().Publish("x", make([]byte, 1<<10+1)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.Failed():
		if !strings.Contains(err.Error(), "max_payload of its servers was lowered") {
			t.Errorf("it says %v", err)
		}
	case <-time.After(eventually.Patience):
		t.Error("it says nothing")
	}
}

// TestAConnectionThatIsClosedHereHasNotFailed closes it as at the end of a bridge.
func TestAConnectionThatIsClosedHereHasNotFailed(t *testing.T) {
	failed := make(chan error, 1)
	if closedByServer(nil, failed); len(failed) > 0 {
		t.Errorf("it failed with %v", <-failed)
	}
}
