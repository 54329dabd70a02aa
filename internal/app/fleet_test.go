package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// two starts two bridges that ask for credentials, and returns the administrator's
// way to each.
func two(t *testing.T, change ...func(*app.Config)) (run [2]func(command, params string) (protocol.Code, string), nodes [2]*bridgetest.Node, key string) {
	t.Helper()
	url := startNATS(t)
	nodes[0], key = closed(t, append(change, beside(t, url, "a", nil))...)
	nodes[1] = bridgetest.Start(t, append(change, beside(t, url, "b", nodes[0]), func(c *app.Config) { c.Dev = false })...)
	for i, n := range nodes {
		run[i] = func(command, params string) (protocol.Code, string) {
			t.Helper()
			return asks(t, n, key, command, params)
		}
	}
	return run, nodes, key
}

// asks runs a command by a key, and returns the code of a failure and the answer.
func asks(t *testing.T, n *bridgetest.Node, key, command, params string) (protocol.Code, string) {
	t.Helper()
	status, body := post(t, n.HTTPURL("/api/v1/commands/"+command), params, "X-API-Key", key)
	if status == http.StatusOK {
		return "", string(body)
	}
	for _, code := range protocol.Codes() {
		if strings.Contains(string(body), fmt.Sprintf(`"code":%q`, string(code))) {
			return code, string(body)
		}
	}
	t.Fatalf("%s: %d %s", command, status, body)
	return "", ""
}

func TestTwoBridgesSpendABudgetOnce(t *testing.T) {
	t.Parallel()
	model := scripted.ForBridge(t, says("ok"))
	file := filepath.Join(t.TempDir(), "llm.yaml")
	bridgetest.Write(t, file, fmt.Sprintf("providers: [{name: a, wire: openai, base_url: %s}]\nmodels: [{name: small, routes: [{provider: a}]}]\n"+
		"budgets: [{per: principal, window: month, requests: 5}]\n", model.URL))
	run, _, _ := two(t, func(c *app.Config) { c.LLM.File = file })
	for i := range 8 {
		want := protocol.Code("")
		if i >= 5 {
			want = protocol.BudgetSpent
		}
		if code, body := run[i%2]("llm.query", fmt.Sprintf(`{"query":"question %d"}`, i)); code != want {
			t.Errorf("question %d: %q %s", i, code, body)
		}
	}
	for i := range run {
		var body string
		eventually.Holds(t, "each bridge tells what both have spent", func() bool {
			_, body = run[i]("llm.budget.list", `{}`)
			return strings.Contains(body, `"spent":5`) && strings.Contains(body, `"spent_here":`)
		}, &body)
	}
	for i := range run {
		var body string
		eventually.Holds(t, "each bridge tells what was spent through which", func() bool {
			_, body = run[i]("llm.spend", `{"by":["bridge"],"sort":"-requests"}`)
			return strings.Contains(body, `"rows":[{"bridge_id":"a","requests":3,`) && strings.Contains(body, `{"bridge_id":"b","requests":2,`) && strings.Contains(body, `"total":2`)
		}, &body)
	}
	var body string
	eventually.Holds(t, "llm.status tells of the other bridge", func() bool {
		_, body = run[0]("llm.status", `{}`)
		return strings.Contains(body, `"others":[{"bridge_id":"b","status":"available"`)
	}, &body)
}

func TestPoliciesOnTrialAreReportedByAllBridges(t *testing.T) {
	t.Parallel()
	run, nodes, _ := two(t)
	_, made := run[0]("key.create", `{"principal_id":"anna","kind":"operator","roles":["operator"]}`)
	_, anna, _ := strings.Cut(made, `"key":"`)
	anna, _, _ = strings.Cut(anna, `"`)
	if code, body := run[0]("policy.put", `{"name":"tried","mode":"observe","policy":"forbid (principal, action == Action::\"agent:list\", resource);"}`); code != "" {
		t.Fatal(body)
	}
	for i, n := range nodes {
		eventually.Holds(t, "the trial has begun", func() bool {
			code, _ := run[i]("policy.report", `{}`)
			return code == ""
		})
		for range i + 1 {
			if code, body := asks(t, n, anna, "agent.list", `{}`); code != "" {
				t.Fatal(body)
			}
		}
	}
	for i := range nodes {
		var body string
		eventually.Holds(t, "each bridge reports what both have seen", func() bool {
			_, body = run[i]("policy.report", `{"outcome":"refuse"}`)
			return !strings.Contains(body, "silent")
		}, &body)
		if !strings.Contains(body, `"count":3`) || !strings.Contains(body, `"total":1`) {
			t.Errorf("bridge %d reports %s", i, body)
		}
	}
}

