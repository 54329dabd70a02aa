package cluster

import (
	"os"
	"strings"
	"testing"
)

func TestTheDocumentationTellsWhatDoesNotHold(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range Preview {
		if !strings.Contains(string(page), "- "+line+"\n") {
			t.Errorf("docs/operations.md lacks %q", line)
		}
	}
}
