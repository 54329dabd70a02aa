package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestShippedPoliciesLetRolesDoTheirWork(t *testing.T) {
	e := newEngine(t, func(o *Options) {
		o.Entities = known{"agent/bulb": {Owner: protocol.Party{ID: "lamp"}}, "agent/other": {Owner: protocol.Party{ID: "somebody"}}}
	})
	for _, test := range []struct {
		who               *protocol.Principal
		action, type_, id string
		want              bool
	}{
		{root, "key:create", "key", "", true},
		{root, "extension:anything", "", "", true},
		{operator, "skill:invoke", "skill", "heating", true},
		{operator, "agent:unregister", "agent", "other", true},
		{operator, "key:list", "key", "", false},
		{operator, "cert:issue", "", "", true}, // to fetch what was approved; the authorities judge besides
		{operator, "cert:request", "", "", true},
		{operator, "policy:get", "", "", false},
		{operator, ActFor, "sender", "lamp", false},
		{operator, "extension:acme.blink", "extension", "acme-agent", true},
		{observer, "agent:list", "agent", "", true},
		{observer, "group:data.get", "group", "c/g", true},
		{observer, "key:list", "key", "", false},
		{observer, "skill:invoke", "skill", "heating", false},
		{observer, "agent:register", "agent", "otto", false},
		{observer, "extension:acme.blink", "extension", "acme-agent", false},
		{observer, "extension:read.unlock", "extension", "acme-agent", false},
		{operator, "extension:administration.x", "extension", "acme-agent", true},
		{router, "extension:acme.blink", "extension", "acme-agent", true},
		{lamp, "agent:register", "agent", "lamp", true},
		{lamp, "agent:register", "agent", "other", false},
		{lamp, "agent:heartbeat", "agent", "bulb", true},
		{lamp, "skill:register", "skill", "light", true},
		{lamp, "skill:discover", "skill", "", true},
		{lamp, "skill:invoke", "skill", "door", false},
		{lamp, "group:dispatch", "group", "c/g", false},
		{lamp, "vfs:list", "vfs", "files", true},
		{lamp, "vfs:register", "vfs", "", false},
		{lamp, "key:create", "key", "", false},
		{router, "skill:invoke", "skill", "door", true},
		{router, "group:dispatch", "group", "c/g", true},
		{router, "agent:register", "agent", "router", true},
		{router, "scene:declare", "scene", "", true},
		{router, "llm:query", "", "", true},
		{router, "policy:put", "", "", false},
		{heating, "skill:register", "skill", "heating", true},
		{heating, "skill:register", "skill", "door", false},
		{heating, "agent:register", "agent", "heating", false},
		{heating, "cap:update", "cap", "climate", true},
		{nobody, "bridge:describe", "", "", true},
		{nobody, "agent:list", "agent", "", false},
	} {
		if got := allowed(e, test.who, test.action, test.type_, test.id); got != test.want {
			t.Errorf("%s %s on %s/%s: %v, want %v", test.who.ID, test.action, test.type_, test.id, got, test.want)
		}
	}
}

func TestOwnPoliciesAddAndForbid(t *testing.T) {
	e := newEngine(t)
	if allowed(e, lamp, "skill:invoke", "skill", "bell") {
		t.Fatal("allowed before")
	}
	put(t, e, "bell", `permit (principal == Agent::"lamp", action == Action::"skill:invoke", resource == Skill::"bell");`)
	if !allowed(e, lamp, "skill:invoke", "skill", "bell") || allowed(e, lamp, "skill:invoke", "skill", "door") {
		t.Error("the permit does not do what it says")
	}
	put(t, e, "quarantine", `forbid (principal == Agent::"lamp", action, resource);`)
	if allowed(e, lamp, "skill:invoke", "skill", "bell") || allowed(e, lamp, "agent:heartbeat", "agent", "lamp") {
		t.Error("a forbid does not outweigh permits")
	}
	e.remove(Source{Stored, "quarantine"})
	if !allowed(e, lamp, "agent:heartbeat", "agent", "lamp") {
		t.Error("what was removed is still in force")
	}
}

func TestNobodyLocksAdministratorsOutOfThePolicies(t *testing.T) {
	e := newEngine(t)
	put(t, e, "oops", `forbid (principal, action, resource);`)
	if allowed(e, root, "skill:invoke", "skill", "x") {
		t.Error("a forbid does not bind administrators")
	}
	if !allowed(e, root, "policy:put", "policy", "oops") {
		t.Error("nobody can undo it")
	}
	if allowed(e, operator, "policy:put", "policy", "oops") {
		t.Error("operators got at the policies")
	}
}

