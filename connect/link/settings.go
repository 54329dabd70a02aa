package link

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/internal/cleartext"
)

// A Config names a remote broker, and the topics that go there and come from it.
type Config struct {
	Name string `yaml:"name" doc:"name of the link; its client id here is link-NAME"`
	URL  string `yaml:"url" doc:"mqtt://host:port, or mqtts:// for TLS; port 1883 or 8883 if it is left out"`

	Version  string `yaml:"version" doc:"5 or 3.1.1; 5 by default"`
	ClientID string `yaml:"client_id" doc:"client id at the remote broker; the bridge's id and the name by default"`
	Username string `yaml:"username" doc:"user name at the remote broker"`
	Password string `yaml:"password_file" doc:"file with the password for the remote broker"`
	CA       string `yaml:"ca" doc:"PEM file with the roots of the remote broker's certificate, instead of the system's"`
	Cert     string `yaml:"cert" doc:"PEM file with a client certificate for the remote broker"`
	Key      string `yaml:"key" doc:"PEM file with the client certificate's key"`
	Bridged  bool   `yaml:"bridge_bit" doc:"over 3.1.1, say that this is a bridge, as mosquitto's do: mosquitto and EMQX then send nothing back, and tell what is retained"`

	Principal string `yaml:"principal" doc:"file with the API key of who the link acts for here; without it there is no link, but with dev"`

	KeepAlive  int    `yaml:"keep_alive_seconds" doc:"after how long the remote broker must have said something; 60 by default"`
	Inflight   int    `yaml:"inflight" doc:"messages under way in each direction that are not acknowledged; 100 by default"`
	Messages   int    `yaml:"queue_messages" doc:"messages that wait for the remote broker at most; mqtt.queue_messages by default"`
	Bytes      int    `yaml:"queue_bytes" doc:"their topics and payloads, in bytes; mqtt.queue_bytes by default"`
	UpgradeQoS bool   `yaml:"upgrade_qos" doc:"messages out are kept and sent with the QoS of its rule, though they were published with less"`
	Status     string `yaml:"status_topic" doc:"topic at the remote broker that says, retained, online or offline"`

	Out []Rule `yaml:"out" doc:"messages that go to the remote broker"`
	In  []Rule `yaml:"in" doc:"messages that come from the remote broker"`

	// Guided links are those of another part of the bridge, which gives them their
	// rules by [Service.Carry], also for the bridge's own topics. They are in no file.
	Guided bool `yaml:"-"`
}

// A Rule carries messages in one direction. Their topic begins with one prefix
// here and with the other one there; Topic is the rest.
type Rule struct {
	Topic  string `yaml:"topic" doc:"topic filter, without the prefixes"`
	Local  string `yaml:"local" doc:"beginning of topics here"`
	Remote string `yaml:"remote" doc:"beginning of topics at the remote broker"`
	QoS    int    `yaml:"qos" doc:"highest QoS; 1 by default"`
	Retain string `yaml:"retain" doc:"keep: a message is retained if it was; never; always; keep by default"`
}

// Rules for the retain flag.
const (
	retainKeep   = "keep"
	retainNever  = "never"
	retainAlways = "always"
)

// Defaults of a link.
const (
	defaultKeepAlive = 60
	defaultInflight  = 100
)

// UnmarshalYAML reads a rule, whose QoS is 1 by default.
func (r *Rule) UnmarshalYAML(read func(any) error) error {
	type rule Rule // without this method
	r.QoS = 1
	return read((*rule)(r))
}

