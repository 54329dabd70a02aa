package schema

import (
	"slices"
	"testing"
)

func TestWhatAMisspeltNameMeant(t *testing.T) {
	names := []string{"skill_version", "skill_id", "capability_id", "params", "keep_alive_seconds"}
	for name, want := range map[string]string{
		"skil_id":    "skill_id",      // letters
		"skill":      "skill_id",      // the last word is missing, and this is the shortest with the first
		"Skill":      "skill_id",      // in capitals
		"capability": "capability_id", // more letters than Nearest forgives
		"keep_alive": "keep_alive_seconds",
		"id":         "", // the last word of several says nothing
		"celsius":    "",
		"":           "",
	} {
		if got, ok := Meant(name, slices.Values(names)); got != want || ok != (want != "") {
			t.Errorf("%q meant %q, want %q", name, got, want)
		}
	}
}
