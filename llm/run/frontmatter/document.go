// Package frontmatter reads and patches the YAML at the beginning of a
// Markdown file, between two lines of three dashes.
//
// Texts come from models and from editors, so they are bounded before and while they
// are read: in size, depth and nodes, aliases expanded. A patch keeps everything below
// the frontmatter byte for byte, and in the frontmatter the order, comments and quoting
// of unchanged values. Byte order marks and Windows' line endings stay.
package frontmatter

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// The limits of one frontmatter.
const (
	MaxBytes = 256 << 10 // of its YAML
	MaxDepth = 64        // of nested mappings and lists
	MaxNodes = 20_000    // keys, values and items, with all aliases replaced
)

// A Document is a Markdown file with frontmatter.
type Document struct {
	head []byte     // a byte order mark, if there is one, and the first fence
	tail []byte     // the second fence and the body
	body []byte     // the text below the second fence
	crlf bool       // lines of the frontmatter end in \r\n
	root *yaml.Node // a mapping
	top  *yaml.Node // the YAML document, with its comments
}

var bom = []byte("\ufeff")

// Parse reads a file. It fails with E_INVALID_FRONTMATTER when there is no
// frontmatter, or when it is not a mapping that can be read within the limits.
// The document refers to text.
func Parse(text []byte) (*Document, error) {
	d, raw, err := split(text)
	if err != nil {
		return nil, err
	}
	if d.top, err = decode(raw); err != nil {
		return nil, err
	}
	if d.root, err = flatten(d.top); err != nil {
		return nil, err
	}
	return d, nil
}

// Body is the text below the frontmatter.
func (d *Document) Body() []byte { return d.body }

// split finds the fences, and gives the YAML between them with plain line
// ends.
func split(text []byte) (*Document, []byte, error) {
	d := &Document{}
	rest := bytes.TrimPrefix(text, bom)
	first, rest, found := cutLine(rest)
	if !isFence(first) {
		return nil, nil, invalid("the file does not begin with a line of three dashes")
	}
	if !found {
		return nil, nil, invalid("the frontmatter has no end: a second line of three dashes is missing")
	}
	d.head = text[:len(text)-len(rest)]
	d.crlf = bytes.HasSuffix(first, []byte("\r\n"))
	for at := rest; ; {
		line, next, found := cutLine(at)
		if isFence(line) {
			raw := rest[:len(rest)-len(at)]
			d.tail, d.body = at, next
			if len(raw) > MaxBytes {
				return nil, nil, invalid("the frontmatter has more than %d bytes", MaxBytes)
			}
			if !utf8.Valid(raw) {
				return nil, nil, invalid("the frontmatter is not valid UTF-8")
			}
			return d, bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), nil
		}
		if !found {
			return nil, nil, invalid("the frontmatter has no end: a second line of three dashes is missing")
		}
		at = next
	}
}

// cutLine splits off the first line, with its line ending.
func cutLine(text []byte) (line, rest []byte, found bool) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:], true
	}
	return text, nil, false
}

// isFence reports whether a line is three dashes and nothing else.
func isFence(line []byte) bool {
	return string(bytes.TrimRight(line, " \t\r\n")) == "---"
}

// decode reads one YAML document.
func decode(raw []byte) (top *yaml.Node, err error) {
	defer rescue(&err)
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	top = &yaml.Node{}
	err = dec.Decode(top)
	switch {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}, nil
	case err != nil:
		return nil, explain(err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, explain(err)
		}
		return nil, invalid("the frontmatter holds more than one YAML document")
	}
	return top, nil
}

// rescue turns a panic of the YAML library, whose input is untrusted, into an error.
func rescue(err *error) {
	if r := recover(); r != nil {
		*err = fault.Errorf(fault.InvalidFrontmatter, "the frontmatter is not YAML that can be read").With("panic", true)
	}
}

func explain(err error) error {
	return fault.Wrap(fault.InvalidFrontmatter, err, "the frontmatter is not valid YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
}

func invalid(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidFrontmatter, format, args...)
}
