package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMistakesInPoliciesAreNamed(t *testing.T) {
	e := newEngine(t)
	for text, want := range map[string]string{
		``: "no policy",
		`permit (principal, action == Action::"skill:invok", resource);`:                                                        `did you mean "skill:invoke"?`,
		`permit (principal, action in [Action::"skills"], resource);`:                                                           `did you mean "skill"?`,
		`permit (principal, action, resource) when { resource.ownerr == "x" };`:                                                 `did you mean "owner"?`,
		`permit (principal, action, resource) when { context has adress };`:                                                     `did you mean "address"?`,
		`permit (principal == Agnet::"x", action, resource);`:                                                                   `did you mean "Agent"?`,
		`permit (principal, action, resource is Skil);`:                                                                         `"Skil"`,
		`permit (principal, action, resource) when { action in Action::"raed" };`:                                               `did you mean "read"?`,
		"\n\npermit (principal, action, resource) when { resource.id == 3 };":                                                   "line 3",
		`permit (principal, action, resource) when { resource.owner == "x" };`:                                                  "owner",
		`permit (principal, action, resource) when { context.time < "08:00" };`:                                                 "line 1",
		`permit (principal, action == Action::"skill:invoke", resource) when { principal like "x" };`:                           "line 1",
		`permit (principal, action resource);`:                                                                                  "1:35",
		`@id("a b") permit (principal, action, resource);`:                                                                      "@id",
		`@id("a") permit (principal, action, resource); @id("a") permit (principal, action, resource);`:                         "twice",
		`permit (principal, action, resource) when { ` + strings.Repeat("(", 100) + `1 == 1` + strings.Repeat(")", 100) + ` };`: "nested",
		`permit (principal, action, resource) when { ` + strings.Repeat("1 == 1 && ", 600) + `true };`:                          "too long",
		strings.Repeat(`permit (principal, action, resource); `, maxPolicies+1):                                                 "more than",
		strings.Repeat(" ", maxText+1):                                                                                          "longer than",
		"permit (principal, action, resource);\x00":                                                                             "NUL",
		"permit (principal, action, resource); // \xff":                                                                         "UTF-8",
	} {
		_, _, err := e.Check(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestGoodPoliciesPassAndDoubtsAreTold(t *testing.T) {
	e := newEngine(t)
	for text, doubt := range map[string]string{
		`permit (principal in Role::"operator", action in Action::"read", resource);`:                                       "",
		`permit (principal is Agent in Space::"default", action, resource is Skill in Space::"default");`:                   "",
		`permit (principal, action == Action::"extension:acme.blink", resource);`:                                           `"extension:acme.blink"`,
		`permit (principal, action in Action::"extension:acme", resource);`:                                                 `"extension:acme"`,
		`permit (principal in Role::"oprator", action, resource);`:                                                          `did you mean "operator"?`,
		`forbid (principal, action in Action::"policy", resource);`:                                                         "administrators get at",
		`permit (principal, action in Action::"topic", resource) when { resource has kind && resource.kind == "channel" };`: "",
	} {
		_, doubts, err := e.Check(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := strings.Join(doubts, "; "); !strings.Contains(got, doubt) || doubt == "" && got != "" {
			t.Errorf("%s\n got %q\nwant %q", text, got, doubt)
		}
	}
}

func TestABrokenPolicyNeverReplacesAWorkingOne(t *testing.T) {
	var events []Event
	e := newEngine(t, func(o *Options) { o.Notify = func(ev Event) { events = append(events, ev) } })
	put(t, e, "bell", `permit (principal, action == Action::"skill:invoke", resource == Skill::"bell");`)
	if err := e.set(Source{Stored, "bell"}, `permit (principal, action == Action::"skill:invok", resource);`, "test", e.opts.Now()); err == nil {
		t.Fatal("taken")
	}
	if !allowed(e, lamp, "skill:invoke", "skill", "bell") {
		t.Error("the working one is gone")
	}
	if e.broken() != 1 || len(events) != 2 || events[1].Name != "policy.broken" || !strings.Contains(events[1].Reason, "skill:invoke") {
		t.Errorf("broken %d, events %+v", e.broken(), events)
	}
	put(t, e, "bell", `permit (principal, action == Action::"skill:invoke", resource == Skill::"gong");`)
	if e.broken() != 0 || allowed(e, lamp, "skill:invoke", "skill", "bell") {
		t.Error("the mended one is not in force")
	}
}

func TestTheSchemaIsValidAndCoversTheShippedPolicies(t *testing.T) {
	e := newEngine(t)
	for _, l := range e.texts {
		for _, r := range l.rules {
			if r.why == "" {
				t.Errorf("%s does not say why", r.id)
			}
			if r.reads == readsAll|readsCredential {
				t.Errorf("%s reads everything", r.id)
			}
		}
	}
}

func FuzzPolicy(f *testing.F) {
	for _, name := range []string{"administrator", "operator", "observer", "devices", "route_agent", "everybody"} {
		text, err := shipped.ReadFile("shipped/" + name + ".cedar")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`permit (principal, action, resource) when { if context.door == "mqtt" then [1, 2].contains(1) else {a: 1}.a == 1 };`)
	f.Add(`forbid (principal, action, resource) when { -9223372036854775808 - 1 == 0 };`)
	f.Add(`permit (principal, action, resource) when { ip("::/0").isInRange(ip("1.2.3.4/33")) };`)
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		ids, _, err := e.Check(text)
		if took := time.Since(start); took > time.Minute {
			t.Fatalf("took %v", took)
		}
		if err != nil {
			_ = invalid("policy", err) // can be told
			return
		}
		if len(ids) == 0 {
			t.Fatal("accepted without a policy")
		}
		rules, err := parse("fuzz", text, Source{Stored, "fuzz"})
		if err != nil {
			t.Fatal("accepted and then refused")
		}
		p := newProgram(e.words, rules)
		for _, q := range []*Query{{Who: lamp, Action: "skill:invoke", Type: "skill", ID: "s"}, {Who: root, Action: "acme:x"}} {
			p.judge(p.about(q.Action), &world{subject: newSubject(q.Who), query: q, space: "default", resource: resourceUID(q, "default")}, e.opts.Now())
		}
		_ = fmt.Sprint(mustJSON(ids))
	})
}

func BenchmarkCheck(b *testing.B) {
	e := newEngine(b)
	for b.Loop() {
		if _, _, err := e.Check(`permit (principal, action, resource) when { context.door == "mqtt" && resource.id == "x" };`); err != nil {
			b.Fatal(err)
		}
	}
}
