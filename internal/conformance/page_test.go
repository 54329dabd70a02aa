package conformance

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page anew")

const page = "../../docs/coming-from-0.6.3.md"

// TestThePageNamesEveryDeviation holds the tables of the page for those who
// come from a client of the document against the lists of this package.
func TestThePageNamesEveryDeviation(t *testing.T) {
	t.Parallel()
	had, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(had)
	for name, table := range map[string]string{"parameters": parameterTable(), "examples": exampleTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("the page has no place for the table of %s", name)
		}
		want = head + begin + table + end + tail
	}
	if string(had) == want {
		return
	}
	if !*update {
		t.Fatal("the page is stale: go test ./internal/conformance -update")
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func parameterTable() string {
	var b strings.Builder
	b.WriteString("| command | parameter | here it |\n|---|---|---|\n")
	last := ""
	for _, d := range parameterDeviations {
		line := fmt.Sprintf("| %s | `%s` | %s |\n", d.command, d.param, d.here)
		if line != last {
			b.WriteString(line)
		}
		last = line
	}
	return b.String()
}

func exampleTable() string {
	var b strings.Builder
	b.WriteString("| section | answer here | because |\n|---|---|---|\n")
	for _, e := range exchanges {
		if e.here != "" {
			fmt.Fprintf(&b, "| %s | %d, `%s` | %s |\n", e.name, e.status, e.want, e.here)
		}
	}
	return b.String()
}
