package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/protocol"
)

// decoder walks the YAML tree of one file and gathers its faults, so that an author sees
// ten mistakes at once and not one after the other.
type decoder struct {
	file     string
	problems []error
	warnings []*Problem // oddities that need be no mistake; at most maxProblems
	more     int        // problems beyond maxProblems
}

// field is a value in the tree and the path that leads to it.
type field struct {
	path  string
	value *yaml.Node
	line  int // of the key when there is one, so that a missing value is found too
}

func (d *decoder) fail(f *field, format string, args ...any) {
	if f == nil {
		return
	}
	d.problem(f.line, f.path, fmt.Sprintf(format, args...))
}

func (d *decoder) warn(f *field, reason string) {
	if len(d.warnings) < maxProblems {
		d.warnings = append(d.warnings, &Problem{File: d.file, Line: f.line, Path: f.path, Reason: reason})
	}
}

func (d *decoder) problem(line int, path, reason string) {
	if len(d.problems) == maxProblems {
		d.more++
		return
	}
	d.problems = append(d.problems, &Problem{File: d.file, Line: line, Path: path, Reason: reason})
}

func (d *decoder) err() error {
	if d.more > 0 {
		return errors.Join(append(d.problems, fmt.Errorf("%s: and %d more problems", d.file, d.more))...)
	}
	return errors.Join(d.problems...)
}

// document parses the text into a tree of plain mappings, lists and scalars,
// or returns nil having said why not.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > MaxManifest {
		d.problem(0, "", fmt.Sprintf("is larger than %d KiB", MaxManifest>>10))
		return nil
	}
	if !utf8.Valid(data) {
		d.problem(0, "", "is not valid UTF-8")
		return nil
	}
	parser := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := parser.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.problem(0, "", "is empty")
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := parser.Decode(&next); {
	case err == nil:
		d.problem(next.Line, "", "has more than one YAML document")
	case !errors.Is(err, io.EOF):
		d.syntax(err)
	}
	nodes := 0
	if d.plain(&doc, 0, &nodes); len(d.problems) > 0 || len(doc.Content) != 1 {
		return nil
	}
	return doc.Content[0]
}

// syntax reports the parser's error, which reads "yaml: line 3: did not find…".
func (d *decoder) syntax(err error) {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(reason, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, reason = n, text
			}
		}
	}
	d.problem(line, "", "is not YAML: "+reason)
}

// plain refuses features of YAML that a manifest does not need and that are
// dangerous: anchors and aliases, merge keys, tags of one's own, duplicate or
// composed keys, great depth and great number.
func (d *decoder) plain(n *yaml.Node, depth int, nodes *int) bool {
	*nodes++
	switch {
	case *nodes > maxNodes:
		d.problem(n.Line, "", fmt.Sprintf("has more than %d values", maxNodes))
		return false
	case depth > maxDepth:
		d.problem(n.Line, "", fmt.Sprintf("is nested more than %d levels deep", maxDepth))
		return false
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.problem(n.Line, "", "uses an anchor or alias; write the value out")
		return false
	case n.Kind != yaml.DocumentNode && !standardTag(n):
		d.problem(n.Line, "", "uses the tag "+n.Tag+", which has no meaning here")
		return false
	}
	if n.Kind == yaml.MappingNode && !d.plainKeys(n) {
		return false
	}
	for _, child := range n.Content {
		if !d.plain(child, depth+1, nodes) {
			return false
		}
	}
	return true
}

func standardTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null":
		return true
	case "!!timestamp": // an unquoted date is text to us
		return n.Style&yaml.TaggedStyle == 0
	}
	return false
}

func (d *decoder) plainKeys(n *yaml.Node) bool {
	first := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			d.problem(key.Line, "", "uses a merge key (<<); write the fields out")
			return false
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			d.problem(key.Line, "", fmt.Sprintf("a field's name must be text; quote it: %q", key.Value))
			return false
		}
		if line, twice := first[key.Value]; twice {
			d.problem(key.Line, "", fmt.Sprintf("the field %q is already there in line %d", key.Value, line))
			return false
		}
		first[key.Value] = key.Line
	}
	return true
}

// mapping is a YAML mapping whose fields are looked up by name.
type mapping struct {
	d     *decoder
	path  string
	line  int
	named map[string]*field
}

