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
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

const hookSecret = "a secret of a webhook"

// A told webhook is what it got.
type toldHook struct {
	header http.Header
	body   string
}

func TestAWebhookTellsWhoThenDecidesOverHTTP(t *testing.T) {
	t.Setenv("AIBRIDGE_TEST_HOOK", hookSecret)
	hooks := make(chan toldHook, 16)
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hooks <- toldHook{r.Header, string(body)}
	}))
	defer desk.Close()
	model := scripted.New(t, calls("lamp.switch", `{"on":true}`), says("It is on."))
	h := newHouse(t, withModel(model), func(c *app.Config) {
		c.Approvals.AllowPrivate = true
		c.Approvals.Webhooks = []app.ApprovalWebhook{{URL: desk.URL, SecretEnv: "AIBRIDGE_TEST_HOOK"}}
	})
	lamp := h.connect("lamp", h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent))
	for _, q := range []struct{ command, params string }{
		{"agent.register", `{"agent_id":"lamp","type":"end_agent"}`},
		{"skill.register", `{"agent_id":"lamp","skill":{"skill_id":"lamp","name":"Lamp","description":"Shines","version":"1.0.0","type":"custom","capabilities":[{"capability_id":"switch","risk":"high"}]}}`},
	} {
		if a := h.ask(lamp, q.command, q.params); a.Err != nil {
			t.Fatalf("%s: %v", q.command, a.Err)
		}
	}
	lamp.Listen(t, "aibridge/agent/lamp/request")
	caller := h.connect("carol-pc", h.key(protocol.KindOperator, "carol", protocol.RoleOperator))
	approver := h.key(protocol.KindOperator, "alice", protocol.RoleOperator)
	caller.Send(t, "aibridge/bridge/request", envelope("q", "llm.query", `{"query":"Light!","tools":["lamp.*"]}`, `{"timeout":60000}`))

	told := <-hooks
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
	if code, body := h.run(approver, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, a.ID, a.Nonce)); code != "" {
		t.Fatalf("decide: %s", body)
	}
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
	if answer := caller.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), "It is on.") {
		t.Errorf("got %s, %v", answer.Result, answer.Err)
	}
}

func TestWebhooksAreNotAWayIntoTheOwnNetwork(t *testing.T) {
	t.Setenv("AIBRIDGE_TEST_HOOK", hookSecret)
	reached := make(chan bool, 16)
	desk := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- true }))
	defer desk.Close()
	model := scripted.New(t, calls("north.set", `{"celsius":30}`), says("."))
	f := newFlatWith(t, model, func(c *app.Config) {
		c.Approvals.Webhooks = []app.ApprovalWebhook{{URL: desk.URL, SecretEnv: "AIBRIDGE_TEST_HOOK"}}
	})
	f.query(`{"query":"Warm!","tools":["north.*"]}`)
	f.decide(f.hears("approval.requested"), "deny", "")
	f.answer()
	f.Stop(t) // which waits for what is under way
	select {
	case <-reached:
		t.Error("it was told at a loopback address")
	default:
	}
}

func TestApprovalsAreConfiguredOrRefused(t *testing.T) {
	for want, c := range map[string]app.Approvals{
		"approvals.wait_seconds":             {WaitSeconds: 601},
		"approvals.webhooks[0].url":          {WaitSeconds: 1, Webhooks: []app.ApprovalWebhook{{URL: "ftp://x", SecretEnv: "S"}}},
		"may not hold a password":            {WaitSeconds: 1, Webhooks: []app.ApprovalWebhook{{URL: "https://a:b@x", SecretEnv: "S"}}},
		"one of secret_env and secret_file ": {WaitSeconds: 1, Webhooks: []app.ApprovalWebhook{{URL: "https://x"}}},
	} {
		config := app.DefaultConfig()
		config.Approvals = c
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestOnlyTheSpaceHearsOfItsApprovals listens as somebody who may hear events,
// but in another space, and as a device of the same one.
func TestOnlyTheSpaceHearsOfItsApprovals(t *testing.T) {
	f := newFlat(t, calls("north.set", `{"celsius":30}`), says("."))
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
