package toolhost

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
)

type searchArgs struct {
	Path       string   `json:"path"`
	Pattern    string   `json:"pattern"`
	Query      string   `json:"query"`
	Globs      []string `json:"globs"`
	Before     *int64   `json:"before"`
	After      *int64   `json:"after"`
	MaxMatches *int64   `json:"maxMatches"`
}

// SearchResult is the result of fs.search.
type SearchResult struct {
	OK        bool    `json:"ok"`
	Matches   []Match `json:"matches"`
	Truncated bool    `json:"truncated,omitempty"` // there is, or may be, more
	Stats     Stats   `json:"stats"`
}

// A Match is a found line. A line with several matches is listed once.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`   // from 1
	Column int      `json:"column"` // characters, from 1
	Text   string   `json:"text"`   // the line
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Stats are the counts of a search.
type Stats struct {
	FilesScanned int `json:"filesScanned"`
	MatchesFound int `json:"matchesFound"`
}

// The limits of a search.
const (
	maxMatches  = 50
	maxContext  = 10       // lines on each side
	maxLine     = 1000     // shown bytes of a line
	maxSearched = 16 << 20 // searched bytes of a file
	maxGlobs    = 20
)

func (b *bounded) searchTool() *tools.Tool {
	return tool("fs.search", "Search files",
		"Find lines in the text files below a folder, or in one file. The pattern is a text, or /a regular expression/ with i behind it to ignore case. Hidden files and node_modules are left out.",
		commands.Read, []tools.Parameter{
			text("path", "Folder or file to search, such as @project/docs; @project if left out.", false),
			text("pattern", "What to find in a line.", false),
			text("query", "Another name for pattern.", false),
			{Name: "globs", Kind: tools.String, Cardinality: tools.List, CaseSensitive: true, Description: "Only files like these, such as **/*.md or @project/docs/*."},
			number("before", "Lines to show before a match, 1 if left out."),
			number("after", "Lines to show after a match, 1 if left out."),
			number("maxMatches", "How many matches to give, 50 at most."),
		}, b.search)
}

func (b *bounded) search(ctx context.Context, a searchArgs) (any, error) {
	s, locations, err := b.newSearch(&a)
	if err != nil {
		return nil, err
	}
	for _, location := range locations {
		if err := s.walk(ctx, location); err != nil {
			return nil, err
		}
	}
	return s.result, ctx.Err()
}

// newSearch reads the arguments.
func (b *bounded) newSearch(a *searchArgs) (*search, []mount.Location, error) {
	if a.Pattern == "" {
		a.Pattern = a.Query
	}
	if a.Pattern == "" {
		return nil, nil, fault.Errorf(fault.SchemaValidation, "pattern is missing: what is to be found?")
	}
	finder, err := newFinder(a.Pattern)
	if err != nil {
		return nil, nil, err
	}
	s := &search{
		finder: finder, result: SearchResult{OK: true, Matches: []Match{}}, room: b.read,
		before: clamp(a.Before, 1, 0, maxContext), after: clamp(a.After, 1, 0, maxContext), max: clamp(a.MaxMatches, maxMatches, 1, maxMatches),
	}
	roots, err := s.setGlobs(a.Globs)
	if err != nil {
		return nil, nil, err
	}
	if a.Path != "" {
		roots = []string{a.Path}
	}
	var locations []mount.Location
	for _, root := range roots {
		location, err := b.opts.Mounts.Resolve(root)
		if err != nil {
			return nil, nil, err
		}
		locations = append(locations, location)
	}
	return s, locations, nil
}

// clamp is the wanted number, within bounds.
func clamp(asked *int64, otherwise, low, high int) int {
	if asked == nil {
		return otherwise
	}
	return int(min(max(*asked, int64(low)), int64(high)))
}

// A search searches files until it has found enough.
type search struct {
	finder        *finder
	globs         []glob
	before, after int
	max           int
	room          int64 // remaining bytes of the result
	buf, scratch  []byte
	result        SearchResult
	done          bool
}

