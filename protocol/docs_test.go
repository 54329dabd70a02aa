package protocol_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestDocumentationListsEveryCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range protocol.Codes() {
		row := fmt.Sprintf("\n| %s | %s | %d | %s |\n", string(code), code, code.HTTPStatus(), code.Retry())
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/protocol.md has no row %q", strings.TrimSpace(row))
		}
	}
}

func TestTroubleshootingExplainsEveryCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range protocol.Codes() {
		if row := fmt.Sprintf("\n| %s | %s | ", string(code), code); !strings.Contains(string(page), row) {
			t.Errorf("docs/troubleshooting.md has no row %q", strings.TrimSpace(row))
		}
	}
}
