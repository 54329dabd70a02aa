package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPatterns bounds the programs of all regular expressions of a schema
// together, in instructions. (a{100}){10} is eleven characters of text and a
// thousand instructions.
const maxPatterns = 20_000

// A pattern is a regular expression of a schema.
type pattern struct {
	*regexp.Regexp
	weight int
}

// patterns compiles the regular expressions of one schema within a budget.
type patterns struct {
	seen map[string]*pattern
	left int
}

func newPatterns() *patterns {
	return &patterns{seen: make(map[string]*pattern), left: maxPatterns}
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known, ok := p.seen[text]; ok {
		return known, nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := instructions(parsed)
	if size > p.left {
		return nil, fmt.Errorf("the regular expressions of the schema are too large")
	}
	p.left -= size
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	made := &pattern{Regexp: compiled, weight: size/8 + 1}
	p.seen[text] = made
	return made, nil
}

// instructions estimates the size of the program of an expression, with
// repetitions written out. It saturates.
func instructions(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxPatterns+1)
}

func weightOf(re jsonschema.Regexp) int {
	if p, ok := re.(*pattern); ok {
		return p.weight
	}
	return 1
}
