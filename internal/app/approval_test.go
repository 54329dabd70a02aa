package app_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
)

const hookSecret = "a secret of a webhook"

// A told webhook is what it got.
type toldHook struct {
	header http.Header
	body   string
}

// withWebhook has a bridge tell a server of the test about approvals.
func withWebhook(t *testing.T, hooks chan<- toldHook) func(*app.Config) {
	t.Setenv("AIBRIDGE_TEST_HOOK", hookSecret)
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hooks <- toldHook{r.Header, string(body)}
	}))
	t.Cleanup(desk.Close)
	return func(c *app.Config) {
		c.Approvals.AllowPrivate = true
		c.Approvals.Webhooks = []approval.WebhookSettings{{URL: desk.URL, SecretEnv: "AIBRIDGE_TEST_HOOK"}}
	}
}

func decidesByWebhook(t *testing.T, f *flat, hooks <-chan toldHook) {
	f.query(`{"query":"Make it 17 degrees.","tools":["north.*"]}`)
	asked := f.hears("approval.requested")
	var told toldHook
	for !strings.Contains(told.body, asked.ID) { // those of earlier stories come first
		told = <-hooks
	}
	unix, signature, _ := strings.Cut(strings.TrimPrefix(told.header.Get(approval.SignatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(hookSecret))
	fmt.Fprintf(mac, "%s.%s", unix, told.body)
	if signature != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signed %q", told.header.Get(approval.SignatureHeader))
	}
	event, err := protocol.DecodeEvent([]byte(told.body), protocol.Limits{})
	if err != nil || event.Name != "approval.requested" {
		t.Fatalf("told %s, %v", told.body, err)
	}
	var a approval.Approval
	if err := json.Unmarshal(event.Data, &a); err != nil {
		t.Fatal(err)
	}
	if code, body := f.run(f.admin, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, a.ID, a.Nonce)); code != "" {
		t.Fatalf("decide: %s", body)
	}
	if got := f.answer(); got.Result != "It is 17." || got.Tools.Success != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestApprovalsAreConfiguredOrRefused(t *testing.T) {
	for want, c := range map[string]approval.Settings{
		"approvals.wait_seconds":             {WaitSeconds: 601},
		"approvals.webhooks[0].url":          {WaitSeconds: 1, Webhooks: []approval.WebhookSettings{{URL: "ftp://x", SecretEnv: "S"}}},
		"may not hold a password":            {WaitSeconds: 1, Webhooks: []approval.WebhookSettings{{URL: "https://a:b@x", SecretEnv: "S"}}},
		"one of secret_env and secret_file ": {WaitSeconds: 1, Webhooks: []approval.WebhookSettings{{URL: "https://x"}}},
	} {
		config := app.DefaultConfig()
		config.Approvals = c
		if err := config.Check(app.Commands()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// isHeardInItsSpace listens as somebody who may hear events, but in another
// space, and as a device of the same one.
func isHeardInItsSpace(t *testing.T, f *flat) {
	stranger := f.connect("eve-pc", f.key(protocol.KindOperator, "eve", protocol.RoleOperator, `,"space_id":"elsewhere"`))
	stranger.Listen(t, "aibridge/event/approval")
	device := f.connect("spy", f.key(protocol.KindAgent, "spy", protocol.RoleEndAgent))
	if reason := subscribe(t, device, "aibridge/event/approval"); reason < 0x80 {
		t.Errorf("a device may listen: %#x", reason)
	}
	f.query(`{"query":"Warm!","tools":["north.*"]}`)
	a := f.hears("approval.requested")
	if answer := f.ask(stranger, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, a.ID, a.Nonce)); answer.Err == nil || answer.Err.Code != protocol.NotFound {
		t.Errorf("a stranger decides: %v", answer.Err)
	}
	if answer := f.ask(stranger, "approval.list", `{}`); answer.Err != nil || !strings.Contains(string(answer.Result), `"total":0`) {
		t.Errorf("a stranger sees %s, %v", answer.Result, answer.Err)
	}
	f.decide(a, "deny", "")
	f.answer()
	select {
	case p := <-stranger.Received:
		t.Errorf("a stranger heard %s", p.Payload)
	default:
	}
}
