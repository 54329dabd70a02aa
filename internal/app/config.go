package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/quota"
	"github.com/aibridge/aibridge/security/servertls"
	"github.com/aibridge/aibridge/security/token"
	"github.com/aibridge/aibridge/vfs"
)

// Config is everything a bridge can be told. A setting's flag is its path
// joined by dashes (--log-level), its environment variable the same in
// capitals (AIBRIDGE_LOG_LEVEL).
type Config struct {
	Data       string   `yaml:"data" doc:"folder for everything that must survive"`
	Dev        bool     `yaml:"dev" doc:"let everybody in; loopback only"`
	ID         string   `yaml:"id" doc:"name of this bridge, the sender_id of its answers"`
	Root       string   `yaml:"root" doc:"first level of every topic"`
	MQTT       string   `yaml:"mqtt" doc:"address for MQTT over TCP; off for none"`
	MQTTS      string   `yaml:"mqtts" doc:"address for MQTT over TLS; beside mqtt by default, port 8883 for 1883 and else one the system chooses; off for none"`
	HTTP       string   `yaml:"http" doc:"address for the HTTP API, health and metrics"`
	WS         string   `yaml:"ws" doc:"address for WebSocket: MQTT at /mqtt, envelopes at /ws"`
	Hosts      []string `yaml:"hosts" doc:"host names that HTTP clients may use, besides loopback's"`
	Origins    []string `yaml:"origins" doc:"origins of web pages that may use HTTP and WebSocket"`
	AcceptLoss bool     `yaml:"accept_loss" doc:"start although the store notices that it has lost registrations, MQTT sessions or messages"`
	Drain      int      `yaml:"drain_seconds" doc:"how long calls in flight have to end when the bridge stops"`
	Sync       string   `yaml:"sync" doc:"always: sync claims, MQTT sessions and the audit trail to disk before an answer leaves, not only registrations"`

	NATS      NATS               `yaml:"nats"`
	Disk      diskspace.Settings `yaml:"disk"`
	Log       Log                `yaml:"log"`
	Limits    Limits             `yaml:"limits"`
	TLS       servertls.Settings `yaml:"tls"`
	PKI       pki.Settings       `yaml:"pki"`
	Tokens    token.Settings     `yaml:"tokens"`
	Skills    Skills             `yaml:"skills"`
	Telemetry Telemetry          `yaml:"telemetry"`
	VFS       vfs.Settings       `yaml:"vfs"`
	Audit     audit.Settings     `yaml:"audit"`
	Security  Security           `yaml:"security"`
	MCP       MCP                `yaml:"mcp"`
	Approvals Approvals          `yaml:"approvals"`
	ToolLoop  ToolLoop           `yaml:"tool_loop"`
	Chat      Chat               `yaml:"chat"`
	LLM       LLM                `yaml:"llm"`
	Tools     Tools              `yaml:"tools"`
	Runs      Runs               `yaml:"runs"`
	Quotas    quota.Settings     `yaml:"quotas"`
	Backup    backup.Settings    `yaml:"backup"`
}

// NATS says where the state lives when not in the embedded server.
type NATS struct {
	URL         string `yaml:"url" doc:"NATS servers to keep the state in, instead of the embedded one"`
	Credentials string `yaml:"credentials" doc:"file with NATS user credentials"`
	CA          string `yaml:"ca" doc:"PEM file with the roots of the NATS servers' certificates, instead of the system's"`
	Cert        string `yaml:"cert" doc:"PEM file with a client certificate for NATS"`
	Key         string `yaml:"key" doc:"PEM file with the client certificate's key"`
	Replicas    int    `yaml:"replicas" doc:"copies of every stream on a NATS cluster"`
}

// check says what is wrong with the settings.
func (n *NATS) check(fail func(format string, args ...any)) {
	if n.URL == "" && (n.Replicas > 1 || n.Credentials != "" || n.CA != "" || n.Cert != "") {
		fail("nats.url: is needed by the other settings of nats; the embedded server has no copies and no doors")
	}
	if (n.Cert == "") != (n.Key == "") {
		fail("nats: cert and key go together")
	}
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error"`
	Format string `yaml:"format" doc:"text or json"`
}

// Limits bound what one client can cost.
type Limits struct {
	Payload  int `yaml:"payload" doc:"largest request, in bytes"`
	Depth    int `yaml:"depth" doc:"deepest nesting of JSON"`
	InFlight int `yaml:"in_flight" doc:"commands accepted and not answered yet"`
	Workers  int `yaml:"workers" doc:"commands running at once; 0 chooses by the number of processors"`

	Connections               int `yaml:"connections" doc:"connections at a time by all doors; 0 goes by how many descriptors the process may have"`
	Unauthenticated           int `yaml:"unauthenticated" doc:"connections of these that have shown no credential; 0 for a quarter, 4096 at most"`
	UnauthenticatedPerAddress int `yaml:"unauthenticated_per_address" doc:"connections of these from one address; 0 for half"`

	TopicLevels int `yaml:"topic_levels" doc:"levels of an MQTT topic or filter"`
}

