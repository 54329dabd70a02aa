package security

import (
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/policy"
)

// says is the answer of policies, by principal, action and id.
type says map[string]bool

func (s says) Epoch() uint64 { return 0 }

func (s says) Decide(q *policy.Query) policy.Decision {
	return policy.Decision{Allowed: q.Who.Unbounded() || s[q.Who.ID+" "+q.Action+" "+q.ID]}
}

func TestCommandsNeedScopeSpaceAndPolicy(t *testing.T) {
	a := NewAuthorizer(says{"lamp skill:invoke bell": true, "lamp agent:list ": true})
	limited := *device
	limited.Scopes = []string{"agent:*"}
	chief := *admin
	chief.Scopes = []string{"agent:list"}
	for name, test := range map[string]struct {
		who    *protocol.Principal
		action string
		on     commands.Resource
		want   protocol.Code
	}{
		"policy allows":                       {device, "skill:invoke", commands.Resource{Type: "skill", ID: "bell"}, ""},
		"policy says nothing":                 {device, "skill:invoke", commands.Resource{Type: "skill", ID: "door"}, protocol.PermissionDenied},
		"its own space by name":               {device, "skill:invoke", commands.Resource{Type: "skill", ID: "bell", Space: "default"}, ""},
		"a foreign space does not exist":      {device, "skill:invoke", commands.Resource{Type: "skill", ID: "bell", Space: "acme"}, protocol.NotFound},
		"nor does a list of it":               {device, "agent:list", commands.Resource{Type: "agent", Space: "acme"}, protocol.NotFound},
		"an administrator sees every space":   {admin, "skill:invoke", commands.Resource{Type: "skill", ID: "bell", Space: "acme"}, ""},
		"outside the credential's scopes":     {&limited, "skill:invoke", commands.Resource{Type: "skill", ID: "bell"}, protocol.PermissionDenied},
		"within them":                         {&limited, "agent:list", commands.Resource{Type: "agent"}, ""},
		"scopes do not tell of spaces":        {&limited, "skill:invoke", commands.Resource{Type: "skill", ID: "bell", Space: "acme"}, protocol.PermissionDenied},
		"scopes bind administrators too":      {&chief, "key:create", commands.Resource{}, protocol.PermissionDenied},
		"anonymous may do everything (--dev)": {anonymous, "key:create", commands.Resource{}, ""},
	} {
		if got := protocol.CodeOf(a.Authorize(t.Context(), test.who, test.action, test.on)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestSendersAreOneselfOrAsPolicySays(t *testing.T) {
	a := NewAuthorizer(says{"lamp act_for bulb": true})
	for sender, want := range map[string]protocol.Code{"lamp": "", "bulb": "", "door": protocol.PermissionDenied} {
		if got := protocol.CodeOf(a.ActFor(t.Context(), device, sender)); got != want {
			t.Errorf("lamp speaks for %s: %q, want %q", sender, got, want)
		}
	}
	namesake := *device
	namesake.Kind = protocol.KindOperator
	if err := a.ActFor(t.Context(), &namesake, "lamp"); err == nil {
		t.Error("a person speaks for the agent of the same name")
	}
	if err := a.ActFor(t.Context(), admin, "door"); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestAKnownDecisionCostsNoMemory(t *testing.T) {
	set, err := commands.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(policy.Options{Actions: set})
	if err != nil {
		t.Fatal(err)
	}
	a := NewAuthorizer(engine)
	on := commands.Resource{Type: "task", ID: "x"}
	if n := testing.AllocsPerRun(100, func() {
		if err := a.Authorize(t.Context(), device, "task:get", on); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // the query
		t.Errorf("%v allocations", n)
	}
}
