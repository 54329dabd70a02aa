package approval

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/protocol"
)

// Settings configure the approvals of models' calls, and the messages to people about
// them.
type Settings struct {
	AskAbout      []string            `yaml:"ask_about" doc:"risks of capabilities that somebody must agree to before a model may use them, besides high and ask"`
	WaitSeconds   int                 `yaml:"wait_seconds" doc:"time that a call waits for a decision before it is parked, within its own time"`
	LifeHours     int                 `yaml:"life_hours" doc:"time for which a decision about a parked call is of use; 0 is 168, up to 2160, which is 90 days"`
	LifeByRisk    map[string]int      `yaml:"life_hours_by_risk" doc:"the same by the risk of the capability, such as high: 24; in the file only"`
	UseHours      int                 `yaml:"use_hours" doc:"time for which an approval that was given is of use; a call that could not be made by then is asked about again; 0 is 24, up to 2160"`
	UseByRisk     map[string]int      `yaml:"use_hours_by_risk" doc:"time for which an approval that was given is of use by the risk of the capability, such as high: 4; in the file only"`
	WaitingOwn    int                 `yaml:"waiting_own" doc:"calls of one principal that wait for approvals at once; 0 is 500"`
	Waiting       int                 `yaml:"waiting" doc:"calls of one space that wait for approvals at once; 0 is 20000"`
	WaitingOwnKiB int                 `yaml:"waiting_own_kib" doc:"KiB of conversations that are parked for one principal; 0 is 16384"`
	WaitingKiB    int                 `yaml:"waiting_kib" doc:"KiB of conversations that are parked for one space; 0 is 262144"`
	Rules         []RuleSettings      `yaml:"rules" doc:"deciders about calls, by which call, and their time; the first that fits counts; in the file only"`
	People        map[string][]string `yaml:"people" doc:"ids of the same person by its name, such as alice: [alice, oidc-5f7c]; a person has one vote; a principal that is no operator as space/kind/id; in the file only"`
	ConsoleURL    string              `yaml:"console_url" doc:"address at which people reach the console, such as https://bridge.example/: messages then have a link to the call"`
	MCP           bool                `yaml:"mcp" doc:"offer people at MCP clients the tools approvals.list and approvals.decide: their model can then approve what it is told to"`
	Mail          MailSettings        `yaml:"mail"`
	AllowPrivate  bool                `yaml:"allow_private" doc:"tell webhooks at loopback and private addresses"`
	Webhooks      []WebhookSettings   `yaml:"webhooks" doc:"told of approvals by POST"`
}

// WebhookSettings configure a webhook for events of approvals.
type WebhookSettings struct {
	URL        string   `yaml:"url"`
	SecretEnv  string   `yaml:"secret_env"`  // environment variable with the secret that signs the bodies
	SecretFile string   `yaml:"secret_file"` // or a file with it
	Spaces     []string `yaml:"spaces"`      // all by default

	CloudEvents bool `yaml:"cloudevents"` // the bodies are CloudEvents in structured mode
}

// RuleSettings configure a rule about the deciders and the times of calls.
type RuleSettings struct {
	Tools           []string `yaml:"tools"` // patterns; all by default
	Risks           []string `yaml:"risks"` // all by default
	Spaces          []string `yaml:"spaces"`
	Deciders        `yaml:",inline"`
	Approvals       int      `yaml:"approvals"` // number of required votes, 1 by default
	LifeHours       int      `yaml:"life_hours"`
	UseHours        int      `yaml:"use_hours"`
	RemindMinutes   int      `yaml:"remind_minutes"`
	EscalateMinutes int      `yaml:"escalate_minutes"`
	EscalateTo      Deciders `yaml:"escalate_to"`
}

// maxApprovals is the greatest number of required votes.
const maxApprovals = 20

// check reports the faults of a rule to fail.
func (r *RuleSettings) check(at string, people People, fail func(format string, args ...any)) {
	within := func(name string, value, least, most int) {
		if value < least || value > most {
			fail("%s.%s: %d is not within %d and %d", at, name, value, least, most)
		}
	}
	within("approvals", r.Approvals, 0, maxApprovals)
	within("life_hours", r.LifeHours, 0, maxLifeHours)
	within("use_hours", r.UseHours, 0, maxLifeHours)
	within("remind_minutes", r.RemindMinutes, 0, maxLifeHours*60)
	within("escalate_minutes", r.EscalateMinutes, 0, maxLifeHours*60)
	named := make(map[string]bool)
	for _, id := range slices.Concat(r.People, r.EscalateTo.People) {
		named[people.named(id)] = true
	}
	seats := len(named)
	switch {
	case r.EscalateMinutes > 0 && r.EscalateTo.unlimited():
		fail("%s.escalate_to: nobody is named", at)
	case r.EscalateMinutes == 0 && !r.EscalateTo.unlimited():
		fail("%s.escalate_minutes: is missing", at)
	case len(r.People) > 0 && len(r.Roles) == 0 && len(r.EscalateTo.Roles) == 0 && r.Approvals > seats:
		fail("%s.approvals: %d have to agree, and only %d people are named", at, r.Approvals, seats)
	}
	r.Deciders.check(at, fail)
	r.EscalateTo.check(at+".escalate_to", fail)
}

