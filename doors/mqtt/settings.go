package mqtt

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/topic"
)

// Settings are everything that concerns MQTT alone. In a file an address may
// stand for the whole section.
type Settings struct {
	Address  string `yaml:"address" setting:"group" doc:"address for MQTT over TCP; off for none"`
	Unix     string `yaml:"unix" doc:"path of a unix socket for MQTT, for clients on this machine"`
	UnixMode string `yaml:"unix_mode" doc:"permissions of the unix socket, in octal"`

	ConnectTimeout int      `yaml:"connect_timeout_seconds" doc:"from a connection to its CONNECT, and to the end of authentication"`
	EntryTimeout   int      `yaml:"entry_timeout_seconds" doc:"from the end of authentication until a session comes from another bridge of a cluster"`
	KeepAlive      int      `yaml:"keep_alive_seconds" doc:"longest keep-alive of MQTT 5 clients; 0 leaves it to them, none at all included"`
	SessionExpiry  int      `yaml:"session_expiry_seconds" doc:"longest a session is kept while its client is away"`
	QueueMessages  int      `yaml:"queue_messages" doc:"messages of QoS 1 and 2 that wait for a client"`
	QueueBytes     int      `yaml:"queue_bytes" doc:"their topics and payloads, in bytes"`
	Inflight       int      `yaml:"inflight" doc:"publishes on their way to a client that it has not acknowledged"`
	ReceiveMaximum int      `yaml:"receive_maximum" doc:"publishes of a client that the bridge has not acknowledged"`
	TopicAliases   int      `yaml:"topic_aliases" doc:"topic aliases of a connection, either way"`
	TopicLevels    int      `yaml:"topic_levels" was:"limits.topic_levels" doc:"levels of a topic or filter"`
	Subscriptions  int      `yaml:"subscriptions" doc:"subscriptions of a client"`
	TopicMetrics   []string `yaml:"topic_metrics" doc:"topic filters of which messages are counted, in aibridge_topic_messages_total"`
	Conditions     bool     `yaml:"subscription_conditions" doc:"take what stands behind a question mark in the filter of a subscription as a condition on user properties of messages"`
	Sparkplug      bool     `yaml:"sparkplug" doc:"keep birth certificates of Sparkplug B, and give death certificates the time, as a Sparkplug Aware server does"`
	CloudEvents    bool     `yaml:"cloudevents" doc:"tell the bridge's events as CloudEvents, too, below cloudevents/binary/ and cloudevents/structured/"`
	RetainedBytes  int      `yaml:"retained_bytes" doc:"retained messages all together, in bytes"`
}

// DefaultSettings are those of a bridge that was told nothing.
func DefaultSettings() Settings {
	return Settings{
		Address: "127.0.0.1:1883", UnixMode: "0600",
		ConnectTimeout: 10, EntryTimeout: 25, SessionExpiry: 7 * 24 * 3600, QueueMessages: 100_000, QueueBytes: 64 << 20,
		Inflight: 1024, ReceiveMaximum: 1024, TopicAliases: 32, TopicLevels: 128, Subscriptions: 10_000, RetainedBytes: 1 << 30,
	}
}

// UnmarshalYAML reads the section, or the address alone.
func (c *Settings) UnmarshalYAML(read func(any) error) error {
	var address string
	if read(&address) == nil {
		c.Address = address
		return nil
	}
	type section Settings // without this method
	return read((*section)(c))
}

// mostTopicMetrics bounds the filters that messages are counted by.
const mostTopicMetrics = 100

// mostSeconds is the longest session expiry: 68 years.
const mostSeconds = 1<<31 - 1

// Check tells fail what is wrong with the settings, but for the address, which
// is checked with those of other doors.
func (c *Settings) Check(fail func(format string, args ...any)) {
	for _, s := range []struct {
		name             string
		value, low, high int
	}{
		{"connect_timeout_seconds", c.ConnectTimeout, 1, 600},
		{"entry_timeout_seconds", c.EntryTimeout, 1, 600},
		{"keep_alive_seconds", c.KeepAlive, 0, 65535},
		{"session_expiry_seconds", c.SessionExpiry, 1, mostSeconds},
		{"queue_messages", c.QueueMessages, 1, 1 << 24},
		{"queue_bytes", c.QueueBytes, 1 << 10, 1<<31 - 1},
		{"inflight", c.Inflight, 1, 65535},
		{"receive_maximum", c.ReceiveMaximum, 1, 65535},
		{"topic_aliases", c.TopicAliases, 1, 65535},
		{"topic_levels", c.TopicLevels, 16, 1 << 15},
		{"subscriptions", c.Subscriptions, 1, 1 << 24},
		{"retained_bytes", c.RetainedBytes, 1 << 10, 1<<31 - 1},
	} {
		if s.value < s.low || s.value > s.high {
			fail("mqtt.%s: %d is not within %d and %d", s.name, s.value, s.low, s.high)
		}
	}
	if len(c.TopicMetrics) > mostTopicMetrics {
		fail("mqtt.topic_metrics: %d filters are more than %d", len(c.TopicMetrics), mostTopicMetrics)
	}
	for _, filter := range c.TopicMetrics {
		if !topic.ValidFilter(filter) || topic.Inner(filter) != filter {
			fail("mqtt.topic_metrics: %q is not a topic filter", filter)
		}
	}
	if c.Unix != "" && !filepath.IsAbs(c.Unix) {
		fail("mqtt.unix: %q is not an absolute path", c.Unix)
	}
	if _, err := c.Mode(); err != nil {
		fail("mqtt.unix_mode: %s", err)
	}
}

// Mode is that of the unix socket.
func (c *Settings) Mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(c.UnixMode, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not a mode such as 0660", c.UnixMode)
	}
	return fs.FileMode(mode), nil
}

// Limits are those of the settings, for the broker.
func (c *Settings) Limits() broker.Limits {
	return broker.Limits{
		ConnectTimeout: time.Duration(c.ConnectTimeout) * time.Second,
		EntryTimeout:   time.Duration(c.EntryTimeout) * time.Second,
		KeepAlive:      time.Duration(c.KeepAlive) * time.Second,
		SessionExpiry:  time.Duration(c.SessionExpiry) * time.Second,
		QueueMessages:  c.QueueMessages,
		QueueBytes:     c.QueueBytes,
		Inflight:       c.Inflight,
		ReceiveMaximum: c.ReceiveMaximum,
		TopicAliases:   c.TopicAliases,
		TopicLevels:    c.TopicLevels,
		Subscriptions:  c.Subscriptions,
		RetainedBytes:  c.RetainedBytes,
	}
}
