package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page anew")

// page is for those who come from a client of the document, fullPage has every
// statement.
const (
	page     = "../../docs/coming-from-0.6.3.md"
	fullPage = "../../docs/protocol-conformance.md"
)

// TestThePagesAreMadeOfTheLists holds the tables of the pages against the lists
// of this package.
func TestThePagesAreMadeOfTheLists(t *testing.T) {
	t.Parallel()
	all := readStatements(t)
	fill(t, page, map[string]string{"parameters": parameterTable(), "examples": exampleTable(), "otherwise": deviationTable(all), "counts": countTable(all)})
	fill(t, fullPage, map[string]string{"statements": statementTable(all), "counts": countTable(all)})
}

// fill puts tables into their places on a page, or says that it has others.
func fill(t *testing.T, page string, tables map[string]string) {
	t.Helper()
	had, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(had)
	for name, table := range tables {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for the table of %s", page, name)
		}
		want = head + begin + table + end + tail
	}
	if string(had) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: go test ./internal/conformance -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// deviationTable has the deviations besides those of parameters and examples,
// which have tables of their own.
func deviationTable(all []statement) string {
	var b strings.Builder
	b.WriteString("| section | the document | here |\n|---|---|---|\n")
	for _, s := range all {
		own := slices.ContainsFunc(s.proof, func(p string) bool {
			kind, name, _ := strings.Cut(p, " ")
			return kind == "parameter" && strings.HasPrefix(s.section, "5.") || kind == "example" && strings.HasPrefix(name, s.section+",")
		})
		if s.stands == deviates && !own {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.section, s.text, s.reason)
		}
	}
	return b.String()
}

// countTable counts statements by the chapter.
func countTable(all []statement) string {
	var b strings.Builder
	b.WriteString("| chapter | statements | held | held otherwise, on purpose | demand nothing of a bridge |\n|---|---|---|---|---|\n")
	counts := make(map[string]map[standing]int)
	var chapters []string
	for _, s := range all {
		chapter, _, _ := strings.Cut(s.section, ".")
		if counts[chapter] == nil {
			counts[chapter] = make(map[standing]int)
			chapters = append(chapters, chapter)
		}
		counts[chapter][s.stands]++
	}
	sum := make(map[standing]int)
	line := func(name string, c map[standing]int) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, c[held]+c[deviates]+c[notNormative], c[held], c[deviates], c[notNormative])
	}
	for _, chapter := range chapters {
		for standing, n := range counts[chapter] {
			sum[standing] += n
		}
		line(chapter, counts[chapter])
	}
	line("all", sum)
	return b.String()
}

func statementTable(all []statement) string {
	var b strings.Builder
	section := ""
	for _, s := range all {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "\n**%s %s**\n\n| | statement | | shown by |\n|---|---|---|---|\n", s.section, s.title)
		}
		stands := string(s.stands)
		if s.reason != "" {
			stands += ": " + s.reason
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", s.number, s.text, stands, strings.Join(s.proof, ", "))
	}
	return b.String() + "\n"
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
