package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
)

// Approvals says what models may not do without somebody agreeing, and how
// people are asked.
type Approvals struct {
	AskAbout     []string          `yaml:"ask_about" doc:"risks of capabilities that somebody must agree to before a model may use them, besides high and ask"`
	WaitSeconds  int               `yaml:"wait_seconds" doc:"how long a call waits for a decision, within its own time"`
	AllowPrivate bool              `yaml:"allow_private" doc:"tell webhooks at loopback and private addresses"`
	Webhooks     []ApprovalWebhook `yaml:"webhooks" doc:"told of approvals by POST"`
}

// ApprovalWebhook is somebody who is told of approvals.
type ApprovalWebhook struct {
	URL        string   `yaml:"url"`
	SecretEnv  string   `yaml:"secret_env"`  // environment variable with what signs the bodies
	SecretFile string   `yaml:"secret_file"` // or a file with it
	Spaces     []string `yaml:"spaces"`      // all by default
}

func defaultApprovals() Approvals { return Approvals{WaitSeconds: 120} }

func (c *Approvals) check(fail func(format string, args ...any)) {
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

func (w *ApprovalWebhook) open() (approval.Webhook, error) {
	secret := os.Getenv(w.SecretEnv)
	if w.SecretFile != "" {
		data, err := os.ReadFile(w.SecretFile)
		if err != nil {
			return approval.Webhook{}, err
		}
		secret = strings.TrimSpace(string(data))
	}
	if len(secret) < minSecret {
		return approval.Webhook{}, fmt.Errorf("the secret of a webhook must have at least %d bytes", minSecret)
	}
	hook := approval.Webhook{URL: w.URL, Secret: []byte(secret)}
	for _, s := range w.Spaces {
		hook.Spaces = append(hook.Spaces, protocol.SpaceID(s))
	}
	return hook, nil
}

// newApprovals makes the part that has people agree to what models do. Its
// table is loaded afterwards.
func (a *App) newApprovals(mqtt *mqttdoor.Clients) error {
	c := &a.config.Approvals
	options := approval.Options{
		Approvals:    store.NewTable[approval.Record](a.store, "approval"),
		Policy:       toolPolicy{a},
		MayDecide:    a.mayDecide,
		MayDecideOwn: a.mayDecideOwn,
		Check:        a.credentials.Check,
		Publish:      mqtt.PublishApproval,
		Record:       a.recordApproval,
		Wait:         time.Duration(c.WaitSeconds) * time.Second,
		BridgeID:     a.config.ID,
		Log:          a.log,
		Registerer:   a.metrics,
		Transport:    webhookTransport(c.AllowPrivate),
	}
	for _, risk := range c.AskAbout {
		options.AskAbout = append(options.AskAbout, strings.ToLower(risk))
	}
	for i := range c.Webhooks {
		hook, err := c.Webhooks[i].open()
		if err != nil {
			return fmt.Errorf("approvals.webhooks[%d]: %w", i, err)
		}
		options.Webhooks = append(options.Webhooks, hook)
	}
	a.approvals = approval.New(options)
	return nil
}

// webhookTransport reaches webhooks, and nothing in the bridge's own network
// unless that is allowed.
func webhookTransport(allowPrivate bool) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, Control: registry.DialControl(allowPrivate)}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     30 * time.Second,
	}
}

// runApprovals ends what an earlier process left behind and begins to tell.
func (a *App) runApprovals(ctx context.Context) error {
	if a.config.NATS.URL == "" { // nobody else waits for any of them
		if err := a.approvals.Recover(ctx); err != nil {
			return err
		}
	}
	a.run("approvals", a.approvals.Run)
	return nil
}

// toolPolicy asks the policies about tools.
type toolPolicy struct{ app *App }

func (p toolPolicy) allows(action string, x *tools.Execution) bool {
	return p.app.policy.engine.Decide(&policy.Query{Who: x.Principal, Action: action, Type: "tool", ID: x.Name, Space: x.Space}).Allowed
}

// MayRun implements [approval.Policy].
func (p toolPolicy) MayRun(_ context.Context, x *tools.Execution) bool {
	return p.allows(policy.RunTool, x)
}

// Unattended implements [approval.Policy].
func (p toolPolicy) Unattended(_ context.Context, x *tools.Execution) bool {
	return p.allows(policy.Unattended, x)
}

func (a *App) mayDecide(who *protocol.Principal, space protocol.SpaceID) bool {
	return (space == who.Home() || who.Unbounded()) &&
		a.policy.engine.Decide(&policy.Query{Who: who, Action: "approval:decide", Type: "approval", Space: space}).Allowed
}

func (a *App) mayDecideOwn(who *protocol.Principal) bool {
	return a.policy.engine.Decide(&policy.Query{Who: who, Action: policy.DecideOwn, Type: "approval", Space: who.Space}).Allowed
}

// recordApproval notes in the audit trail what happened to an approval.
func (a *App) recordApproval(e approval.Event) {
	entry := audit.Entry{
		Event: e.Name, Code: audit.OK, Security: e.Name == "approval.requested", Resource: "tool/" + e.Tool,
		Space: e.Space, ActsFor: e.Requester, Reason: e.Why, TraceID: e.TraceID,
		Details: map[string]string{"approval_id": e.ID, "hash": e.Hash},
	}
	if e.By == nil {
		entry.Principal, entry.Kind = e.Requester, e.Kind
	}
	if e.Reason != "" {
		entry.Reason = e.Reason
	}
	if e.DecidedBy != "" {
		entry.Details["decided_by"] = e.DecidedBy
	}
	switch e.State {
	case approval.Denied, approval.Expired, approval.Withdrawn:
		entry.Code = string(protocol.PermissionDenied)
	case approval.Pending, approval.Approved, approval.Used:
	}
	a.audit.Record(context.Background(), entry.By(e.By))
}
