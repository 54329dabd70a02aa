package a2a

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/aibridge/aibridge/internal/egress"
)

// Settings configure the bridge as an agent of the Agent2Agent protocol.
type Settings struct {
	On          bool   `yaml:"on" doc:"serve A2A at /a2a, and the public card at /.well-known/agent-card.json"`
	URL         string `yaml:"url" doc:"address of /a2a as clients know it, for the cards; as they call it when empty"`
	Push        bool   `yaml:"push" doc:"tell the webhooks of clients of their tasks"`
	PushPrivate bool   `yaml:"push_private" doc:"these webhooks may be at loopback and private addresses"`

	MQTT string `yaml:"mqtt" doc:"serve A2A over MQTT: ORG/UNIT that the agents of the bridge itself have there; off when empty"`
	// TrustedJWKS are compared to the letter.
	TrustedJWKS []string `yaml:"trusted_jwks" doc:"URLs of key sets (jwksUri, jku) that cards on MQTT may name; any when empty"`

	Remote        bool `yaml:"remote" doc:"agents elsewhere may be added and used as skills, under approval"`
	RemotePrivate bool `yaml:"remote_private" doc:"such agents may be at loopback and private addresses"`
}

// unitForm is the form of the organisation and the unit in topics of A2A over MQTT.
var unitForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}$`)

// Check reports faults of the settings.
func (s *Settings) Check(fail func(format string, args ...any)) {
	if s.MQTT != "" && !unitForm.MatchString(s.MQTT) {
		fail("a2a.mqtt: %q is not ORG/UNIT, both of letters, digits, . _ and -", s.MQTT)
	}
	for _, set := range s.TrustedJWKS {
		if u, err := url.Parse(set); err != nil || u.Host == "" || u.Scheme != "https" {
			fail("a2a.trusted_jwks: %q is not an absolute URL of HTTPS", set)
		}
	}
	if s.URL == "" {
		return
	}
	if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		fail("a2a.url: %q is not an absolute URL of HTTP", s.URL)
	}
}

// guard decides which webhooks may be called.
func (s *Settings) guard() egress.Guard { return egress.Guard{AllowPrivate: s.PushPrivate} }

// Refuses returns the reason why a webhook may not be called, or "".
func (s *Settings) Refuses(endpoint string) string { return s.guard().RefusesURL(endpoint) }

// RemoteGuard decides where agents elsewhere may be.
func (s *Settings) RemoteGuard() egress.Guard { return egress.Guard{AllowPrivate: s.RemotePrivate} }

// Transport reaches the webhooks that may be called. It is nil if none is.
func (s *Settings) Transport() *http.Transport {
	if !s.Push {
		return nil
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, Control: s.guard().Control}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		MaxConnsPerHost:     8,
		IdleConnTimeout:     30 * time.Second,
	}
}
