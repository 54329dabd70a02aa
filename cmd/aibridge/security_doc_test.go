package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheSecurityPageWorksAsWritten rotates secrets, and exports the audit trail, as the
// page says.
func TestTheSecurityPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page := readPage(t, "security.md")
	_, export, ok := strings.Cut(page, "\n### An export")
	if !ok {
		t.Fatal("the page has no export")
	}
	export, _, _ = strings.Cut(export, "\n## ")
	shell := startShell(t, startBinary(t, t.TempDir()))
	steps := append(tour(sectionOf(t, page, "Rotation")), tour(export)...)
	if len(steps) != 9 {
		t.Fatalf("found %d steps", len(steps))
	}
	shell.follow(t, steps)
}

func TestAnExportIsNotVerifiedByItsOwnWord(t *testing.T) {
	for line, want := range map[string]string{
		"audit verify --file x":                         "--signed-by: is needed",
		"audit verify --signed-by x":                    "--signed-by: is for an export",
		"audit verify --file x --signed-by x":           "--signed-by: a key of exports",
		"audit verify --file x --offline --signed-by x": "[offline file]",
		"audit export":                                  "FILE is missing",
	} {
		cmd := root()
		cmd.SetArgs(strings.Fields(line))
		cmd.SetContext(t.Context())
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
