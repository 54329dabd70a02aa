package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A statement is one thing that the document says, in words of our own: a row
// of a table, an item of a list, a step, a sentence, or what an example shows.
type statement struct {
	section string // number
	title   string // of the section
	number  int    // in the section, from 1
	text    string
	stands  standing
	proof   []string // what shows it: a test, "conversation NAME", "parameter COMMAND NAME", "example NAME"
	reason  string   // of a deviation, or why it is no demand on a bridge
}

func (s *statement) id() string { return fmt.Sprintf("%s-%d", s.section, s.number) }

// A standing is how the bridge stands to a statement.
type standing string

const (
	held         standing = "held"
	deviates     standing = "deviates"
	notNormative standing = "not normative" // demands nothing of a bridge
)

// statementFiles have the statements of the document in its order:
//
//	# SECTION TITLE
//	STANDING | TEXT | PROOF, PROOF … | REASON
var statementFiles = []string{"testdata/01-05.txt", "testdata/06-16.txt", "testdata/17.txt"}

// counts are the statements of every section of the document that has any. A
// section that is forgotten, or a statement of it, is found by them.
const counts = `1:3 1.1:4 2.1:3 2.2:4 3:2 3.1.1:1 3.1.2:1 3.1.3:1 3.1.4:1 3.2:3 4.1:3 4.2:7 4.3:10
5.1:10 5.1.1:2 5.1.2:3 5.1.3:3 5.1.4:1 5.1.5:2 5.1.6:1 5.2:3 5.2.1:6 5.2.2:3 5.2.3:1 5.3:4 5.3.1:14 5.3.2:2 5.3.3:2 5.3.4:1
5.4:6 5.4.1:4 5.4.2:3 5.4.3:5 5.4.4:4 5.4.5:5 5.4.6:3 5.5:3 5.5.1:2 5.5.2:1 5.5.3:1 5.6:4
6.1:9 6.2:9 6.3:8 6.4:9 7.1:7 7.2:3 7.3:4 7.4:7 7.5:7 8.1:3 8.2:5 9.1:2 9.2:3 10.1:4 10.2:2 11.1:5 11.2:2 12.1:3 12.2:3
13.1:4 13.2:2 14.1:4 14.2:3 15.1:5 15.2:4 16.1:4 16.2:5 16.3.1:6 16.3.2:6 16.3.3:6 16.4.1:1 16.5:3 16.6:5
17.1:2 17.1.1:5 17.1.2:4 17.2.1.1:9 17.2.1.2:4 17.2.1.3:8 17.2.2.1:5 17.2.2.2:5 17.3.1:5 17.3.2:4 17.3.3:10 17.4.1:1 17.4.2:1
17.5.1:4 17.5.2:4 17.5.3:4 17.6.1.1:4 17.6.1.2:3 17.6.1.3:6 17.6.2.1:4 17.6.2.2:2 17.6.2.3:4 17.6.3.1:4 17.6.3.2:3 17.6.4.1:2 17.6.4.2:8
17.7.1.1:1 17.7.1.2:2 17.7.2:5 17.8.1:3 17.8.2:3 17.8.3:3 17.9.1:3 17.9.2:3 17.9.3:3 17.10.1:5 17.10.2:3 17.10.3:4 17.11:12`

var heading = regexp.MustCompile(`^# ([0-9.]+) (.+)$`)