func TestPoliciesLookAtAttributesOwnersAndCircumstances(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	e := newEngine(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Entities = known{"skill/mine": {Owner: protocol.Party{ID: "lamp"}}, "skill/theirs": {Owner: protocol.Party{ID: "x"}}, "cap/c": {Skill: "heating"},
			"skill/agents":    {Owner: lamp.Party()},
			"approval/little": {Tool: "pay", Arguments: json.RawMessage(`{"amount":99.5,"to":{"a/b":["x","bank"]},"now":true}`)},
			"approval/much":   {Tool: "pay", Arguments: json.RawMessage(`{"amount":100,"to":{"a/b":["bank","x"]},"now":false}`)},
			"approval/vast":   {Tool: "pay", Arguments: json.RawMessage(`{"amount":1e30,"to.a":"bank"}`)},
			"approval/broken": {Tool: "pay", Arguments: json.RawMessage(`null`)}}
	})
	namesake := *lamp
	namesake.Kind = protocol.KindOperator
	floor := *lamp
	floor.Attributes = map[string]string{"floor": "3"}
	certified := *lamp
	certified.Method, certified.CertSerial = protocol.MethodCertificate, "00112233445566aa"
	for name, test := range map[string]struct {
		policy  string
		yes, no Query
	}{
		"owner": {
			`permit (principal, action == Action::"skill:invoke", resource is Skill) when { resource has owner && resource.owner == principal.id };`,
			Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "mine"},
			Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "theirs"},
		},
		"owner of the same name": {
			`permit (principal, action == Action::"skill:invoke", resource is Skill) when { resource has owner && resource.owner == principal.id };`,
			Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "agents"},
			Query{Who: &namesake, Action: "skill:invoke", Type: "skill", ID: "agents"},
		},
		"attribute of the principal": {
			`permit (principal, action == Action::"skill:invoke", resource) when { principal.hasTag("floor") && principal.getTag("floor") == "3" };`,
			Query{Who: &floor, Action: "skill:invoke"},
			Query{Who: lamp, Action: "skill:invoke"},
		},
		"address": {
			`permit (principal, action == Action::"skill:invoke", resource) when { context has address && context.address.isInRange(ip("10.0.0.0/8")) };`,
			Query{Who: lamp, Action: "skill:invoke", Address: netip.MustParseAddr("::ffff:10.1.2.3")},
			Query{Who: lamp, Action: "skill:invoke", Address: netip.MustParseAddr("192.0.2.1")},
		},
		"door": {
			`permit (principal, action == Action::"skill:invoke", resource) when { context.door == "mqtt" };`,
			Query{Who: lamp, Action: "skill:invoke", Door: "mqtt"},
			Query{Who: lamp, Action: "skill:invoke", Door: "http"},
		},
		"certificate": {
			`permit (principal, action == Action::"skill:invoke", resource) when { context.method == "certificate" && context has certificate && context.certificate == "00112233445566aa" };`,
			Query{Who: &certified, Action: "skill:invoke"},
			Query{Who: lamp, Action: "skill:invoke"},
		},
		"space": {
			`permit (principal, action == Action::"skill:invoke", resource in Space::"default");`,
			Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "x"},
			Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "x", Space: "acme"},
		},
		"itself": {
			`permit (principal, action == Action::"agent:get", resource) when { resource == principal };
			 forbid (principal, action == Action::"agent:get", resource) unless { resource == principal };`,
			Query{Who: lamp, Action: "agent:get", Type: "agent", ID: "lamp"},
			Query{Who: lamp, Action: "agent:get", Type: "agent", ID: "bulb"},
		},
		"number among arguments": {
			`permit (principal, action == Action::"approval:decide", resource is Approval) when { resource has numbers && resource.numbers.hasTag("/amount") && resource.numbers.getTag("/amount").lessThan(decimal("100.0")) };`,
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "little"},
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "much"},
		},
		"number that cannot be told": {
			`permit (principal, action == Action::"approval:decide", resource is Approval) when { resource has numbers && resource.numbers.hasTag("/amount") };`,
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "much"},
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "vast"},
		},
		"text among arguments": {
			`permit (principal, action == Action::"approval:decide", resource is Approval) when { resource.hasTag("/to/a~1b/1") && resource.getTag("/to/a~1b/1") == "bank" && resource.hasTag("/now") && resource.getTag("/now") == "true" };`,
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "little"},
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "much"},
		},
		"arguments that cannot be read": {
			`permit (principal, action == Action::"approval:decide", resource is Approval) when { resource has numbers && !resource.hasTag("/to") && resource.hasTag("/amount") };`,
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "vast"},
			Query{Who: lamp, Action: "approval:decide", Type: "approval", ID: "broken"},
		},
		"sender": {
			`permit (principal, action == Action::"skill:invoke", resource) when { context.sender_id == "lamp" };`,
			Query{Who: lamp, Action: "skill:invoke"},
			Query{Who: lamp, Action: "skill:invoke", SenderID: "bulb"},
		},
	} {
		put(t, e, "own", test.policy)
		for range 2 { // the second time from the cache
			if !e.Decide(&test.yes).Allowed || e.Decide(&test.no).Allowed {
				t.Errorf("%s: the first should be allowed and the second not", name)
			}
		}
	}
}

