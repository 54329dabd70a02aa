package app

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/settings"
)

func load(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(fs)
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
		"file":             {c.MQTT.Address, "127.0.0.1:1"},
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
		"a misspelt key":           {[]string{"--config", file("vfs: {max_fil: 1}\n")}, "there is no setting max_fil; did you mean max_file?"},
		"a text for a number":      {[]string{"--config", file("dev: true\nlimits:\n  payload: 2048\n  workers: many\n")}, `line 4: limits.workers: "many" is not a whole number`},
		"two on one line":          {[]string{"--config", file("limits: {payload: 2048, workers: many}\n")}, `line 1: limits.workers: "many" is not a whole number`},
		"a number for a word":      {[]string{"--config", file("tls: {only: 3}\n")}, `line 1: tls.only: "3" is not true or false`},
		"a list for a text":        {[]string{"--config", file("log:\n  level: [info]\n")}, "log.level: a list is not a text"},
		"a text for a group":       {[]string{"--config", file("log: debug\n")}, `log: "debug" is not a group of settings`},
		"a text for a list":        {[]string{"--config", file("tokens: {issuers: [{issuer: x, roles: 7}]}\n")}, `tokens.issuers[0].roles: "7" is not a group of settings`},
		"copies without NATS":      {[]string{"--nats-replicas", "3"}, "nats.url: is needed"},
		"credentials, no NATS":     {[]string{"--nats-credentials", "bridge.creds"}, "nats.url: is needed"},
		"a NATS key alone":         {[]string{"--nats-url", "tls://127.0.0.1:1", "--nats-key", "key.pem"}, "cert and key go together"},
		"an id of two levels":      {[]string{"--id", "a/b"}, "id: "},
		"an unknown key of MQTT":   {[]string{"--config", file("mqtt:\n  address: 127.0.0.1:0\n  keep_alive: 3\n")}, "line 3: there is no setting keep_alive; did you mean keep_alive_seconds?"},
		"a list for MQTT":          {[]string{"--config", file("mqtt: [1]\n")}, "mqtt: a list is not a group of settings"},
		"a limit out of range":     {[]string{"--mqtt-inflight", "65536"}, "mqtt.inflight: 65536 is not within 1 and 65535"},
		"an old name, a text":      {[]string{"--config", file("limits: {topic_levels: many}\n")}, `line 1: limits.topic_levels: "many" is not a whole number`},
		"a socket somewhere":       {[]string{"--mqtt-unix", "mqtt.sock"}, `mqtt.unix: "mqtt.sock" is not an absolute path`},
		"a mode that is none":      {[]string{"--mqtt-unix-mode", "rw"}, `mqtt.unix_mode: "rw" is not a mode`},
		"proxies of nobody":        {[]string{"--proxy-protocol-listeners", "mqtt"}, "proxy_protocol: listeners and trusted go together"},
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

func TestTheSectionOfMQTT(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("mqtt:\n  address: 127.0.0.1:2\n  keep_alive_seconds: 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "--config", file, "--mqtt-queue-messages", "5")
	if err != nil {
		t.Fatal(err)
	}
	if m := c.MQTT; m.Address != "127.0.0.1:2" || m.KeepAlive != 60 || m.QueueMessages != 5 || m.Inflight != 1024 {
		t.Errorf("it reads %+v", m)
	}
	if c, err = load(t, "--config", file, "--mqtt", "127.0.0.1:3"); err != nil || c.MQTT.Address != "127.0.0.1:3" || c.MQTT.KeepAlive != 60 {
		t.Errorf("with a flag: %+v, %v", c.MQTT, err)
	}
}

// TestASettingIsFoundByItsOldName has the name of today win.
func TestASettingIsFoundByItsOldName(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "old.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, args := range map[string][]string{
		"file":          {"--config", file("limits: {payload: 2048, topic_levels: 20}\nmqtt: 127.0.0.1:0\n")},
		"file, both":    {"--config", file("limits: {topic_levels: 30}\nmqtt: {topic_levels: 20}\n")},
		"flag":          {"--limits-topic-levels", "20"},
		"flag, over it": {"--config", file("mqtt: {topic_levels: 30}\n"), "--limits-topic-levels=20"},
	} {
		if c, err := load(t, args...); err != nil || c.MQTT.TopicLevels != 20 {
			t.Errorf("%s: %d levels, %v", name, c.MQTT.TopicLevels, err)
		}
	}
	if c, err := withVariable(t, "AIBRIDGE_LIMITS_TOPIC_LEVELS=20"); err != nil || c.MQTT.TopicLevels != 20 {
		t.Errorf("variable: %d levels, %v", c.MQTT.TopicLevels, err)
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
		c.MQTT.Address, c.MQTTS = test.mqtt, test.mqtts
		if got := c.MQTTSAddress(); got != test.want {
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
	c.MQTT.TopicMetrics = []string{"sensors/#"}
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
	if again.Log.Format != "json" || len(again.Hosts) != 1 || again.Limits != c.Limits || !reflect.DeepEqual(again.MQTT, c.MQTT) {
		t.Errorf("read back %+v", again)
	}
}

func TestVariablesThatMeanNothingAreRefused(t *testing.T) {
	for variable, want := range map[string]string{
		"AIBRIDGE_LOG_LEVL":     "the variable AIBRIDGE_LOG_LEVL means nothing; did you mean AIBRIDGE_LOG_LEVEL?",
		"AIBRIDGE_API_KYE":      "did you mean AIBRIDGE_API_KEY?",
		"AIBRIDGE_FRIENDLINESS": "the variable AIBRIDGE_FRIENDLINESS means nothing",
	} {
		_, err := withVariable(t, variable)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", variable, err)
		}
	}
	for _, variable := range []string{
		"AIBRIDGE_DRAIN_SECONDS=5", "AIBRIDGE_SERVICE_HOST=10.0.0.1", "AIBRIDGE_PORT=tcp://10.0.0.1:1883", "AIBRIDGE_PORT_1883_TCP_ADDR=10.0.0.1",
		"AIBRIDGE_HTTP_SERVICE_PORT_WEB=9010", "AIBRIDGE_PARAM_CELSIUS=20", "AIBRIDGE_SKILL_ID=x", "AIBRIDGE_LLM_API_KEY=x", "NOT_AIBRIDGE_X=1",
	} {
		if _, err := withVariable(t, variable); err != nil {
			t.Errorf("%s: %v", variable, err)
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("approvals: {webhooks: [{url: 'https://x.example', secret_env: AIBRIDGE_FRIENDLINESS}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := withVariable(t, "AIBRIDGE_FRIENDLINESS=x", "--config", file); err != nil && strings.Contains(err.Error(), "means nothing") {
		t.Errorf("a variable that the configuration names: %v", err)
	}
	c := DefaultConfig()
	if err := settings.CheckEnvironment(&c, []string{"AIBRIDGE_FRIENDLINESS=x", "AIBRIDGE_DATA=x"}, false); err != nil {
		t.Errorf("a variable of somebody else's, for a command that is no bridge: %v", err)
	}
	if err := settings.CheckEnvironment(&c, []string{"AIBRIDGE_DTAA=x"}, false); err == nil || !strings.Contains(err.Error(), "AIBRIDGE_DATA?") {
		t.Errorf("a misspelt one: %v", err)
	}
}

// withVariable loads the configuration with a variable set.
func withVariable(t *testing.T, variable string, args ...string) (c Config, err error) {
	t.Run(variable, func(t *testing.T) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
		c, err = load(t, args...)
	})
	return c, err
}
