package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
)

// A mosquitto is a broker that others wrote.
type mosquitto struct {
	t       *testing.T
	program string
	port    string
	config  string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has
}

// startMosquitto runs one with settings of the test, %s for its folder, on a port
// that nobody has.
func startMosquitto(t *testing.T, dir, settings string) *mosquitto {
	t.Helper()
	for _, tool := range []string{"mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	program, err := exec.LookPath("mosquitto")
	if err != nil { // Debian has it where only root looks
		if program, err = exec.LookPath("/usr/sbin/mosquitto"); err != nil {
			t.Skip("mosquitto is not installed")
		}
	}
	m := &mosquitto{t: t, program: program, config: filepath.Join(dir, "mosquitto.conf")}
	eventually.Holds(t, "mosquitto has a port", func() bool { // somebody may take it meanwhile
		_, m.port, _ = net.SplitHostPort(freeport.Address())
		text := "user root\nlistener " + m.port + " 127.0.0.1\n" + strings.ReplaceAll(settings, "DIR", dir)
		if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return m.start()
	})
	t.Cleanup(m.stop)
	return m
}

// start runs it, and reports whether it listens.
func (m *mosquitto) start() bool {
	m.cmd = exec.Command(m.program, "-c", m.config)
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func(cmd *exec.Cmd) { defer close(ended); _ = cmd.Wait() }(m.cmd)
	for {
		select {
		case <-ended:
			m.cmd = nil
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", "127.0.0.1:"+m.port); err == nil {
			_ = conn.Close()
			m.ended = ended
			return true
		}
	}
}

// stop ends mosquitto in an orderly way, so that it saves its state.
func (m *mosquitto) stop() {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(os.Interrupt)
		<-m.ended
		m.cmd = nil
	}
}

// run runs a client of mosquitto's.
func (m *mosquitto) run(tool string, args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), eventually.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, tool, append([]string{"-h", "127.0.0.1", "-p", m.port}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %v: %v %s", tool, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

const persistent = "allow_anonymous true\npersistence true\npersistence_location DIR/\n"

// Messages waiting on either side survive mosquitto's restart and the bridge's
// death, in all versions of the protocol.
func TestMosquitto(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"5", "3.1.1", "bridge"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			m := startMosquitto(t, t.TempDir(), persistent)
			c := Config{Name: "house", URL: "mqtt://127.0.0.1:" + m.port, Version: "3.1.1", Bridged: version == "bridge",
				Out: []Rule{{Topic: "down/#", QoS: 2}}, In: []Rule{{Topic: "up/#", QoS: 2}}}
			if version == "5" {
				c.Version = "5"
			}
			near := newSite(t, "near")
			near.link(c)
			near.connected()
			here := newClient(near, "here", "up/#")
			here.publish("down/0", "retained at mosquitto", 1, retained)
			m.run("mosquitto_sub", "-t", "down/0", "-C", "1", "-W", "60")
			m.run("mosquitto_sub", "-i", "kept", "-c", "-q", "2", "-t", "down/x", "-E")
			m.stop()
			for i := range 5 {
				here.publish("down/x", fmt.Sprint("waits ", i), 2)
			}
			near.kill()
			near.start()
			here.connect()
			eventually.Holds(t, "mosquitto is back", m.start)
			near.connected()
			got := m.run("mosquitto_sub", "-i", "kept", "-c", "-q", "2", "-t", "down/x", "-C", "5", "-F", "%p", "-W", "60")
			if got != "waits 0\nwaits 1\nwaits 2\nwaits 3\nwaits 4" {
				t.Errorf("mosquitto has %q", got)
			}
			near.kill() // and mosquitto keeps the messages for the bridge
			for i := range 3 {
				m.run("mosquitto_pub", "-q", "2", "-t", "up/x", "-m", fmt.Sprint("up ", i))
			}
			near.start()
			here.connect()
			here.takes("up 2")
			if got := strings.Join(here.texts(), " "); got != "up 0 up 1 up 2" {
				t.Errorf("here: %q", got)
			}
		})
	}
}

// A user name, a password and a certificate of its own are needed at mosquitto.
func TestMosquittoWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	ca.issue(t, "server")
	ca.issue(t, "client")
	if out, err := exec.Command("mosquitto_passwd", "-b", "-c", filepath.Join(dir, "passwords"), "bridge", "secret").CombinedOutput(); err != nil {
		t.Skipf("mosquitto_passwd: %v %s", err, out)
	}
	m := startMosquitto(t, dir, "password_file DIR/passwords\ncafile DIR/ca.pem\ncertfile DIR/server.pem\nkeyfile DIR/server.key\nrequire_certificate true\n")
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	near := newSite(t, "near")
	near.link(Config{Name: "house", URL: "mqtts://127.0.0.1:" + m.port, Username: "bridge", Password: password,
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"),
		Out: []Rule{{Topic: "x", QoS: 1}}, In: []Rule{{Topic: "x/back", QoS: 1}}})
	var problem string
	eventually.Holds(t, "a wrong password is told", func() bool {
		v, _ := near.links.links[0].look()
		problem = v.Problem
		return strings.Contains(problem, "refuses the connection") && !strings.Contains(problem, "wrong")
	}, &problem)
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil { // is read anew
		t.Fatal(err)
	}
	near.connected()
}

// An authority issues certificates into a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{dir: dir, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "house"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	a.key = a.write(t, "ca", a.cert, nil)
	return a
}

func (a *authority) issue(t *testing.T, name string) {
	a.write(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.key)
}

func (a *authority) write(t *testing.T, name string, cert *x509.Certificate, by *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key
}
