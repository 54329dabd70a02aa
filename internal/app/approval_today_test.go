package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// registered is the registration of a door with another capability in one
// respect.
func registered(risk, change string) string {
	c := map[string]any{
		"capability_id": "open", "description": "Opens the door.", "risk": risk, "params_schema": map[string]any{"type": "object"},
	}
	for name, value := range map[string]any{
		"description": "Opens the door, and all windows.", "params_schema": map[string]any{"type": "object", "properties": map[string]any{"wide": map[string]any{"type": "boolean"}}},
		"effect": "read", "risk": "deny", "idempotent": true, "name": "Another",
	} {
		if name == change {
			c[name] = value
		}
	}
	skill := map[string]any{"skill_id": "door", "name": "Door", "description": "A door", "version": "1.0.0", "type": "custom", "capabilities": []any{c}}
	if change == "gone" {
		skill["capabilities"] = []any{map[string]any{"capability_id": "close"}}
	}
	text, _ := json.Marshal(map[string]any{"agent_id": "door", "skill": skill})
	return string(text)
}

var respects = []string{"description", "params_schema", "effect", "risk", "idempotent", "name", "gone"}

// TestASkillThatChangesWhileItsCallWaitsDoesNotGetIt has somebody approve what
// is not there any more.
func TestASkillThatChangesWhileItsCallWaitsDoesNotGetIt(t *testing.T) {
	t.Parallel()
	for _, change := range respects {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := scripted.ForBridge(t, calls("door.open", `{}`), says("Well."))
			n := bridgetest.Start(t, withModel(s))
			device := n.Device(t, "door", "spare", `["x"]`)
			device.Listen(t, "aibridge/client/door/response")
			must(t, device, "skill.register", registered("high", ""))
			c := n.Caller(t, "caller")
			c.Send(t, "aibridge/bridge/request", bridgetest.Request("q", "llm.query", `{"query":"Open!","tools":["door.*"]}`))
			asker := n.Caller(t, "asker")
			var waiting struct {
				Approvals []approval.Approval `json:"approvals"`
			}
			eventually.Holds(t, "the call waits", func() bool {
				_ = json.Unmarshal(must(t, asker, "approval.list", `{}`), &waiting)
				return len(waiting.Approvals) == 1
			})
			must(t, device, "skill.register", registered("high", change))
			a := waiting.Approvals[0]
			decide(t, asker, a, "approve")
			said := "not found"
			switch change {
			case "gone":
			case "risk":
				said = `declares the risk "deny"`
			default:
				decide(t, asker, askedAnew(t, asker, a), "deny")
				said = "denied"
			}
			got := queried(t, c)
			if got.Tools == nil || got.Tools.Success != 0 || !strings.Contains(toldAt(t, s, 1), said) {
				t.Errorf("the model reads %s", toldAt(t, s, 1))
			}
			spared(t, device)
		})
	}
}

func decide(t *testing.T, c *bridgetest.Raw, a approval.Approval, decision string) {
	t.Helper()
	must(t, c, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":%q}`, a.ID, a.Nonce, decision))
}

// askedAnew is the question that takes the place of one about a call that has
// changed, with the changes.
func askedAnew(t *testing.T, c *bridgetest.Raw, was approval.Approval) (anew approval.Approval) {
	t.Helper()
	eventually.Holds(t, "somebody is asked anew", func() bool {
		var list struct {
			Approvals []approval.Approval `json:"approvals"`
		}
		_ = json.Unmarshal(must(t, c, "approval.list", `{}`), &list)
		for _, anew = range list.Approvals {
			if anew.Replaces == was.ID && anew.State == approval.Pending {
				return true
			}
		}
		return false
	}, &anew)
	if len(anew.Changes) == 0 {
		t.Errorf("nobody is told what has changed: %+v", anew)
	}
	return anew
}

// TestASkillThatChangesInTheMiddleOfALoopDoesNotGetTheCall changes it while the
// model thinks.
func TestASkillThatChangesInTheMiddleOfALoopDoesNotGetTheCall(t *testing.T) {
	t.Parallel()
	for _, change := range respects {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := scripted.ForBridge(t, calls("door.open", `{}`), says("Well."))
			n := bridgetest.Start(t, withModel(s))
			device := n.Device(t, "door", "spare", `["x"]`)
			device.Listen(t, "aibridge/client/door/response")
			must(t, device, "skill.register", registered("low", ""))
			asked, changed := make(chan struct{}, 9), make(chan struct{})
			s.Before = func() {
				asked <- struct{}{}
				<-changed
			}
			c := n.Caller(t, "caller")
			c.Send(t, "aibridge/bridge/request", bridgetest.Request("q", "llm.query", `{"query":"Open!","tools":["door.*"]}`))
			<-asked
			must(t, device, "skill.register", registered("low", change))
			close(changed)
			got := queried(t, c)
			if got.Tools == nil || got.Tools.Success != 0 {
				t.Errorf("the model reads %s", toldAt(t, s, 1))
			}
			spared(t, device)
		})
	}
}