// setGlobs parses the globs, and returns their mounts.
func (s *search) setGlobs(globs []string) (roots []string, err error) {
	if len(globs) > maxGlobs {
		return nil, fault.Errorf(fault.SchemaValidation, "there are more than %d globs", maxGlobs)
	}
	seen := make(map[string]bool)
	for _, text := range globs {
		g, err := newGlob(text)
		if err != nil {
			return nil, err
		}
		s.globs = append(s.globs, g)
		if root := g.mount(); !seen[root] {
			seen[root] = true
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		roots = []string{"@project"}
	}
	return roots, nil
}

func (s *search) wants(location mount.Location, file string) bool {
	if len(s.globs) == 0 {
		return true
	}
	for _, g := range s.globs {
		if g.matches(location, file) {
			return true
		}
	}
	return false
}

func (s *search) walk(ctx context.Context, location mount.Location) error {
	if s.done {
		return nil
	}
	enter := func(dir string) bool {
		name := path.Base(dir)
		return !hidden(name) && name != "node_modules"
	}
	err := location.Walk(ctx, location.Path, enter, func(e mount.Entry) bool {
		if hidden(path.Base(e.Path)) && e.Path != location.Path || !s.wants(location, e.Path) {
			return true
		}
		text, err := e.Read(ctx, s.buf, maxSearched)
		if err != nil {
			return true // removed meanwhile, or not readable
		}
		s.buf = text[:0]
		s.result.Stats.FilesScanned++
		if len(text) == maxSearched {
			s.result.Truncated = true
		}
		s.file(location.Below(e.Path), text)
		return !s.done
	})
	return err
}

// file searches a file.
func (s *search) file(name string, text []byte) {
	if bytes.IndexByte(text[:min(len(text), sniffed)], 0) >= 0 {
		return // no text
	}
	if !s.finder.possible(text, &s.scratch) {
		return
	}
	line, counted := 1, 0 // number of the line that begins at counted
	for at := 0; at < len(text) && !s.done; {
		from, to, column, ok := s.finder.next(text, at)
		if !ok {
			return
		}
		line += bytes.Count(text[counted:from], newline)
		counted = from
		s.add(name, text, from, to, line, column)
		at = to + 1
	}
}

var newline = []byte("\n")

// add records the match in text[from:to], the line without its line ending.
func (s *search) add(name string, text []byte, from, to, line, column int) {
	m := Match{Path: name, Line: line, Column: utf8.RuneCount(text[from:from+column]) + 1, Text: show(text[from:to], column)}
	for start := from; len(m.Before) < s.before && start > 0; {
		end := start - 1
		start = bytes.LastIndexByte(text[:end], '\n') + 1
		m.Before = append(m.Before, show(text[start:end], 0))
	}
	reverse(m.Before)
	for start := to + 1; len(m.After) < s.after && start < len(text); {
		end := lineEnd(text, start)
		m.After = append(m.After, show(text[start:end], 0))
		start = end + 1
	}
	size := int64(len(m.Path) + len(m.Text) + 64)
	for _, l := range append(m.Before, m.After...) {
		size += int64(len(l))
	}
	if len(s.result.Matches) == s.max || size > s.room {
		s.result.Truncated, s.done = true, true
		return
	}
	s.room -= size
	s.result.Matches = append(s.result.Matches, m)
	s.result.Stats.MatchesFound++
}

func reverse(lines []string) {
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
}

// lineEnd is the end of the line that begins at start, without its line feed.
func lineEnd(text []byte, start int) int {
	if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
		return start + i
	}
	return len(text)
}

// show is a line for a result; of a long one the part around a column.
func show(line []byte, column int) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxLine {
		return strings.ToValidUTF8(string(line), "\ufffd")
	}
	from := max(0, min(column-maxLine/4, len(line)-maxLine))
	to := min(from+maxLine, len(line))
	for from > 0 && !utf8.RuneStart(line[from]) {
		from++
	}
	for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
		to--
	}
	shown := strings.ToValidUTF8(string(line[from:to]), "\ufffd")
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(line) {
		shown += fmt.Sprintf("… (%d bytes)", len(line))
	}
	return shown
}
