package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// TestTheDocumentedSpendingIsShown asks a model something and runs what the page says
// about what was spent.
func TestTheDocumentedSpendingIsShown(t *testing.T) {
	t.Parallel()
	model := scripted.ForBridge(t, scripted.Stream(`{"choices":[{"delta":{"content":"A bit."}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "[DONE]"))
	shell := startShell(t, startBinary(t, t.TempDir(), "--dev", "--llm-base-url", model.URL+"/v1", "--llm-model", "small"))
	fmt.Fprintln(shell.in, `aibridge() { bin/aibridge "$@"; }`)
	shell.take(t, 0, step{"aibridge call llm.query query=hello\n", "A bit."})

	lines := slices.Collect(strings.Lines(blocks(sectionOf(t, readPage(t, "llm.md"), "What was spent"), "sh")[0]))
	wants := []string{"MODEL", "PRINCIPAL", "budgets", ""}
	if len(lines) != len(wants) {
		t.Fatalf("the page has %d commands", len(lines))
	}
	for i, line := range lines {
		shell.take(t, i+1, step{line, wants[i]})
	}
	sheet := shell.run(t, len(lines)+1, "cat spend.csv\n")
	head, rows, _ := strings.Cut(sheet, "\n")
	for _, want := range []string{"day", "principal", "tokens"} {
		if !strings.Contains(head, want) {
			t.Errorf("the sheet begins with %q", head)
		}
	}
	if strings.Count(rows, "\n") != 1 || !strings.Contains(rows, "13") {
		t.Errorf("its rows are %q", rows)
	}
}
