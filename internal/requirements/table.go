// Package requirements holds tests to the requirements of a specification: a page
// says which test holds which one, and one without a test is a failure. Tests name
// their requirements themselves, in comments above them such as "// [A2A-3.1.1-1]".
package requirements

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Table are the requirements of one specification.
type Table struct {
	Tag  string      // before the ids in comments and on the page: "A2A"
	Rows [][2]string // id, such as "3.1.1-1", and the requirement in words of our own
	// Tests are patterns of the files whose tests hold them, relative to the package
	// of the caller.
	Tests []string
	Page  string // path of the page, as Tests
	Head  string // all of the page before the table
}

var declared = regexp.MustCompile(`^func (Test\w+)\(`)

// Check fails for every requirement without a test and every test of a requirement
// that the table does not have, and where the page differs. With update it writes
// the page.
func (x Table) Check(t *testing.T, update bool) {
	t.Helper()
	held := x.held(t)
	var page strings.Builder
	page.WriteString(x.Head + "\n\n| requirement | | tests |\n|---|---|---|\n")
	for _, row := range x.Rows {
		id, words := row[0], row[1]
		if len(held[id]) == 0 {
			t.Errorf("%s-%s has no test: %s", x.Tag, id, words)
		}
		fmt.Fprintf(&page, "| %s-%s | %s | %s |\n", x.Tag, id, words, strings.Join(held[id], ", "))
		delete(held, id)
	}
	for id, tests := range held {
		t.Errorf("%q hold %s-%s, which is no requirement here", tests, x.Tag, id)
	}
	if update {
		if err := os.WriteFile(x.Page, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(x.Page); err != nil || string(got) != page.String() {
		t.Errorf("%s is not up to date: run with -update (%v)", x.Page, err)
	}
}

// held are the names of the tests by the ids that the comments above them name.
func (x Table) held(t *testing.T) map[string][]string {
	t.Helper()
	tag := regexp.MustCompile(`\[` + x.Tag + `-([a-z0-9.]+-\d+)\]`)
	held := make(map[string][]string)
	for _, path := range x.files(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var named []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "// ["+x.Tag+"-") {
				for _, id := range tag.FindAllStringSubmatch(line, -1) {
					named = append(named, id[1])
				}
			}
			test := declared.FindStringSubmatch(line)
			if test == nil {
				continue
			}
			for _, id := range named {
				if !slices.Contains(held[id], test[1]) {
					held[id] = append(held[id], test[1])
				}
			}
			named = nil
		}
	}
	return held
}

func (x Table) files(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range x.Tests {
		found, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no files are %s (%v)", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}
