// Package config holds all settings of a bridge. Sections belong to the domains
// that they are about; this package joins them.
package config

import (
	"cmp"
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

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/connect/site"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/doors/mqtt/check"
	"github.com/aibridge/aibridge/doors/mqtt/queue"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/telemetry"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/conversation"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/quota"
	"github.com/aibridge/aibridge/security/servertls"
	"github.com/aibridge/aibridge/security/token"
	"github.com/aibridge/aibridge/vfs"
)

// Config holds all settings of a bridge. A setting's flag is its path joined by
// dashes (--log-level), its environment variable the same in capitals
// (AIBRIDGE_LOG_LEVEL).
type Config struct {
	Data       string   `yaml:"data" doc:"folder for everything that must survive"`
	Dev        bool     `yaml:"dev" doc:"let everybody in; loopback only"`
	ID         string   `yaml:"id" doc:"name of this bridge, the sender_id of its answers"`
	Root       string   `yaml:"root" doc:"first level of every topic"`
	MQTTS      string   `yaml:"mqtts" doc:"address for MQTT over TLS; beside mqtt by default, port 8883 for 1883 and else one the system chooses; off for none"`
	HTTP       string   `yaml:"http" doc:"address for the HTTP API, health and metrics"`
	WS         string   `yaml:"ws" doc:"address for WebSocket: MQTT at /mqtt, envelopes at /ws"`
	Hosts      []string `yaml:"hosts" doc:"host names that HTTP clients may use, besides loopback's"`
	Origins    []string `yaml:"origins" doc:"origins of web pages that may use HTTP and WebSocket"`
	AcceptLoss bool     `yaml:"accept_loss" doc:"start although the store notices that it has lost registrations, MQTT sessions or messages, or was written with other secrets by bridges that all work"`
	Drain      int      `yaml:"drain_seconds" doc:"time that calls in flight have to end when the bridge stops"`
	Sync       string   `yaml:"sync" doc:"always: sync claims, MQTT sessions and the audit trail to disk before an answer leaves, not only registrations"`

	MQTT          mqttdoor.Settings `yaml:"mqtt"`
	ProxyProtocol listen.Proxies    `yaml:"proxy_protocol"`
	Passwords     password.Settings `yaml:"passwords"`

	NATS      natsd.Settings        `yaml:"nats"`
	Cluster   cluster.Settings      `yaml:"cluster"`
	Disk      diskspace.Settings    `yaml:"disk"`
	Log       Log                   `yaml:"log"`
	Limits    Limits                `yaml:"limits"`
	TLS       servertls.Settings    `yaml:"tls"`
	PKI       pki.Settings          `yaml:"pki"`
	Tokens    token.Settings        `yaml:"tokens"`
	Skills    Skills                `yaml:"skills"`
	Telemetry telemetry.Settings    `yaml:"telemetry"`
	VFS       vfs.Settings          `yaml:"vfs"`
	Audit     audit.Settings        `yaml:"audit"`
	Security  Security              `yaml:"security"`
	MCP       mcpdoor.Settings      `yaml:"mcp"`
	A2A       a2adoor.Settings      `yaml:"a2a"`
	Approvals approval.Settings     `yaml:"approvals"`
	ToolLoop  loop.Settings         `yaml:"tool_loop"`
	Chat      conversation.Settings `yaml:"chat"`
	LLM       model.Settings        `yaml:"llm"`
	Tools     bridge.Settings       `yaml:"tools"`
	Runs      run.Settings          `yaml:"runs"`
	Quotas    quota.Settings        `yaml:"quotas"`
	Backup    backup.Settings       `yaml:"backup"`
	Connect   connect.Settings      `yaml:"connect"`
	Doors     Doors                 `yaml:"doors"`
	Queues    []queue.Queue         `yaml:"queues" doc:"queues of messages that wait for workers; in the file only"`
	Schemas   []check.Schema        `yaml:"schemas" doc:"JSON Schemas that the payloads of topics have to fit; in the file only"`
	Links     []link.Config         `yaml:"links" doc:"other MQTT brokers, and what goes there and comes from them; in the file only"`
	Sites     site.Settings         `yaml:"sites"`
}

// Log holds the settings of the log.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error"`
	Format string `yaml:"format" doc:"text or json"`
}

