package policy

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestNoNamespaceMeansAnythingToPolicies has agents register commands whose
// names are those of groups, and whoever may do what is in the groups run them.
func TestNoNamespaceMeansAnythingToPolicies(t *testing.T) {
	e := newEngine(t)
	for _, name := range append(Reserved(e.opts.Actions), "acme") {
		action := groupExtension + ":" + name + ".unlock"
		if !isExtension(action) {
			continue // no namespace
		}
		if allowed(e, observer, action, groupExtension, "agent") || allowed(e, lamp, action, groupExtension, "agent") {
			t.Errorf("somebody runs %s", action)
		}
		if got := e.words.groupsOf(action); !slices.Equal(got, []string{"extension:" + name, "extension"}) {
			t.Errorf("%s is in %q", action, got)
		}
	}
	for _, name := range []string{"read", "write", "act", "administration", "topic", "tool", "extension", "skill", "space", "role", "operator", "act_for"} {
		if !slices.Contains(Reserved(e.opts.Actions), name) {
			t.Errorf("an agent may take the namespace %s", name)
		}
	}
}

func TestPoliciesSpeakOfTheCommandsOfOneAgent(t *testing.T) {
	e := newEngine(t)
	put(t, e, "acme", `forbid (principal, action in Action::"extension:acme", resource); permit (principal in Role::"observer", action == Action::"extension:other.look", resource);`)
	for action, want := range map[string]bool{"extension:acme.blink": false, "extension:other.blink": true} {
		if allowed(e, operator, action, groupExtension, "agent") != want {
			t.Errorf("an operator's %s is not %v", action, want)
		}
	}
	if !allowed(e, observer, "extension:other.look", groupExtension, "agent") || allowed(e, observer, "extension:other.blink", groupExtension, "agent") {
		t.Error("an observer does not do what it may alone")
	}
}

// TestAStoredPolicyGoesOnForbiddingAnAgentsCommand has a policy from before
// actions of agents' commands had a family of their own.
func TestAStoredPolicyGoesOnForbiddingAnAgentsCommand(t *testing.T) {
	const former = `forbid (principal, action == Action::"acme:blink.twice", resource);`
	var log strings.Builder
	e := newEngine(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	e.follow(Source{Stored, "acme"}, former, "anna", e.opts.Now())
	if allowed(e, operator, "extension:acme.blink.twice", groupExtension, "agent") {
		t.Error("it forbids nothing any more")
	}
	if !strings.Contains(log.String(), "extension:acme.blink.twice") {
		t.Errorf("logged %s", log.String())
	}
	if _, _, err := e.Check(former); err == nil || !strings.Contains(err.Error(), `it is "extension:acme.blink.twice"`) {
		t.Errorf("put anew: %v", err)
	}
}
