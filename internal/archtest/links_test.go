package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// mention is a page of docs as code and settings name it.
	mention = regexp.MustCompile(`(?:^|[^/\w])docs/([A-Za-z0-9._/-]*?\.md)(?:#([A-Za-z0-9_-]+))?`)
	section = regexp.MustCompile(`\bPROTOCOL(\.md)?,? +§|\b[Ss]ource('s)?,? +§`)
)

// TestLinksLeadSomewhere follows every link of a page to a file of this
// repository, and every page that any file names, with its anchor.
func TestLinksLeadSomewhere(t *testing.T) {
	texts := textFiles(t)
	anchors := make(map[string][]string)
	for name, text := range texts {
		if strings.HasSuffix(name, ".md") {
			anchors[name] = anchorsOf(text)
		}
	}
	found := 0
	check := func(from, target, anchor string) {
		found++
		if strings.HasSuffix(target, ".md") {
			list, ok := anchors[target]
			switch {
			case !ok:
				t.Errorf("%s: there is no page %s", from, target)
			case anchor != "" && !slices.Contains(list, anchor):
				t.Errorf("%s: %s has no heading for #%s", from, target, anchor)
			}
			return
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
			t.Errorf("%s: there is no %s", from, target)
		}
	}
	for name, text := range texts {
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if strings.HasSuffix(name, "_test.go") && m[2] == "" {
				continue // made up for the test
			}
			check(name, "docs/"+m[1], m[2])
		}
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			switch {
			case strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:"):
			case target == "":
				check(name, name, anchor)
			default:
				check(name, path.Join(path.Dir(name), target), anchor)
			}
		}
	}
	if found < 200 {
		t.Errorf("found only %d links", found)
	}
}

// TestNoReferenceNeedsAnotherDocument has references name a heading of docs:
// nobody can look up a section of a document that is not in the repository.
func TestNoReferenceNeedsAnotherDocument(t *testing.T) {
	for name, text := range textFiles(t) {
		joined := strings.NewReplacer("\n// ", " ", "\n\t// ", " ").Replace(text)
		if ref := section.FindString(joined); ref != "" && name != "internal/archtest/links_test.go" {
			t.Errorf("%s refers to %q: name a heading of docs/, such as docs/protocol.md#topics", name, ref)
		}
	}
}

func TestAnchorsAreThoseOfTheRenderer(t *testing.T) {
	page := "# An agent's side of a call\n```sh\n# no heading\n```\n## `--dev`\n## Codes\n### Codes\n## Topics that begin with $\n"
	want := []string{"an-agents-side-of-a-call", "--dev", "codes", "codes-1", "topics-that-begin-with-"}
	if got := anchorsOf(page); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// anchorsOf are the anchors that GitHub gives the headings of a page.
func anchorsOf(page string) []string {
	var anchors []string
	seen := make(map[string]int)
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		m := heading.FindStringSubmatch(line)
		if fenced || m == nil {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		n := seen[anchor]
		seen[anchor]++
		if n > 0 {
			anchor += "-" + strconv.Itoa(n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

var root = filepath.Join("..", "..")

// textFiles are the files that people write, by path from the module's root.
func textFiles(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != root && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !written(d.Name()):
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		texts[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// written reports whether a file is one that people write and read.
func written(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".md", ".cedar", ".yaml", ".yml", ".sh", ".service":
		return true
	}
	return name == "Makefile"
}
