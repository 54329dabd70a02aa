package approval

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/protocol"
)

// Settings say what models may not do without somebody agreeing, and how people
// are asked.
type Settings struct {
	AskAbout     []string          `yaml:"ask_about" doc:"risks of capabilities that somebody must agree to before a model may use them, besides high and ask"`
	WaitSeconds  int               `yaml:"wait_seconds" doc:"how long a call waits for a decision, within its own time"`
	AllowPrivate bool              `yaml:"allow_private" doc:"tell webhooks at loopback and private addresses"`
	Webhooks     []WebhookSettings `yaml:"webhooks" doc:"told of approvals by POST"`
}

// WebhookSettings name an address that is told of approvals.
type WebhookSettings struct {
	URL        string   `yaml:"url"`
	SecretEnv  string   `yaml:"secret_env"`  // environment variable with what signs the bodies
	SecretFile string   `yaml:"secret_file"` // or a file with it
	Spaces     []string `yaml:"spaces"`      // all by default
}

// DefaultSettings give people two minutes.
func DefaultSettings() Settings { return Settings{WaitSeconds: 120} }

// Check tells fail the faults of the settings.
func (c *Settings) Check(fail func(format string, args ...any)) {
	if c.WaitSeconds < 1 || c.WaitSeconds > 600 {
		fail("approvals.wait_seconds: %d is not within 1 and 600", c.WaitSeconds)
	}
	for i, w := range c.Webhooks {
		u, err := url.Parse(w.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
			fail("approvals.webhooks[%d].url: is no http(s) URL", i)
		case u.User != nil:
			fail("approvals.webhooks[%d].url: may not hold a password", i)
		case cleartext.Exposes(u) != "":
			fail("approvals.webhooks[%d].url: %s", i, cleartext.Exposes(u))
		case (w.SecretEnv == "") == (w.SecretFile == ""):
			fail("approvals.webhooks[%d]: one of secret_env and secret_file is needed", i)
		}
	}
}

// minSecret is the shortest secret of a webhook, in bytes.
const minSecret = 16

func (w *WebhookSettings) open() (Webhook, error) {
	secret := os.Getenv(w.SecretEnv)
	if w.SecretFile != "" {
		data, err := os.ReadFile(w.SecretFile)
		if err != nil {
			return Webhook{}, err
		}
		secret = strings.TrimSpace(string(data))
	}
	if len(secret) < minSecret {
		return Webhook{}, fmt.Errorf("the secret of a webhook must have at least %d bytes", minSecret)
	}
	hook := Webhook{URL: w.URL, Secret: []byte(secret)}
	for _, s := range w.Spaces {
		hook.Spaces = append(hook.Spaces, protocol.SpaceID(s))
	}
	return hook, nil
}

// Apply returns options as the settings have them.
func (c *Settings) Apply(o Options) (Options, error) {
	o.Wait = time.Duration(c.WaitSeconds) * time.Second
	for _, risk := range c.AskAbout {
		o.AskAbout = append(o.AskAbout, strings.ToLower(risk))
	}
	for i := range c.Webhooks {
		hook, err := c.Webhooks[i].open()
		if err != nil {
			return o, fmt.Errorf("approvals.webhooks[%d]: %w", i, err)
		}
		o.Webhooks = append(o.Webhooks, hook)
	}
	return o, nil
}

// Transport reaches webhooks, if control lets it reach their addresses.
func Transport(control func(network, address string, c syscall.RawConn) error) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, Control: control}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     30 * time.Second,
	}
}
