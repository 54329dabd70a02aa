package listen

import (
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// A caller writes first bytes to a listener. It returns the address that the
// listener saw and what it read of the connection, "" if it was not served.
func seen(t *testing.T, proxies []string, first string) (from, text string) {
	t.Helper()
	p := Proxies{Listeners: []string{"mqtt"}, Trusted: proxies}
	s, err := Open(t.Context(), []Address{{Name: "mqtt", Address: loopback, Proxies: p.For("mqtt")}})
	if err != nil {
		t.Fatal(err)
	}
	l := s.Get("mqtt")
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		from = c.RemoteAddr().(*net.TCPAddr).IP.String()
		read, _ := io.ReadAll(c)
		text = string(read)
	}()
	c, err := net.Dial("tcp", s.Address("mqtt"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, first); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(c) // until it is closed, served or not
	_ = c.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-served
	return from, text
}

func TestAProxyTellsWhereAConnectionComesFrom(t *testing.T) {
	client, bridge := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4711}, &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 1883}
	header := func(version byte, change func(*proxyproto.Header)) string {
		h := proxyproto.HeaderProxyFromAddrs(version, client, bridge)
		change(h)
		b, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	same := func(*proxyproto.Header) {}
	local := header(2, func(h *proxyproto.Header) { h.Command = proxyproto.LOCAL })
	for name, test := range map[string]struct {
		trusted           string
		first, from, text string
	}{
		"version 2":                   {"127.0.0.0/8", header(2, same) + "hello", "192.0.2.7", "hello"},
		"version 1":                   {"127.0.0.1", header(1, same) + "hello", "192.0.2.7", "hello"},
		"a question of the proxy":     {"127.0.0.0/8", local + "hello", "127.0.0.1", "hello"},
		"a proxy that says nothing":   {"127.0.0.0/8", "\x10\x0chello, this is no header", "", ""},
		"half a header":               {"127.0.0.0/8", header(2, same)[:20], "", ""},
		"somebody who is not trusted": {"10.0.0.0/8", header(2, same) + "hello", "127.0.0.1", header(2, same) + "hello"},
	} {
		if from, text := seen(t, []string{test.trusted}, test.first); from != test.from || text != test.text {
			t.Errorf("%s: from %q it reads %q, want from %q %q", name, from, text, test.from, test.text)
		}
	}
}

func TestASilentProxyHoldsUpNobody(t *testing.T) {
	s, err := Open(t.Context(), []Address{{Name: "mqtt", Address: loopback, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
	l := s.Get("mqtt")
	silent, err := net.Dial("tcp", s.Address("mqtt"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, err := net.Dial("tcp", s.Address("mqtt"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 1883\r\n"); err != nil {
		t.Fatal(err)
	}
	served, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got := served.RemoteAddr().String(); got != "192.0.2.7:4711" {
		t.Errorf("from %s", got)
	}
	_ = served.Close()
	if err := l.Close(); err != nil { // and the silent one is closed with it
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection is not closed")
	}
}

func TestSettingsOfProxies(t *testing.T) {
	for name, test := range map[string]struct {
		p    Proxies
		want string
	}{
		"nobody":            {Proxies{}, ""},
		"good":              {Proxies{[]string{"mqtt", "ws"}, []string{"10.0.0.5", "fd00::/8"}}, ""},
		"no such listener":  {Proxies{[]string{"mqqt"}, []string{"10.0.0.5"}}, `"mqqt" is none of`},
		"no address":        {Proxies{[]string{"mqtt"}, []string{"haproxy"}}, `"haproxy" is neither`},
		"everybody trusted": {Proxies{[]string{"mqtt"}, nil}, "go together"},
		"for no listener":   {Proxies{nil, []string{"10.0.0.5"}}, "go together"},
	} {
		var said []string
		test.p.Check(func(format string, args ...any) { said = append(said, format) })
		if (len(said) > 0) != (test.want != "") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

func TestAUnixSocketIsForThoseItsModeLets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have other permissions there")
	}
	path := filepath.Join(t.TempDir(), "mqtt.sock")
	address := []Address{{Name: "unix", Address: path, Unix: true, Mode: 0o620}}
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if file, err := os.Stat(path); err != nil || file.Mode().Perm() != 0o620 {
		t.Errorf("its mode is %v, %v", file.Mode(), err)
	}
	if _, err := Open(t.Context(), address); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a socket in use is taken: %v", err)
	}
	accepted := make(chan string)
	go func() {
		c, err := s.Get("unix").Accept()
		if err != nil {
			accepted <- err.Error()
			return
		}
		defer c.Close()
		accepted <- c.RemoteAddr().String()
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if from := <-accepted; from != "127.0.0.1:0" {
		t.Errorf("a local client comes from %s", from)
	}
	s.StandBy("none")
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if file, err := os.Stat(path); err != nil || file.Mode().Perm() != 0o620 {
		t.Errorf("opened again its mode is %v, %v", file.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestASocketThatWasLeftBehindIsReplacedAndNothingElse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sockets are other files there")
	}
	path := filepath.Join(t.TempDir(), "mqtt.sock")
	address := []Address{{Name: "unix", Address: path, Unix: true, Mode: 0o600}}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatalf("a socket that nobody listens on: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), address); err == nil {
		t.Error("a file is replaced")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
