package policy

import (
	"strings"
	"testing"
	"time"
)

func TestNamesAreKnownOrLeadToThoseThatAre(t *testing.T) {
	e := newEngine(t)
	for role, want := range map[string]string{
		"operator": "", "officer:appstore": "", "skill": "", "anonymous": "", // known
		"oprator": "operator", "Observer": "observer", "officer:apstore": "officer:appstore", "janitor": "nothing",
	} {
		meant, known := e.KnowsRole(role)
		if known != (want == "") || meant != want && want != "nothing" || want == "nothing" && meant != "" {
			t.Errorf("role %s: %q, %v", role, meant, known)
		}
	}
	for scope, want := range map[string]string{
		"*": "", "skill:invoke": "", "skill:*": "", "extension:*": "", "extension:acme.blink": "", "topic:publish": "",
		"skill:invok": "skill:invoke", "skil:*": "skill:*", "xyz:zzzzzz": "nothing",
	} {
		meant, known := e.KnowsScope(scope)
		if known != (want == "") || meant != want && want != "nothing" || want == "nothing" && meant != "" {
			t.Errorf("scope %s: %q, %v", scope, meant, known)
		}
	}
	// A role of one's own is known while a policy speaks of it.
	for _, text := range []string{
		`permit (principal in Role::"janitor", action, resource);`,
		`permit (principal, action, resource) when { principal in [Role::"x", Role::"janitor"] };`,
	} {
		from := Source{Stored, "mine"}
		if err := e.set(from, text, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, known := e.KnowsRole("janitor"); !known {
			t.Errorf("unknown although a policy says %s", text)
		}
		e.remove(from)
		if _, known := e.KnowsRole("janitor"); known {
			t.Error("known although no policy speaks of it any more")
		}
	}
}

func TestMisspeltActionsAreNoPolicies(t *testing.T) {
	e := newEngine(t)
	for action, meant := range map[string]string{"skil:invoke": "skill:invoke", "Skill:invoke": "skill:invoke", "skill:invok": "skill:invoke", "topic:pubish": "topic:publish"} {
		_, _, err := e.Check(`forbid (principal, action == Action::"` + action + `", resource);`)
		if err == nil || !strings.Contains(err.Error(), `did you mean "`+meant+`"?`) {
			t.Errorf("%s: %v", action, err)
		}
	}
}
