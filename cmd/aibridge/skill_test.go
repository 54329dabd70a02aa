package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestJoinTokensAreReadFromAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "joins")
	read := func(text string) (map[protocol.SkillID]string, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return joinsIn(path)
	}
	got, err := read("# of the boiler room\nheating abj_1.x\n\n  lamp   abj_2.y\r\n")
	if want := map[protocol.SkillID]string{"heating": "abj_1.x", "lamp": "abj_2.y"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"heating", "heating abj_1.x more"} {
		if _, err := read("\n" + wrong); err == nil || !strings.Contains(err.Error(), "joins:2:") || strings.Contains(err.Error(), "abj_") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if none, err := joinsIn(""); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}