// check reports the faults of a list of people to fail.
func (d *Deciders) check(at string, fail func(format string, args ...any)) {
	for absent, substitute := range d.Substitutes {
		switch {
		case !slices.Contains(d.People, absent):
			fail("%s.substitutes: %s is not one of the people", at, absent)
		case absent == substitute || substitute == "":
			fail("%s.substitutes: %s needs somebody else", at, absent)
		}
	}
}

// rule converts the settings to a rule.
func (r *RuleSettings) rule() Rule {
	made := Rule{
		Tools: r.Tools, Deciders: r.Deciders, Needs: r.Approvals, Life: hours(r.LifeHours), Use: hours(r.UseHours),
		Remind: time.Duration(r.RemindMinutes) * time.Minute, Escalate: time.Duration(r.EscalateMinutes) * time.Minute, EscalateTo: r.EscalateTo,
	}
	for _, risk := range r.Risks {
		made.Risks = append(made.Risks, strings.ToLower(risk))
	}
	for _, space := range r.Spaces {
		made.Spaces = append(made.Spaces, protocol.SpaceID(space))
	}
	return made
}

// console is the address of the console, with a slash at the end.
func (c *Settings) console() string {
	if c.ConsoleURL == "" {
		return ""
	}
	return strings.TrimSuffix(c.ConsoleURL, "/") + "/"
}

// maxLifeHours is MaxLife in hours.
const maxLifeHours = int(MaxLife / time.Hour)

// DefaultSettings have a call wait for two minutes, and then for a week as a parked
// one.
func DefaultSettings() Settings {
	return Settings{WaitSeconds: 120, LifeHours: 7 * 24, UseHours: 24, WaitingOwn: 500, Waiting: 20_000, WaitingOwnKiB: 16 << 10, WaitingKiB: 256 << 10}
}

// Check reports the faults of the settings to fail.
func (c *Settings) Check(fail func(format string, args ...any)) {
	if c.WaitSeconds < 1 || c.WaitSeconds > 600 {
		fail("approvals.wait_seconds: %d is not within 1 and 600", c.WaitSeconds)
	}
	within := func(name string, value, least, most int) {
		if value < least || value > most {
			fail("approvals.%s: %d is not within %d and %d", name, value, least, most)
		}
	}
	within("life_hours", c.LifeHours, 0, maxLifeHours)
	within("use_hours", c.UseHours, 0, maxLifeHours)
	for risk, hours := range c.LifeByRisk {
		within("life_hours_by_risk."+risk, hours, 1, maxLifeHours)
	}
	for risk, hours := range c.UseByRisk {
		within("use_hours_by_risk."+risk, hours, 1, maxLifeHours)
	}
	within("waiting_own", c.WaitingOwn, 0, 1_000_000)
	within("waiting", c.Waiting, 0, 1_000_000)
	within("waiting_own_kib", c.WaitingOwnKiB, 0, 16<<20)
	within("waiting_kib", c.WaitingKiB, 0, 16<<20)
	c.Mail.check(fail)
	people := c.people(fail)
	for i := range c.Rules {
		c.Rules[i].check(fmt.Sprintf("approvals.rules[%d]", i), people, fail)
	}
	if u, err := url.Parse(c.ConsoleURL); c.ConsoleURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "" || u.RawQuery != "") {
		fail("approvals.console_url: is no http(s) URL of a page")
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
	hook := Webhook{URL: w.URL, Secret: []byte(secret), CloudEvents: w.CloudEvents}
	for _, s := range w.Spaces {
		hook.Spaces = append(hook.Spaces, protocol.SpaceID(s))
	}
	return hook, nil
}

func hours(n int) time.Duration { return time.Duration(n) * time.Hour }

// byRisk are hours by risk, with the risks in lower case.
func byRisk(of map[string]int) map[string]time.Duration {
	times := make(map[string]time.Duration, len(of))
	for risk, n := range of {
		times[strings.ToLower(risk)] = hours(n)
	}
	return times
}

// Apply returns options with the values of the settings.
func (c *Settings) Apply(o Options) (Options, error) {
	o.Wait = time.Duration(c.WaitSeconds) * time.Second
	o.Life, o.MaxOwn, o.MaxOpen = hours(c.LifeHours), c.WaitingOwn, c.Waiting
	o.Use, o.LifeOf, o.UseOf = hours(c.UseHours), byRisk(c.LifeByRisk), byRisk(c.UseByRisk)
	for _, risk := range c.AskAbout {
		o.AskAbout = append(o.AskAbout, strings.ToLower(risk))
	}
	o.Console, o.People = c.console(), c.people(func(string, ...any) {}) // Check has reported its faults
	mailer, err := c.Mail.open()
	if err != nil {
		return o, fmt.Errorf("approvals.mail: %w", err)
	}
	o.Mail = mailer
	for i := range c.Rules {
		o.Rules = append(o.Rules, c.Rules[i].rule())
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

// Transport returns the HTTP transport for webhooks. Control decides which addresses it
// may connect to.
func Transport(control func(network, address string, c syscall.RawConn) error) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, Control: control}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     30 * time.Second,
	}
}