func queried(t *testing.T, c *bridgetest.Raw) (got llm.QueryResult) {
	t.Helper()
	answer := c.Answer(t)
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if err := json.Unmarshal(answer.Result, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// spared fails if a device was called.
func spared(t *testing.T, device *bridgetest.Raw) {
	t.Helper()
	must(t, device, "agent.list", `{}`) // whatever was sent before it has arrived
	select {
	case p := <-device.Received:
		t.Errorf("the device got %s", p.Payload)
	default:
	}
}

// TestPoliciesThatChangeWhileACallWaits has a call approved under other policies than it
// was asked about. Those that want somebody to agree have it asked about anew, with the
// difference; others do not.
func TestPoliciesThatChangeWhileACallWaits(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`), says("Well."))
	n := bridgetest.Start(t, withModel(s))
	opened := openerAt(t, n, "low")
	asker := n.Caller(t, "asker")
	const doors = `@id(\"doors\") forbid (principal, action == Action::\"tool:unattended\", resource) when { resource.id like \"door.%s\" };`
	put := func(name, policy string) {
		t.Helper()
		must(t, asker, "policy.put", fmt.Sprintf(`{"name":%q,"policy":"%s"}`, name, policy))
	}
	put("doors", fmt.Sprintf(doors, "*"))
	task := opensDoor(t, n.Caller(t, "caller"), "q")
	asked := askedFor(t, asker, task)
	if asked.Why != "policy wants somebody to agree" || len(asked.Policy) != 12 {
		t.Errorf("it is asked about because %s, under %q", asked.Why, asked.Policy)
	}

	put("doors", fmt.Sprintf(doors, "open"))
	decide(t, asker, asked, "approve")
	anew := askedAnew(t, asker, asked)
	if want := fmt.Sprintf("the policies were those of version %s, and are those of version %s now", asked.Policy, anew.Policy); strings.Join(anew.Changes, "|") != want || anew.Policy == asked.Policy || opened.Load() != 0 {
		t.Errorf("opened %d times, and asked anew with %q", opened.Load(), anew.Changes)
	}

	put("others", `forbid (principal, action == Action::\"tool:unattended\", resource) when { resource.id == \"safe.open\" };`)
	decide(t, asker, anew, "approve")
	if got := endedTask(t, asker, task); got.Result.Result != "Well." || opened.Load() != 1 {
		t.Errorf("opened %d times, it is %+v", opened.Load(), got)
	}
	var used approval.Approval
	if err := json.Unmarshal(must(t, asker, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, anew.ID)), &used); err != nil {
		t.Fatal(err)
	}
	if used.State != approval.Used || used.Policy != anew.Policy || used.UsedUnder == "" || used.UsedUnder == anew.Policy {
		t.Errorf("asked about under %q it was used under %q: %+v", used.Policy, used.UsedUnder, used)
	}
}

// TestPoliciesReadTheArgumentsOfACall has policy say about which payments somebody may
// decide, also once somebody else has changed the sum.
func TestPoliciesReadTheArgumentsOfACall(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{"amount":150}`), says("Well."))
	n := bridgetest.Start(t, withModel(s))
	openerAt(t, n, "high")
	asker := n.Caller(t, "asker")
	must(t, asker, "policy.put", `{"name":"sums","policy":"forbid (principal, action == Action::\"approval:decide\", resource is Approval) unless { resource has numbers && resource.numbers.hasTag(\"/amount\") && resource.numbers.getTag(\"/amount\").lessThan(decimal(\"200.0\")) };"}`)
	asked := askedFor(t, asker, opensDoor(t, n.Caller(t, "caller"), "q"))
	for _, amount := range []string{"199.99", "200"} {
		if err := json.Unmarshal(must(t, asker, "approval.edit", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"arguments":{"amount":%s}}`, asked.ID, asked.Nonce, amount)), &asked); err != nil {
			t.Fatal(err)
		}
	}
	answer := asker.Ask(t, bridgetest.Request("no", "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, asked.ID, asked.Nonce)))
	if answer.Err == nil || answer.Err.Code != protocol.PermissionDenied {
		t.Fatalf("somebody decides about 200: %v", answer.Err)
	}
}
