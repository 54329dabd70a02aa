package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// fifty is an engine with fifty policies and the shipped ones, most of which
// have a say about the action.
func fifty(b *testing.B) *Engine {
	e := newEngine(b, func(o *Options) {
		o.Entities = known{"skill/s": {Owner: protocol.Party{ID: "x"}, Agents: []string{"lamp"}}}
	})
	var text strings.Builder
	for i := range 50 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&text, "permit (principal in Role::\"role%d\", action, resource);\n", i)
		case 1:
			fmt.Fprintf(&text, "permit (principal, action == Action::\"skill:invoke\", resource == Skill::\"s%d\");\n", i)
		case 2:
			fmt.Fprintf(&text, "permit (principal, action in Action::\"skill\", resource) when { principal.hasTag(\"floor\") && principal.getTag(\"floor\") == \"%d\" };\n", i)
		case 3:
			fmt.Fprintf(&text, "forbid (principal == Agent::\"a%d\", action, resource);\n", i)
		case 4:
			fmt.Fprintf(&text, "forbid (principal, action in Action::\"group\", resource) unless { resource has owner && resource.owner == \"x\" };\n")
		}
	}
	put(b, e, "own", text.String())
	return e
}

var caller = &protocol.Principal{Kind: protocol.KindAgent, ID: "router", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleRouteAgent},
	Credential: "0123456789abcdef", Method: protocol.MethodAPIKey, Attributes: map[string]string{"floor": "x"}}

func BenchmarkDecideKept(b *testing.B) {
	e := fifty(b)
	q := &Query{Who: caller, Action: "skill:invoke", Type: "skill", ID: "s", Door: "mqtt", SenderID: "router", Address: netip.MustParseAddr("192.0.2.1")}
	b.ReportAllocs()
	for b.Loop() {
		if !e.Decide(q).Allowed {
			b.Fatal("refused")
		}
	}
}

func BenchmarkDecideAnew(b *testing.B) {
	e := fifty(b)
	q := &Query{Who: caller, Action: "skill:invoke", Type: "skill", ID: "s", Door: "mqtt", SenderID: "router", Address: netip.MustParseAddr("192.0.2.1")}
	b.ReportAllocs()
	for b.Loop() {
		e.epoch.Add(1)
		if !e.Decide(q).Allowed {
			b.Fatal("refused")
		}
	}
}

func BenchmarkDecideForANewPrincipal(b *testing.B) {
	e := fifty(b)
	b.ReportAllocs()
	for b.Loop() {
		who := *caller // the same party, authenticated anew
		if !e.Decide(&Query{Who: &who, Action: "skill:invoke", Type: "skill", ID: "s"}).Allowed {
			b.Fatal("refused")
		}
	}
}
