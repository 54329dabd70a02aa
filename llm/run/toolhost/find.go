package toolhost

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// A finder finds lines that match a pattern.
type finder struct {
	text []byte         // a plain text, or
	re   *regexp.Regexp // a regular expression
	need literal        // part of every match of the expression
}

// A literal is a text that every match of an expression contains.
type literal struct {
	text []byte
	fold bool // in any case; the text is in lower case and ASCII
}

// maxPattern is the greatest length of a pattern, in bytes.
const maxPattern = 1000

// newFinder reads a pattern: /expression/flags, or a text.
func newFinder(pattern string) (*finder, error) {
	if len(pattern) > maxPattern {
		return nil, fault.Errorf(fault.SchemaValidation, "the pattern has more than %d bytes", maxPattern)
	}
	expression, flags, ok := expressionOf(pattern)
	if !ok {
		return &finder{text: []byte(pattern)}, nil
	}
	if strings.Contains(flags, "i") {
		expression = "(?i)" + expression
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, fault.Wrap(fault.SchemaValidation, err, "the regular expression is none: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return &finder{re: re, need: needOf(expression)}, nil
}

// needOf returns the longest literal of an expression.
func needOf(expression string) literal {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return literal{}
	}
	return needed(tree.Simplify())
}

func needed(tree *syntax.Regexp) literal {
	switch tree.Op {
	case syntax.OpLiteral:
		text := string(tree.Rune)
		if tree.Flags&syntax.FoldCase == 0 {
			return literal{text: []byte(text)}
		}
		text = strings.ToLower(text)
		// Other letters fold to k and s, and beyond ASCII anything may.
		if strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf || c == 'k' || c == 's' }) {
			text = longest(strings.FieldsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf || c == 'k' || c == 's' }))
		}
		return literal{text: []byte(text), fold: true}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return needed(tree.Sub[0])
		}
	case syntax.OpConcat:
		var best literal
		for _, sub := range tree.Sub {
			if l := needed(sub); len(l.text) > len(best.text) {
				best = l
			}
		}
		return best
	}
	return literal{}
}

func longest(texts []string) string {
	best := ""
	for _, text := range texts {
		if len(text) > len(best) {
			best = text
		}
	}
	return best
}

// possible reports whether a file may hold a match. Scratch is for
// its use.
func (f *finder) possible(text []byte, scratch *[]byte) bool {
	if !f.need.fold || len(f.need.text) == 0 {
		return true
	}
	lower := (*scratch)[:0]
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	*scratch = lower
	return bytes.Contains(lower, f.need.text)
}

// expressionOf splits a pattern in the form of an expression. Flags without an effect
// on single lines are allowed.
func expressionOf(pattern string) (expression, flags string, ok bool) {
	end := strings.LastIndexByte(pattern, '/')
	if end < 2 || pattern[0] != '/' || strings.Trim(pattern[end+1:], "gimsuy") != "" {
		return "", "", false
	}
	return pattern[1:end], pattern[end+1:], true
}

// next finds the first matching line from at on, the beginning of a line. It returns
// the line, text[from:to], and the offset of the match in it, in bytes.
func (f *finder) next(text []byte, at int) (from, to, column int, ok bool) {
	if f.re == nil {
		i := bytes.Index(text[at:], f.text)
		if i < 0 {
			return 0, 0, 0, false
		}
		from = bytes.LastIndexByte(text[:at+i], '\n') + 1
		return from, lineEnd(text, at+i), at + i - from, true
	}
	for from = at; from < len(text); from = to + 1 {
		if !f.need.fold && len(f.need.text) > 0 {
			i := bytes.Index(text[from:], f.need.text)
			if i < 0 {
				return 0, 0, 0, false
			}
			from = max(from, bytes.LastIndexByte(text[:from+i], '\n')+1)
		}
		to = lineEnd(text, from)
		if where := f.re.FindIndex(bytes.TrimSuffix(text[from:to], []byte("\r"))); where != nil {
			return from, to, where[0], true
		}
	}
	return 0, 0, 0, false
}

// A glob selects the files to search. * and ? match within a name, ** any number of
// folders. A glob without a slash matches the name alone.
type glob struct {
	root  string // its mount, "" for any
	re    *regexp.Regexp
	named bool // matches names instead of paths
}

// maxGlob is the greatest length of a glob, in bytes.
const maxGlob = 300

func newGlob(text string) (glob, error) {
	g := glob{}
	rest := strings.TrimPrefix(text, "./")
	if strings.HasPrefix(text, "@") {
		g.root, rest, _ = strings.Cut(text, "/")
		if rest == "" {
			rest = "**"
		}
	}
	if rest == "" || len(text) > maxGlob {
		return g, fault.Errorf(fault.SchemaValidation, "%.50q is no glob", text)
	}
	g.named = g.root == "" && !strings.Contains(rest, "/")
	re, err := regexp.Compile(`\A` + globExpression(rest) + `\z`)
	if err != nil {
		return g, fault.Errorf(fault.SchemaValidation, "%.50q is no glob", text)
	}
	g.re = re
	return g, nil
}

// globExpression is the regular expression of a glob.
func globExpression(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], "**/"):
			b.WriteString(`(?:[^/]+/)*`)
			i += 2
		case strings.HasPrefix(text[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '{':
			b.WriteString(`(?:`)
		case c == '}':
			b.WriteString(`)`)
		case c == ',' && strings.LastIndexByte(text[:i], '{') > strings.LastIndexByte(text[:i], '}'):
			b.WriteString(`|`)
		default:
			b.WriteString(regexp.QuoteMeta(text[i : i+1]))
		}
	}
	return b.String()
}

// mount is the mount to search without a path.
func (g glob) mount() string {
	if g.root == "" {
		return "@project"
	}
	return g.root
}

func (g glob) matches(location mount.Location, file string) bool {
	if g.root != "" && g.root != "@"+string(location.Mount) {
		return false
	}
	if g.named {
		file = file[strings.LastIndexByte(file, '/')+1:]
	}
	return g.re.MatchString(file)
}