func TestDecisionsThatDependOnTheTimeAreNotKept(t *testing.T) {
	now := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	e := newEngine(t, func(o *Options) { o.Now = func() time.Time { return now } })
	put(t, e, "hours", `permit (principal, action == Action::"skill:invoke", resource)
		when { context.time.toTime() >= duration("8h") && context.time.toTime() < duration("18h") };`)
	q := &Query{Who: lamp, Action: "skill:invoke"}
	if d := e.Decide(q); !d.Allowed || !d.Passing {
		t.Errorf("at nine: %+v", d)
	}
	now = now.Add(12 * time.Hour)
	if e.Decide(q).Allowed {
		t.Error("allowed at night")
	}
}

func TestDecisionsEndWithWhatTheyDependOn(t *testing.T) {
	now := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	facts := known{"skill/s": {Owner: protocol.Party{ID: "lamp"}}}
	e := newEngine(t, func(o *Options) { o.Entities = facts; o.Now = func() time.Time { return now } })
	put(t, e, "own", `permit (principal, action == Action::"skill:invoke", resource) when { resource has owner && resource.owner == principal.id };`)
	q := &Query{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "s"}
	if !e.Decide(q).Allowed {
		t.Fatal("refused")
	}
	facts["skill/s"] = Facts{Owner: protocol.Party{ID: "other"}}
	if !e.Decide(q).Allowed {
		t.Error("the decision was not kept: the test shows nothing")
	}
	now = now.Add(keptFor)
	if e.Decide(q).Allowed {
		t.Error("kept longer than ten minutes")
	}
	facts["skill/s"] = Facts{Owner: protocol.Party{ID: "lamp"}}
	e.FactsChanged()
	if !e.Decide(q).Allowed {
		t.Error("kept although facts changed")
	}
	before := e.Epoch()
	e.Forget()
	if e.Epoch() == before {
		t.Error("the epoch stands still")
	}
}

func TestAFailingForbidForbids(t *testing.T) {
	e := newEngine(t)
	rules, err := parse("f", `permit (principal, action, resource);
		forbid (principal, action, resource) when { resource.owner == "x" };`, Source{Stored, "f"})
	if err != nil {
		t.Fatal(err)
	}
	e.texts[Source{Stored, "f"}] = &loaded{rules: rules} // the validator would not have it
	e.rebuild()
	if allowed(e, lamp, "skill:invoke", "skill", "s") {
		t.Error("a forbid that fails is no forbid")
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	const most = 16
	e := newEngine(t)
	e.cache = newCache(most)
	for i := range 3 * shards * most {
		allowed(e, lamp, "skill:invoke", "skill", fmt.Sprint(i))
	}
	for i := range 3 * shards * most {
		allowed(e, someone(protocol.KindAgent, fmt.Sprint("a", i)), "skill:discover", "skill", "")
	}
	for i := range e.cache.parts {
		if p := &e.cache.parts[i]; len(p.decisions) > most || len(p.subjects) > most {
			t.Errorf("%d decisions, %d subjects", len(p.decisions), len(p.subjects))
		}
	}
}

func TestExplainNamesThePolicy(t *testing.T) {
	e := newEngine(t)
	x := e.Explain(&Query{Who: observer, Action: "skill:invoke", Type: "skill", ID: "s"})
	if x.Decision != "deny" || x.Reason != "no policy permits it" || len(x.Policies) != 0 {
		t.Errorf("nothing decided: %+v", x)
	}
	put(t, e, "night", `@why("the house sleeps") forbid (principal, action == Action::"skill:invoke", resource);`)
	if got := reasons(e, &Query{Who: router, Action: "skill:invoke"}); !slices.Equal(got, []string{"night"}) {
		t.Errorf("got %q", got)
	}
	if x := e.Explain(&Query{Who: router, Action: "skill:invoke"}); !strings.Contains(x.Reason, "night forbids it: the house sleeps") {
		t.Errorf("got %q", x.Reason)
	}
	if got := reasons(e, &Query{Who: operator, Action: "agent:list"}); !slices.Equal(got, []string{"operator/operator"}) {
		t.Errorf("got %q", got)
	}
}
