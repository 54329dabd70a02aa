package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A desk runs the commands of the family through a router.
type desk struct {
	t      *testing.T
	engine *Engine
	table  *recordstest.Memory[Record]
	router *commands.Router
	n      int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, engine: newEngine(t), table: recordstest.New[Record]()}
	service := NewService(ServiceOptions{
		Engine: d.engine, Records: d.table, Trials: recordstest.New[Record](),
		Principal: func(kind protocol.Kind, id string, space protocol.SpaceID) (*protocol.Principal, bool) {
			if id != "gateway" {
				return nil, false
			}
			return &protocol.Principal{Roles: []string{protocol.RoleRouteAgent}, Method: protocol.MethodAPIKey}, true
		},
		InScope: func(who *protocol.Principal, action string) bool {
			return len(who.Scopes) == 0 || slices.Contains(who.Scopes, action)
		},
	})
	set, err := commands.NewSet(service.Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	d.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	t.Cleanup(func() { _ = d.router.Close(context.Background()) })
	return d
}

func (d *desk) ask(command, params string) *protocol.Response {
	d.t.Helper()
	d.n++
	return d.router.Handle(d.t.Context(), commands.Inbound{Principal: root, Door: "http", Body: []byte(fmt.Sprintf(
		`{"version":"0.6.3","id":"%d","timestamp":0,"type":"request","command":%q,"params":%s}`, d.n, command, params))})
}

// answer is the result of a command that must succeed.
func answer[T any](d *desk, command, params string) (result T) {
	d.t.Helper()
	r := d.ask(command, params)
	if r.Err != nil {
		d.t.Fatalf("%s %s: %v", command, params, r.Err)
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		d.t.Fatal(err)
	}
	return result
}

func (d *desk) refused(want protocol.Code, says, command, params string) {
	d.t.Helper()
	r := d.ask(command, params)
	if r.Err == nil || r.Err.Code != want || !strings.Contains(fmt.Sprint(r.Err.Message, r.Err.Details), says) {
		d.t.Errorf("%s %.200s: %v, want %s %q", command, params, r.Err, want, says)
	}
}

const doors = `@id("front") @why("the front door is people's") forbid (principal, action == Action::\"skill:invoke\", resource == Skill::\"door\") unless { principal in Role::\"operator\" };`

func jsonOf(text string) string { return mustJSON(strings.ReplaceAll(text, `\"`, `"`)) }

func TestPoliciesArePutShownAndRemoved(t *testing.T) {
	d := newDesk(t)
	if !allowed(d.engine, router, "skill:invoke", "skill", "door") {
		t.Fatal("refused before")
	}
	first := answer[PutResult](d, "policy.put", `{"name":"doors","policy":`+jsonOf(doors)+`}`)
	if !slices.Equal(first.Policies, []string{"doors/front"}) || first.Revision == 0 {
		t.Errorf("put: %+v", first)
	}
	if allowed(d.engine, router, "skill:invoke", "skill", "door") || !allowed(d.engine, operator, "skill:invoke", "skill", "door") {
		t.Error("it is not in force")
	}
	got := answer[GetResult](d, "policy.get", `{"name":"doors"}`)
	if got.Revision != first.Revision || got.UpdatedBy != "root" || !strings.Contains(got.Policy, "@why") {
		t.Errorf("get: %+v", got)
	}
	d.refused(protocol.RevisionConflict, "revision", "policy.put", `{"name":"doors","revision":99,"policy":`+jsonOf(doors)+`}`)
	list := answer[ListResult](d, "policy.list", `{"from":"stored"}`)
	if list.Total != 1 || list.Policies[0].Name != "doors" {
		t.Errorf("list: %+v", list)
	}
	answer[RemoveResult](d, "policy.remove", `{"name":"doors"}`)
	if !allowed(d.engine, router, "skill:invoke", "skill", "door") {
		t.Error("it is still in force")
	}
	d.refused(protocol.NotFound, "doors", "policy.remove", `{"name":"doors"}`)
	d.refused(protocol.NotFound, "doors", "policy.get", `{"name":"doors"}`)
}

func TestPoliciesOfTheBridgeStay(t *testing.T) {
	d := newDesk(t)
	d.refused(protocol.InvalidState, "stays", "policy.remove", `{"name":"administrator"}`)
	d.refused(protocol.InvalidParameter, "come with the bridge", "policy.put", `{"name":"administrator","policy":"forbid (principal, action, resource);"}`)
	if got := answer[GetResult](d, "policy.get", `{"name":"administrator"}`); !strings.Contains(got.Policy, `Role::"administrator"`) {
		t.Errorf("get: %+v", got)
	}
}