// fields reads a mapping that may have the named fields and those that begin
// with "x-", which are for other programs.
func (d *decoder) fields(n *yaml.Node, path string, known ...string) *mapping {
	if n.Kind != yaml.MappingNode {
		d.problem(n.Line, path, "must be a mapping, not "+kindOf(n))
		return nil
	}
	m := &mapping{d: d, path: path, line: n.Line, named: make(map[string]*field, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f := &field{path: join(path, key.Value), value: value, line: key.Line}
		switch {
		case slices.Contains(known, key.Value):
			m.named[key.Value] = f
		case !strings.HasPrefix(key.Value, "x-"):
			d.fail(f, "unknown field%s", didYouMean(key.Value, known))
		}
	}
	return m
}

// optional returns the field, or nil when it is absent or null.
func (m *mapping) optional(name string) *field {
	f := m.named[name]
	if f == nil || f.value.ShortTag() == "!!null" {
		return nil
	}
	return f
}

// required returns the field, or nil having said that it is missing.
func (m *mapping) required(name string) *field {
	f := m.optional(name)
	if f == nil {
		m.d.problem(m.line, join(m.path, name), "is missing")
	}
	return f
}

func (d *decoder) list(f *field, least, most int) []*field {
	if f == nil {
		return nil
	}
	if f.value.Kind != yaml.SequenceNode {
		d.fail(f, "must be a list, not %s", kindOf(f.value))
		return nil
	}
	if n := len(f.value.Content); n < least || n > most {
		d.fail(f, "must have %d to %d items, has %d", least, most, n)
		return nil
	}
	items := make([]*field, len(f.value.Content))
	for i, n := range f.value.Content {
		items[i] = &field{path: fmt.Sprintf("%s[%d]", f.path, i), value: n, line: n.Line}
	}
	return items
}

// text reads a string of least to most characters; absent is "".
func (d *decoder) text(f *field, least, most int) string {
	if f == nil {
		return ""
	}
	n := f.value
	switch {
	case n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!str" || n.ShortTag() == "!!timestamp"):
	case n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null":
		d.fail(f, "must be text, not %s; quote it: %q", kindOf(n), n.Value)
		return ""
	default:
		d.fail(f, "must be text, not %s", kindOf(n))
		return ""
	}
	if count := utf8.RuneCountInString(n.Value); count < least || count > most {
		d.fail(f, "must have %d to %d characters, has %d", least, most, count)
		return ""
	}
	if strings.ContainsFunc(n.Value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		d.fail(f, "may not contain control characters")
		return ""
	}
	return n.Value
}

func (d *decoder) identifier(f *field, rule protocol.Rule) string {
	if f == nil {
		return ""
	}
	s := d.text(f, 0, MaxManifest)
	if s == "" && f.value.Value != "" {
		return "" // already reported
	}
	if reason := rule.Check(s); reason != "" {
		d.fail(f, "%s", reason)
		return ""
	}
	return s
}

func (d *decoder) enum(f *field, choices ...string) string {
	s := d.text(f, 1, 64)
	if s != "" && !slices.Contains(choices, s) {
		d.fail(f, "must be %s, not %q", strings.Join(choices, " or "), s)
	}
	return s
}

func (d *decoder) constant(f *field, want string) {
	if s := d.text(f, 1, 64); s != "" && s != want {
		d.fail(f, "must be %q, not %q", want, s)
	}
}

func (d *decoder) boolean(f *field) bool {
	if f == nil {
		return false
	}
	if f.value.Kind != yaml.ScalarNode || f.value.ShortTag() != "!!bool" {
		d.fail(f, "must be true or false")
		return false
	}
	return strings.EqualFold(f.value.Value, "true")
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "true or false"
		case "!!null":
			return "nothing"
		}
		return "text"
	default: // neither is left, see plain
		return "nothing"
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// didYouMean is `, did you mean "x"?` for the nearest known name, or "".
func didYouMean(name string, known []string) string {
	nearest, least := "", 3
	for _, k := range known {
		if n := distance(strings.ToLower(name), strings.ToLower(k)); n < least && n < len(k) {
			nearest, least = k, n
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", nearest)
}

// distance counts the edits between two names; long ones are not compared.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := above
			if a[i] != b[j] {
				cost++
			}
			above = row[j+1]
			row[j+1] = min(cost, above+1, row[j]+1)
		}
	}
	return row[len(b)]
}