// Limits bound the cost of one client.
type Limits struct {
	Payload  int `yaml:"payload" doc:"largest request, in bytes"`
	Depth    int `yaml:"depth" doc:"deepest nesting of JSON"`
	InFlight int `yaml:"in_flight" doc:"commands accepted and not answered yet"`
	Workers  int `yaml:"workers" doc:"commands running at once; 0 chooses by the number of processors"`

	Connections               int `yaml:"connections" doc:"connections at a time by all doors; 0 goes by how many descriptors the process may have"`
	Unauthenticated           int `yaml:"unauthenticated" doc:"connections of these that have shown no credential; 0 for a quarter, 4096 at most"`
	UnauthenticatedPerAddress int `yaml:"unauthenticated_per_address" doc:"connections of these from one address; 0 for half"`
	ConnectionsPerAddress     int `yaml:"connections_per_address" doc:"connections from one address, with a credential or without; 0 for no such limit"`
}

// Security holds the settings of authentication and authorization.
type Security struct {
	Policies           string `yaml:"policies" doc:"file or folder with policies in Cedar (*.cedar), followed while the bridge runs"`
	StrictDeclarations bool   `yaml:"strict_declarations" doc:"ask every skill that declares itself in a scene for a certificate, not only RouteAgents"`
}

// Skills holds the settings of calls of skills.
type Skills struct {
	AllowPrivate bool `yaml:"allow_private" doc:"call skills and agents at endpoints on loopback and private addresses"`
}