// Skills says what the bridge may do to reach skills.
type Skills struct {
	AllowPrivate bool `yaml:"allow_private" doc:"call skills and agents at endpoints on loopback and private addresses"`
}

// Telemetry says where traces go.
type Telemetry struct {
	OTLP string `yaml:"otlp" doc:"URL of an OpenTelemetry collector (HTTP); none when empty"`
}

// DefaultConfig is the configuration of a bridge that was told nothing.
func DefaultConfig() Config {
	return Config{
		Data:   defaultData(),
		ID:     "aibridge",
		Root:   "aibridge",
		MQTT:   "127.0.0.1:1883",
		HTTP:   "127.0.0.1:9010",
		WS:     "127.0.0.1:9011",
		Drain:  15,
		Sync:   "default",
		PKI:    pki.Settings{KeyType: string(pki.ECDSA)},
		NATS:   NATS{Replicas: 1},
		Disk:   diskspace.DefaultSettings(),
		Log:    Log{Level: "info", Format: "text"},
		Limits: Limits{Payload: 1 << 20, Depth: 64, InFlight: 16384, TopicLevels: 128},
		VFS:    vfs.DefaultSettings(),
		Audit:  audit.DefaultSettings(),
		LLM:    defaultLLM(),

		Approvals: defaultApprovals(),
		Chat:      defaultChat(),
		Tools:     defaultTools(),
		Runs:      defaultRuns(),
		Backup:    backup.DefaultSettings(),
	}
}

func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "aibridge")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "aibridge")
	}
	return "aibridge-data"
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, l := range c.listeners() {
		host, _, err := net.SplitHostPort(l.address)
		switch {
		case err != nil:
			fail("%s: %q is not host:port", l.name, l.address)
		case c.Dev && !loopback(host):
			fail("%s: %s is not loopback, and with dev everybody would be let in", l.name, l.address)
		}
	}
	c.Audit.Check(fail)
	c.MCP.check(fail)
	c.Approvals.check(fail)
	c.Telemetry.check(fail)
	c.Chat.check(fail)
	c.Tools.check(fail)
	c.Quotas.Check(fail)
	c.Backup.Check(fail)
	if c.Data == "" {
		fail("data: a folder is needed")
	}
	if err := errors.Join(c.checkTLS(), c.PKI.Check()); err != nil {
		errs = append(errs, err)
	}
	oneOf := func(name, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			fail("%s: %q is none of %q", name, value, allowed)
		}
	}
	oneOf("sync", c.Sync, "default", "always")
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "text", "json")
	if reason := protocol.AgentID("").Rule().Check(c.ID); reason != "" { // agents read it as a sender
		fail("id: %q %s", c.ID, reason)
	}
	if !rootRule.MatchString(c.Root) {
		fail("root: %q must be one topic level of letters, digits, - and _", c.Root)
	}
	within := func(name string, value, low, high int) {
		if value < low || value > high {
			fail("%s: %d is not within %d and %d", name, value, low, high)
		}
	}
	within("drain_seconds", c.Drain, 0, 3600)
	within("limits.payload", c.Limits.Payload, 1<<10, 64<<20)
	within("limits.depth", c.Limits.Depth, 8, 1024)
	within("limits.in_flight", c.Limits.InFlight, 1, 1<<20)
	within("limits.workers", c.Limits.Workers, 0, 1<<16)
	within("limits.connections", c.Limits.Connections, 0, 1<<24)
	within("limits.unauthenticated", c.Limits.Unauthenticated, 0, 1<<24)
	within("limits.unauthenticated_per_address", c.Limits.UnauthenticatedPerAddress, 0, 1<<24)
	if l := c.Limits; l.Connections > 0 && l.Unauthenticated >= l.Connections {
		fail("limits.unauthenticated: %d leaves no room within limits.connections, %d, for those that have shown a credential", l.Unauthenticated, l.Connections)
	}
	within("limits.topic_levels", c.Limits.TopicLevels, 16, 1<<15)
	within("nats.replicas", c.NATS.Replicas, 1, 5)
	c.NATS.check(fail)
	c.Disk.Check(fail)
	c.VFS.Check(fail)
	c.LLM.check(fail)
	c.Runs.check(fail)
	return errors.Join(errs...)
}

// rootRule is what can be both a topic level and part of a stream's name.
var rootRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

type listenerConfig struct{ name, address string }

func (c *Config) listeners() []listenerConfig {
	all := []listenerConfig{{"mqtt", c.MQTT}, {"mqtts", c.mqttsAddress()}, {"http", c.HTTP}, {"ws", c.WS}}
	return slices.DeleteFunc(all, func(l listenerConfig) bool { return l.address == off && (l.name == "mqtt" || l.name == "mqtts") })
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// WriteYAML writes the configuration as a file that would produce it, but for
// passwords, which are left out.
func (c *Config) WriteYAML(w io.Writer) error {
	shown := *c
	shown.NATS.URL = natsd.Redact(c.NATS.URL)
	shown.Telemetry.OTLP = natsd.Redact(c.Telemetry.OTLP)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(shown); err != nil {
		return err
	}
	return enc.Close()
}
