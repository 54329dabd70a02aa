package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func load(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return LoadConfig(fs)
}

func TestLaterSourcesWin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("mqtt: 127.0.0.1:1\nhttp: 127.0.0.1:2\nws: 127.0.0.1:3\nlimits: {payload: 2048}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AIBRIDGE_HTTP", "127.0.0.1:20")
	t.Setenv("AIBRIDGE_WS", "127.0.0.1:30")
	t.Setenv("AIBRIDGE_LIMITS_IN_FLIGHT", "7")
	c, err := load(t, "--config", file, "--ws", "127.0.0.1:300", "--hosts", "a.example, b.example", "--dev")
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"file":             {c.MQTT, "127.0.0.1:1"},
		"file, nested":     {c.Limits.Payload, 2048},
		"environment":      {c.HTTP, "127.0.0.1:20"},
		"environment, int": {c.Limits.InFlight, 7},
		"flag":             {c.WS, "127.0.0.1:300"},
		"flag, list":       {strings.Join(c.Hosts, "|"), "a.example|b.example"},
		"flag, bool":       {c.Dev, true},
		"default":          {c.Log.Level, "info"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestBadConfigurationIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"dev on every address":     {[]string{"--dev", "--mqtt", ":1883"}, "mqtt: :1883 is not loopback"},
		"dev on a public address":  {[]string{"--dev", "--http", "192.0.2.1:9010"}, "http: 192.0.2.1:9010 is not loopback"},
		"dev on a host name":       {[]string{"--dev", "--ws", "example.org:9011"}, "ws: example.org:9011 is not loopback"},
		"dev over TLS beyond":      {[]string{"--dev", "--mqtts", "0.0.0.0:8883"}, "mqtts: 0.0.0.0:8883 is not loopback"},
		"neither MQTT nor MQTTS":   {[]string{"--mqtt", "off", "--mqtts", "off"}, "one of them must be on"},
		"HTTP off":                 {[]string{"--http", "off"}, "is not host:port"},
		"a certificate, no key":    {[]string{"--tls-cert", "cert.pem"}, "cert and key go together"},
		"an issuer misspelt":       {[]string{"--config", file("tokens: {issuers: [{isuer: x}]}\n")}, "there is no setting isuer"},
		"no port":                  {[]string{"--mqtt", "127.0.0.1"}, "is not host:port"},
		"unknown log level":        {[]string{"--log-level", "loud"}, "log.level"},
		"unknown sync":             {[]string{"--sync", "sometimes"}, "sync"},
		"payload out of range":     {[]string{"--limits-payload", "1"}, "limits.payload"},
		"not a number":             {[]string{"--limits-workers", "many"}, "--limits-workers"},
		"unknown key in the file":  {[]string{"--config", file("mqqt: 127.0.0.1:1\n")}, "line 1: there is no setting mqqt"},
		"copies without NATS":      {[]string{"--nats-replicas", "3"}, "nats.url: is needed"},
		"credentials, no NATS":     {[]string{"--nats-credentials", "bridge.creds"}, "nats.url: is needed"},
		"a NATS key alone":         {[]string{"--nats-url", "tls://127.0.0.1:1", "--nats-key", "key.pem"}, "cert and key go together"},
		"an id of two levels":      {[]string{"--id", "a/b"}, "id: "},
		"a file that is not there": {[]string{"--config", filepath.Join(dir, "none.yaml")}, "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestMQTTOverTLSIsBesideMQTTUnlessItIsElsewhere(t *testing.T) {
	for _, test := range []struct{ mqtt, mqtts, want string }{
		{"127.0.0.1:1883", "", "127.0.0.1:8883"},
		{"[::1]:1883", "", "[::1]:8883"},
		{":1883", "", ":8883"},
		{"127.0.0.1:0", "", "127.0.0.1:0"},
		{"127.0.0.1:2883", "", "127.0.0.1:0"},
		{"off", "", "127.0.0.1:8883"},
		{"127.0.0.1:1883", "off", "off"},
		{"127.0.0.1:1883", "0.0.0.0:9883", "0.0.0.0:9883"},
	} {
		c := DefaultConfig()
		c.MQTT, c.MQTTS = test.mqtt, test.mqtts
		if got := c.mqttsAddress(); got != test.want {
			t.Errorf("%s and %q: %s, want %s", test.mqtt, test.mqtts, got, test.want)
		}
	}
}

func TestDevAcceptsEveryLoopbackAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "127.8.9.10", "[::1]", "localhost", "[::ffff:127.0.0.1]"} {
		if _, err := load(t, "--dev", "--mqtt", host+":0"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestPrintedConfigurationReadsBackWithoutSecrets(t *testing.T) {
	c, err := load(t, "--nats-url", "nats://bob:hunter2@127.0.0.1:4222",
		"--telemetry-otlp", "http://bob:hunter2@127.0.0.1:4318", "--log-format", "json", "--hosts", "x.example")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.WriteYAML(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the password is shown:\n%s", out.String())
	}
	path := filepath.Join(t.TempDir(), "out.yaml")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, "--config", path)
	if err != nil {
		t.Fatal(err)
	}
	if again.Log.Format != "json" || len(again.Hosts) != 1 || again.Limits != c.Limits {
		t.Errorf("read back %+v", again)
	}
}