// A read at one bridge sees at once the write that another one has confirmed.
func TestAReadSeesWhatAnotherBridgeWrote(t *testing.T) {
	t.Parallel()
	run, nodes, key := two(t)
	for i := range 20 {
		id := fmt.Sprint("tried", i)
		if code, body := run[i%2]("policy.put", fmt.Sprintf(`{"name":%q,"policy":"permit (principal, action == Action::\"agent:list\", resource);"}`, id)); code != "" {
			t.Fatal(body)
		}
		if code, body := run[1-i%2]("policy.get", fmt.Sprintf(`{"name":%q}`, id)); code != "" {
			t.Errorf("the other bridge does not know it: %s", body)
		}
	}
	if code, body := run[0]("policy.get", `{"name":"nobody's"}`); code != protocol.NotFound {
		t.Errorf("what nobody wrote: %q %s", code, body)
	}

	write := headers(t, nodes[0], key, "policy.put", `{"name":"tried0","policy":"permit (principal, action == Action::\"agent:get\", resource);"}`)
	revision := write.Get("X-Revision")
	if revision == "" {
		t.Fatalf("the answer to a write has no revision: %v", write)
	}
	status, body := post(t, nodes[1].HTTPURL("/api/v1/commands/policy.get"), `{"name":"tried0"}`, "X-API-Key", key, "X-Min-Revision", revision)
	if status != http.StatusOK || !strings.Contains(string(body), "agent:get") {
		t.Errorf("with the revision of the write the other bridge tells %d %s", status, body)
	}
	for _, wrong := range []string{"999999999999", "-1", "x"} {
		if status, body := post(t, nodes[1].HTTPURL("/api/v1/commands/policy.get"), `{"name":"tried0"}`, "X-API-Key", key, "X-Min-Revision", wrong); status != http.StatusBadRequest {
			t.Errorf("revision %s: %d %s", wrong, status, body)
		}
	}
	if read := headers(t, nodes[1], key, "policy.get", `{"name":"tried0"}`); read.Get("X-Revision") != "" {
		t.Errorf("the answer to a read has a revision: %v", read)
	}
}

// headers are those of the answer to a command that succeeds.
func headers(t *testing.T, n *bridgetest.Node, key, command, params string) http.Header {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTPURL("/api/v1/commands/"+command), strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-API-Key", key)
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", command, response.Status)
	}
	return response.Header
}

// A change of rights at one bridge holds at the other.
func TestWhatIsForbiddenAtOneBridgeIsAtTheOther(t *testing.T) {
	t.Parallel()
	run, nodes, _ := two(t)
	made := func(name string) (id, key string) {
		t.Helper()
		code, body := run[0]("key.create", fmt.Sprintf(`{"principal_id":%q,"kind":"operator","roles":["operator"]}`, name))
		var answer struct {
			Key string `json:"key"`
			ID  string `json:"key_id"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Key == "" || answer.ID == "" {
			t.Fatalf("%s %s %v", code, body, err)
		}
		return answer.ID, answer.Key
	}
	id, anna := made("anna")
	_, bert := made("bert")
	at := nodes[1]
	holds := func(what, key string, want protocol.Code) {
		t.Helper()
		var got protocol.Code
		eventually.Holds(t, what, func() bool {
			got, _ = asks(t, at, key, "agent.list", `{}`)
			return got == want
		}, &got)
	}
	holds("a key that one bridge made opens the other", anna, "")
	session := nodes[1].Connect(t, "anna-pc", withPassword("apikey", anna))
	if code, body := run[0]("key.revoke", fmt.Sprintf(`{"key_id":%q}`, id)); code != "" {
		t.Fatal(body)
	}
	holds("a key that one bridge revoked opens the other no more", anna, protocol.CredentialInvalid)
	select {
	case <-session.Dismissed:
	case <-time.After(bridgetest.Patience):
		t.Error("the session of a key that another bridge revoked goes on")
	}
	holds("another key still does", bert, "")
	if code, body := run[0]("policy.put", `{"name":"no","policy":"forbid (principal == Operator::\"bert\", action == Action::\"agent:list\", resource);"}`); code != "" {
		t.Fatal(body)
	}
	holds("a policy that was put at one bridge holds at the other", bert, protocol.PermissionDenied)
	if code, body := run[0]("policy.remove", `{"name":"no"}`); code != "" {
		t.Fatal(body)
	}
	holds("it is removed everywhere", bert, "")
}