// statements reads them all, once.
var statements = sync.OnceValues(func() ([]statement, error) {
	var all []statement
	for _, file := range statementFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var section, title string
		number := 0
		for i, line := range strings.Split(string(text), "\n") {
			if m := heading.FindStringSubmatch(line); m != nil {
				section, title, number = m[1], m[2], 0
				continue
			}
			if line == "" {
				continue
			}
			number++
			s := statement{section: section, title: title, number: number}
			if err := s.read(line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
})

// read takes a line apart.
func (s *statement) read(line string) error {
	cells := strings.Split(line, " | ")
	s.stands = standing(cells[0])
	wanted := map[standing]int{held: 3, deviates: 4, notNormative: 3}[s.stands]
	if s.section == "" || len(cells) != wanted || slices.Contains(cells, "") {
		return fmt.Errorf("no statement: %q", line)
	}
	s.text = cells[1]
	if s.stands != notNormative {
		s.proof = proofs(cells[2])
	}
	if s.stands != held {
		s.reason = cells[len(cells)-1]
	}
	return nil
}

// proofs takes a list apart. Names of examples have commas of their own.
func proofs(list string) []string {
	var all []string
	for _, p := range strings.Split(list, ", ") {
		begins := strings.HasPrefix(p, "Test") || strings.HasPrefix(p, "conversation ") || strings.HasPrefix(p, "parameter ") || strings.HasPrefix(p, "example ")
		if !begins && len(all) > 0 {
			all[len(all)-1] += ", " + p
			continue
		}
		all = append(all, p)
	}
	return all
}

func readStatements(t *testing.T) []statement {
	t.Helper()
	all, err := statements()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNoStatementIsForgotten counts the statements of every section.
func TestNoStatementIsForgotten(t *testing.T) {
	t.Parallel()
	want, got, order := map[string]int{}, map[string]int{}, []string(nil)
	for _, f := range strings.Fields(counts) {
		var n int
		section, count, _ := strings.Cut(f, ":")
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatal(f, err)
		}
		want[section] = n
		order = append(order, section)
	}
	var met []string
	for _, s := range readStatements(t) {
		if got[s.section]++; got[s.section] == 1 {
			met = append(met, s.section)
		}
	}
	if !slices.Equal(met, order) {
		t.Errorf("sections\n%v, want\n%v", met, order)
	}
	for _, section := range order {
		if got[section] != want[section] {
			t.Errorf("section %s has %d statements, want %d", section, got[section], want[section])
		}
	}
}

// TestEveryStatementHasItsProof looks up the proofs that statements name, and
// that every parameter, example and conversation is a statement's. Statements
// about parameters and examples say whether they deviate, as their lists do.
func TestEveryStatementHasItsProof(t *testing.T) {
	t.Parallel()
	tests := testsOfTheModule(t)
	used := make(map[string]bool)
	for _, s := range readStatements(t) {
		for _, p := range s.proof {
			used[p] = true
			kind, name, _ := strings.Cut(p, " ")
			switch kind {
			case "conversation":
				if conversations[name] == nil {
					t.Errorf("%s: there is no conversation %q", s.id(), name)
				}
			case "parameter":
				checkParameter(t, &s, name)
			case "example":
				checkExample(t, &s, name)
			default:
				if !tests[p] {
					t.Errorf("%s: there is no %s", s.id(), p)
				}
			}
		}
	}
	for name := range conversations {
		if !used["conversation "+name] {
			t.Errorf("no statement names the conversation %q", name)
		}
	}
	for _, r := range rows {
		if p := "parameter " + r.command + " " + r.param; !used[p] {
			t.Errorf("no statement names the %s", p)
		}
	}
}

// checkParameter finds the parameter that a statement of section 5 is about.
func checkParameter(t *testing.T, s *statement, name string) {
	t.Helper()
	i := slices.IndexFunc(rows, func(r row) bool { return r.command+" "+r.param == name })
	if i < 0 {
		t.Errorf("%s: no parameter %s", s.id(), name)
		return
	}
	other := slices.ContainsFunc(parameterDeviations, func(d parameterDeviation) bool { return d.command+" "+d.param == name })
	if strings.HasPrefix(s.section, "5.") && other != (s.stands == deviates) {
		t.Errorf("%s is %s, and the bridge's %s is taken otherwise: %v", s.id(), s.stands, name, other)
	}
}

// checkExample finds the exchange that a statement is about.
func checkExample(t *testing.T, s *statement, name string) {
	t.Helper()
	i := slices.IndexFunc(exchanges, func(e exchange) bool { return e.name == name })
	if i < 0 {
		t.Errorf("%s: no example %q", s.id(), name)
		return
	}
	if strings.HasPrefix(name, s.section+",") && (exchanges[i].here != "") != (s.stands == deviates) {
		t.Errorf("%s is %s, and the answer to %s is another here: %q", s.id(), s.stands, name, exchanges[i].here)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsOfTheModule has the names of all tests.
func testsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