func TestBrokenPoliciesAreNotPut(t *testing.T) {
	d := newDesk(t)
	answer[PutResult](d, "policy.put", `{"name":"doors","policy":`+jsonOf(doors)+`}`)
	broken := `permit (principal, action == Action::"skill:invok", resource);`
	d.refused(protocol.InvalidParameter, "skill:invoke", "policy.put", `{"name":"doors","policy":`+jsonOf(broken)+`}`)
	if allowed(d.engine, router, "skill:invoke", "skill", "door") {
		t.Error("the working one is gone")
	}
	for name, params := range map[string]string{
		"an upper case name": `{"name":"Doors","policy":` + jsonOf(doors) + `}`,
		"a path":             `{"name":"../doors","policy":` + jsonOf(doors) + `}`,
		"too long":           `{"name":"doors","policy":` + mustJSON(strings.Repeat("/", 70000)) + `}`,
	} {
		if r := d.ask("policy.put", params); protocol.CodeOf(r.Err) != protocol.InvalidParameter {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	v := answer[ValidateResult](d, "policy.validate", `{"policy":`+jsonOf(broken)+`}`)
	if v.Valid || len(v.Errors) != 1 || !strings.Contains(v.Errors[0], `did you mean "skill:invoke"?`) {
		t.Errorf("validate: %+v", v)
	}
	v = answer[ValidateResult](d, "policy.validate", `{"policy":`+jsonOf(doors)+`}`)
	if !v.Valid || len(v.Errors) != 0 {
		t.Errorf("validate: %+v", v)
	}
}

func TestExplainSaysWhoDecided(t *testing.T) {
	d := newDesk(t)
	answer[PutResult](d, "policy.put", `{"name":"doors","policy":`+jsonOf(doors)+`}`)
	for name, test := range map[string]struct{ params, decision, reason string }{
		"a forbid":                     {`{"principal":{"id":"r","roles":["route_agent"]},"action":"skill:invoke","resource":{"type":"skill","id":"door"}}`, "deny", "doors/front forbids it: the front door is people's"},
		"a permit":                     {`{"principal":{"id":"r","roles":["route_agent"]},"action":"skill:invoke","resource":{"type":"skill","id":"bell"}}`, "allow", "route_agent/route_agent.invoke permits it"},
		"nothing":                      {`{"principal":{"id":"r"},"action":"skill:invoke"}`, "deny", "no policy permits it"},
		"roles of its key":             {`{"principal":{"id":"gateway"},"action":"skill:invoke"}`, "allow", "route_agent"},
		"another space":                {`{"principal":{"id":"r","roles":["route_agent"]},"action":"skill:invoke","resource":{"type":"skill","id":"bell","space_id":"acme"}}`, "deny", "another space"},
		"scopes":                       {`{"principal":{"id":"r","roles":["route_agent"],"scopes":["agent:get"]},"action":"skill:invoke"}`, "deny", "scopes"},
		"the caller":                   {`{"action":"key:create"}`, "allow", "administrator"},
		"an agent's command":           {`{"principal":{"id":"o","kind":"operator","roles":["operator"]},"action":"extension:acme.blink"}`, "allow", "operator"},
		"attributes do no harm":        {`{"principal":{"id":"r","attributes":{"floor":"3"}},"action":"bridge:describe"}`, "allow", "everybody"},
		"the address is looked at too": {`{"action":"bridge:describe","address":"192.0.2.1","door":"ws"}`, "allow", "administrator"},
	} {
		got := answer[ExplainResult](d, "policy.explain", test.params)
		if got.Decision != test.decision || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%s: %s, %s", name, got.Decision, got.Reason)
		}
	}
	d.refused(protocol.InvalidParameter, `did you mean "skill:invoke"?`, "policy.explain", `{"action":"skill:invok"}`)
	d.refused(protocol.InvalidParameter, "address", "policy.explain", `{"action":"skill:invoke","address":"x"}`)
}

func TestThereIsAnEndToPolicies(t *testing.T) {
	d := newDesk(t)
	many := strings.Repeat("permit (principal, action == Action::\"task:get\", resource);\n", maxPolicies)
	var refused *protocol.Error
	for i := 0; i < 100 && refused == nil; i++ {
		refused = d.ask("policy.put", fmt.Sprintf(`{"name":"p%d","policy":%s}`, i, mustJSON(many))).Err
	}
	if refused == nil || refused.Code != protocol.LimitReached {
		t.Errorf("got %v", refused)
	}
}

func TestPoliciesFollowTheStore(t *testing.T) {
	d := newDesk(t)
	// Another node puts what this one does not know any more.
	_, err := d.table.Create(context.Background(), "new", &Record{Name: "new", Text: `forbid (principal == Agent::"router", action == Action::"cap:fly", resource);
		forbid (principal, action == Action::"skill:invoke", resource);`})
	if err != nil {
		t.Fatal(err)
	}
	if allowed(d.engine, router, "skill:invoke", "skill", "bell") {
		t.Error("what forbids is not in force because of what is unknown beside it")
	}
}