// Bounds on links.
const (
	mostLinks = 64
	mostRules = 256
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Check reports faults of the settings of links. The root is that of the bridge's
// own topics, which are not carried. With dev a link needs no key.
func Check(links []Config, root string, dev bool, fail func(format string, args ...any)) {
	if len(links) > mostLinks {
		fail("links: %d are more than %d", len(links), mostLinks)
	}
	seen := map[string]bool{}
	for i := range links {
		c := &links[i]
		if seen[c.Name] {
			fail("links[%d].name: there are two links %q", i, c.Name)
		}
		seen[c.Name] = true
		c.check(root, dev, func(format string, args ...any) { fail("links[%d]"+format, append([]any{i}, args...)...) })
	}
}

func (c *Config) check(root string, dev bool, fail func(format string, args ...any)) {
	if !nameForm.MatchString(c.Name) {
		fail(".name: %q is no name: up to 32 lower-case letters, digits, - and _", c.Name)
	}
	if _, err := c.remote(); err != nil {
		fail(".url: %s", err)
	} else if secure, host := c.secure(); c.Password != "" && !secure && !cleartext.Nearby(host) {
		fail(".url: must begin with mqtts://: the password would go to %s in the clear", host)
	} else if !secure && (c.CA != "" || c.Cert != "") {
		fail(".url: must begin with mqtts:// for ca and cert to be of use")
	}
	switch {
	case c.Version != "" && c.Version != "5" && c.Version != "3.1.1":
		fail(".version: %q is neither 5 nor 3.1.1", c.Version)
	case c.Bridged && c.Version != "3.1.1":
		fail(".bridge_bit: is for version 3.1.1; MQTT 5 has it as options of subscriptions")
	}
	if (c.Cert == "") != (c.Key == "") {
		fail(": cert and key go together")
	}
	if c.Password != "" && c.Username == "" && c.Version == "3.1.1" {
		fail(".username: MQTT 3.1.1 has no password without one")
	}
	if c.Principal == "" && !dev {
		fail(".principal: a file with an API key is needed, of who the link acts for")
	}
	within := func(name string, value, low, high int) {
		if value != 0 && (value < low || value > high) {
			fail(".%s: %d is not within %d and %d", name, value, low, high)
		}
	}
	within("keep_alive_seconds", c.KeepAlive, 5, 65535)
	within("inflight", c.Inflight, 1, 1000)
	within("queue_messages", c.Messages, 1, 1<<24)
	within("queue_bytes", c.Bytes, 1<<10, 1<<31-1)
	if c.Status != "" && (!validName(c.Status) || strings.HasPrefix(c.Status, "$")) {
		fail(".status_topic: %q is not the name of a topic", c.Status)
	}
	c.checkRules(root, fail)
}

func (c *Config) checkRules(root string, fail func(format string, args ...any)) {
	if len(c.Out)+len(c.In) == 0 {
		fail(": out or in must say what is carried")
	}
	for name, rules := range map[string][]Rule{"out": c.Out, "in": c.In} {
		if len(rules) > mostRules {
			fail(".%s: %d rules are more than %d", name, len(rules), mostRules)
			return
		}
		for i := range rules {
			r := &rules[i]
			if err := r.check(root); err != nil {
				fail(".%s[%d]%s", name, i, err)
			}
			for j := range rules[:i] {
				if topic.Overlap(r.Local+r.Topic, rules[j].Local+rules[j].Topic) || topic.Overlap(r.Remote+r.Topic, rules[j].Remote+rules[j].Topic) {
					fail(".%s[%d]: a topic may fit this rule and [%d], and would be carried twice", name, i, j)
				}
			}
		}
	}
	if c.Version != "3.1.1" || c.Bridged {
		return
	}
	for i := range c.In {
		for j := range c.Out {
			if topic.Overlap(c.In[i].Remote+c.In[i].Topic, c.Out[j].Remote+c.Out[j].Topic) {
				fail(".in[%d]: over 3.1.1 the remote broker sends back what out[%d] takes there: use version 5, bridge_bit, or another prefix", i, j)
			}
		}
	}
}

// check returns the fault of a rule.
func (r *Rule) check(root string) error {
	switch {
	case r.QoS < 0 || r.QoS > 2:
		return fmt.Errorf(".qos: %d is not 0, 1 or 2", r.QoS)
	case r.Retain != "" && r.Retain != retainKeep && r.Retain != retainNever && r.Retain != retainAlways:
		return fmt.Errorf(".retain: %q is none of keep, never, always", r.Retain)
	case r.Topic == "":
		return errors.New(".topic: is missing")
	}
	for _, side := range []struct{ name, prefix string }{{"local", r.Local}, {"remote", r.Remote}} {
		filter := side.prefix + r.Topic
		switch {
		case topic.HasWildcard(side.prefix):
			return fmt.Errorf(".%s: %q has a wildcard", side.name, side.prefix)
		case !topic.ValidFilter(filter) || !packet.ValidString([]byte(filter)):
			return fmt.Errorf(".topic: %q is not a topic filter", filter)
		}
	}
	if first, _, _ := strings.Cut(r.Local+r.Topic, "/"); first == root || strings.HasPrefix(first, "$") {
		return errors.New(".local: topics of the bridge's own and those that begin with $ are not carried")
	}
	first, _, _ := strings.Cut(r.Remote+r.Topic, "/")
	for _, special := range []string{"$share", "$queue", "$delayed", "$exclusive"} {
		if first == special {
			return fmt.Errorf(".remote: %s means something else to brokers than a topic", special)
		}
	}
	return nil
}

// validName reports whether a text is the name of a topic.
func validName(name string) bool { return topic.ValidName(name) && packet.ValidString([]byte(name)) }

// remote is the address of the remote broker, host:port.
func (c *Config) remote() (string, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "mqtt" && u.Scheme != "mqtts" || u.Hostname() == "":
		return "", errors.New("must be mqtt://host:port or mqtts://host:port")
	case u.User != nil:
		return "", errors.New("must be without a password: use username and password_file")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("must end with the port")
	}
	port := "1883"
	if u.Scheme == "mqtts" {
		port = "8883"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), nil
}

// secure reports whether TLS is wanted, and for which host.
func (c *Config) secure() (secure bool, host string) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return true, ""
	}
	return u.Scheme == "mqtts", u.Hostname()
}

// level is the protocol level of the version.
func (c *Config) level() byte {
	if c.Version == "3.1.1" {
		return packet.V311
	}
	return packet.V5
}

// LocalID is the client id of a link on the bridge.
func LocalID(name string) string { return "link-" + name }

// secret reads the first line of a file, "" of none.
func secret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
