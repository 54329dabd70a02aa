package nats

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/broker/topic"
)

// Settings name the NATS that the bridge serves, and the principal of clients without a
// credential.
type Settings struct {
	URL         string `yaml:"url" doc:"NATS servers whose clients are served; empty for none"`
	Credentials string `yaml:"credentials" doc:"file with NATS user credentials of the bridge"`
	CA          string `yaml:"ca" doc:"PEM file with the roots of the NATS servers' certificates, instead of the system's"`
	Cert        string `yaml:"cert" doc:"PEM file with a client certificate for NATS"`
	Key         string `yaml:"key" doc:"PEM file with the client certificate's key"`
	Principal   string `yaml:"principal" doc:"file with the API key that requests without a credential of their own and mapped messages count as; without it such requests are refused"`

	Agents string `yaml:"agents" doc:"owner of the bridge's agents by the agent protocol of Synadia, a token of subjects; off when empty"`

	Publish   []string `yaml:"publish" doc:"topic filters of MQTT whose messages go to NATS"`
	Subscribe []string `yaml:"subscribe" doc:"topic filters of MQTT whose subjects are subscribed to in NATS, and published here"`
}

// On reports whether there is a NATS to serve.
func (s *Settings) On() bool { return s.URL != "" }

// ownerForm is that of an owner of agents.
var ownerForm = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)

// maxFilters bounds the filters in one direction.
const maxFilters = 64

// Check reports faults of the settings. The root is that of the bridge's topics,
// which are not mapped.
func (s *Settings) Check(root string, fail func(format string, args ...any)) {
	if !s.On() {
		if s.Credentials != "" || s.CA != "" || s.Cert != "" || s.Key != "" || s.Principal != "" || s.Agents != "" || len(s.Publish) > 0 || len(s.Subscribe) > 0 {
			fail("doors.nats.url: is needed by the other settings of doors.nats")
		}
		return
	}
	if (s.Cert == "") != (s.Key == "") {
		fail("doors.nats: cert and key go together")
	}
	if s.Agents != "" && !ownerForm.MatchString(s.Agents) {
		fail("doors.nats.agents: %q is not 1 to 63 of a-z, 0-9, - and _", s.Agents)
	}
	if s.Agents != "" && root == agentsRoot {
		fail("doors.nats.agents: the root of the bridge's topics is %q, which the agent protocol has", root)
	}
	for name, filters := range map[string][]string{"publish": s.Publish, "subscribe": s.Subscribe} {
		if len(filters) > maxFilters {
			fail("doors.nats.%s: %d filters are more than %d", name, len(filters), maxFilters)
		}
		for i, filter := range filters {
			if err := checkFilter(root, filter); err != nil {
				fail("doors.nats.%s: %q %w", name, filter, err)
			}
			for _, other := range filters[:i] {
				if topic.Overlap(filter, other) {
					fail("doors.nats.%s: a topic may fit both %q and %q, and its messages would be carried twice", name, other, filter)
				}
			}
		}
	}
}

// checkFilter fails for a filter whose messages cannot be carried: it must be
// NATS's too, and must not reach the bridge's own topics.
func checkFilter(root, filter string) error {
	first, rest, _ := strings.Cut(filter, "/")
	switch {
	case first == "" || first == "+" || first == "#":
		return errors.New("must begin with the name of a level")
	case first == root || strings.HasPrefix(first, "$"):
		return errors.New("reaches topics of the bridge's own")
	}
	for rest != "" {
		var level string
		level, rest, _ = strings.Cut(rest, "/")
		if level != "+" && level != "#" && strings.ContainsAny(level, "+#") || level == "#" && rest != "" {
			return errors.New("is not a topic filter")
		}
	}
	_, err := subjectOf(filter, true)
	return err
}

// principal is the API key for clients that show none, "" for none.
func (s *Settings) principal() (string, error) {
	if s.Principal == "" {
		return "", nil
	}
	text, err := os.ReadFile(s.Principal)
	if err != nil {
		return "", fmt.Errorf("doors.nats.principal: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// options are those of the connection.
func (s *Settings) options() []nats.Option {
	var o []nats.Option
	if s.Credentials != "" {
		o = append(o, nats.UserCredentials(s.Credentials))
	}
	if s.CA != "" {
		o = append(o, nats.RootCAs(s.CA))
	}
	if s.Cert != "" {
		o = append(o, nats.ClientCert(s.Cert, s.Key))
	}
	return o
}