// Default is the configuration without any setting given.
func Default() Config {
	return Config{
		Data:      defaultData(),
		ID:        "aibridge",
		Root:      "aibridge",
		MQTT:      mqttdoor.DefaultSettings(),
		Passwords: password.DefaultSettings(),
		HTTP:      "127.0.0.1:9010",
		WS:        "127.0.0.1:9011",
		Drain:     15,
		Sync:      "default",
		PKI:       pki.Settings{KeyType: string(pki.ECDSA)},
		NATS:      natsd.Settings{Replicas: 1},
		Cluster:   cluster.DefaultSettings(),
		Disk:      diskspace.DefaultSettings(),
		Log:       Log{Level: "info", Format: "text"},
		Limits:    Limits{Payload: 1 << 20, Depth: 64, InFlight: 16384},
		VFS:       vfs.DefaultSettings(),
		Audit:     audit.DefaultSettings(),
		LLM:       model.DefaultSettings(),

		Approvals: approval.DefaultSettings(),
		Chat:      conversation.DefaultSettings(),
		Tools:     bridge.DefaultSettings(),
		Runs:      run.DefaultSettings(),
		Backup:    backup.DefaultSettings(),
		Connect:   connect.DefaultSettings(),
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

// Check names the fault of the configuration. Known are the commands of
// the bridge.
func (c *Config) Check(known *commands.Set) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, l := range c.Listeners() {
		host, _, err := net.SplitHostPort(l.Address)
		switch {
		case l.Unix:
		case err != nil:
			fail("%s: %q is not host:port", l.Name, l.Address)
		case c.Dev && !loopback(host):
			fail("%s: %s is not loopback, and with dev everybody would be let in", l.Name, l.Address)
		}
	}
	c.Audit.Check(fail)
	c.MCP.Check(fail)
	c.A2A.Check(fail)
	c.Connect.HomeAssistant.Check(c.Root, fail)
	c.Doors.NATS.Check(c.Root, fail)
	check.CheckSchemas(c.Schemas, fail)
	queue.CheckQueues(c.Queues, fail)
	link.Check(c.Links, c.Root, c.Dev, fail)
	c.Sites.Check(c.Dev, fail)
	if len(c.Sites.Join.Caps) > 0 && slices.ContainsFunc(c.Links, func(l link.Config) bool { return l.Name == "site" }) {
		fail(`links: "site" is the name of the link to the centre of sites.join`)
	}
	c.Approvals.Check(fail)
	c.Telemetry.Check(fail)
	c.Chat.Check(fail)
	c.Tools.Check(known, fail)
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
	within("limits.connections_per_address", c.Limits.ConnectionsPerAddress, 0, 1<<24)
	c.MQTT.Check(fail)
	c.ProxyProtocol.Check(fail)
	c.Passwords.Check(fail)
	within("nats.replicas", c.NATS.Replicas, 1, 5)
	c.NATS.Check(fail)
	if c.NATS.External() && c.Cluster.Formed() {
		fail("cluster.join: the state is in the NATS of nats.url already; leave one of them out")
	}
	c.Cluster.Check(c.Shared(), c.InNATS(), fail)
	c.Disk.Check(fail)
	c.VFS.Check(fail)
	c.LLM.Check(fail)
	c.Runs.Check(fail)
	return errors.Join(errs...)
}

// rootRule is the form of a name that can be both a topic level and part of a stream's
// name.
var rootRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Listeners are the addresses to listen on, by name.
func (c *Config) Listeners() []listen.Address {
	all := []listen.Address{
		{Name: "mqtt", Address: c.MQTT.Address}, {Name: "mqtts", Address: c.MQTTSAddress()}, {Name: "http", Address: c.HTTP}, {Name: "ws", Address: c.WS},
	}
	all = slices.DeleteFunc(all, func(l listen.Address) bool { return l.Address == off && (l.Name == "mqtt" || l.Name == "mqtts") })
	for i := range all {
		all[i].Proxies = c.ProxyProtocol.For(all[i].Name)
	}
	if c.MQTT.Unix != "" {
		mode, _ := c.MQTT.Mode() // which Check has read
		all = append(all, listen.Address{Name: "unix", Address: c.MQTT.Unix, Unix: true, Mode: mode})
	}
	return all
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// WriteYAML writes the configuration as a file that would produce it, with possible
// secrets hidden.
func (c *Config) WriteYAML(w io.Writer) error {
	var text yaml.Node
	if err := text.Encode(c.withoutSecrets()); err != nil {
		return err
	}
	hideInAddresses(&text)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&text); err != nil {
		return err
	}
	return enc.Close()
}

// Places are the folders, in the data folder unless it is said otherwise, that a
// backup has.
func (c *Config) Places() backup.Places {
	p := backup.Places{
		Runs:   filepath.Join(c.Data, "runs"),
		Caps:   filepath.Join(c.Data, "caps"),
		Models: filepath.Join(c.Data, "llm"),
		Spool:  filepath.Join(c.Data, "audit.spool"),

		SharedRuns: c.Shared(),
	}
	if !c.InNATS() {
		p.Contents = c.VFSDir()
	}
	return p
}

// Shared reports whether the state is where other bridges can reach it too.
func (c *Config) Shared() bool { return c.NATS.External() || c.Cluster.Formed() }

// Replicas is the number of copies of the state.
func (c *Config) Replicas() int {
	if c.Cluster.Formed() {
		return c.Cluster.Copies()
	}
	return c.NATS.Replicas
}

// InNATS reports whether contents of files are in NATS.
func (c *Config) InNATS() bool {
	return c.VFS.Store == "nats" || c.VFS.Store == "auto" && c.Shared()
}

// VFSDir is the folder for contents of files.
func (c *Config) VFSDir() string {
	return cmp.Or(c.VFS.Dir, filepath.Join(c.Data, "vfs"))
}

// off is the address of a listener that is not wanted.
const off = "off"

// MQTTSAddress is the address of MQTT over TLS, or off: the configured one, or one beside MQTT.
func (c *Config) MQTTSAddress() string {
	if c.MQTTS != "" {
		return c.MQTTS
	}
	host, port, err := net.SplitHostPort(c.MQTT.Address)
	switch {
	case c.MQTT.Address == off:
		return "127.0.0.1:8883"
	case err != nil:
		return off // the address of MQTT is wrong, which is reported elsewhere
	case port == "1883":
		return net.JoinHostPort(host, "8883")
	}
	return net.JoinHostPort(host, "0")
}

// checkTLS names the fault of the settings of TLS.
func (c *Config) checkTLS() error {
	if c.MQTT.Address == off && c.MQTTSAddress() == off && c.MQTT.Unix == "" {
		return errors.New("mqtt and mqtts: one of them must be on")
	}
	return c.TLS.Check()
}

// ForCommands are the limits of the envelopes of commands.
func (l *Limits) ForCommands() protocol.Limits {
	return protocol.Limits{MaxBytes: l.Payload, MaxDepth: l.Depth}
}

// ForConnections are the limits of connections, completed by the limits of the
// process.
func (l *Limits) ForConnections() gate.Limits {
	return gate.Limits{
		Connections: l.Connections, Strangers: l.Unauthenticated, PerAddress: l.UnauthenticatedPerAddress, AllPerAddress: l.ConnectionsPerAddress,
	}.Complete(gate.Descriptors())
}
