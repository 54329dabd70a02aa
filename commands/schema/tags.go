package schema

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// known are the tags this package understands; tolerated ones belong to
// others. Anything else is a slip of the pen.
var (
	known     = []string{"json", "doc", "len", "each", "range", "enum", "pattern", "default", "type", "short", "text"}
	tolerated = []string{"audit", "yaml"}
)

// tags are the limits written on a field. A node takes those that it
// understands; the rest do not apply.
type tags struct {
	name     string
	optional bool
	omit     omission
	skip     bool
	doc      string
	short    bool

	limits map[string]string
}

// An omission is the rule by which encoding leaves a field out.
type omission uint8

const (
	never omission = iota
	ifEmpty
	ifZero
)

// take returns a limit and removes it.
func (t *tags) take(key string) (string, bool) {
	value, ok := t.limits[key]
	delete(t.limits, key)
	return value, ok
}

// leftover names a limit that nothing took.
func (t *tags) leftover() error {
	for _, key := range known {
		if _, ok := t.limits[key]; ok {
			return fmt.Errorf("the tag %s does not apply here", key)
		}
	}
	return nil
}

// forItems moves the limits that a list or map passes on to its items.
func (t *tags) forItems() *tags {
	items := &tags{limits: map[string]string{}}
	for outer, inner := range map[string]string{"each": "len", "enum": "enum", "pattern": "pattern", "range": "range", "type": "type", "text": "text"} {
		if value, ok := t.take(outer); ok {
			items.limits[inner] = value
		}
	}
	return items
}

func parseTags(f reflect.StructField) (*tags, error) {
	pairs, err := splitTags(string(f.Tag))
	if err != nil {
		return nil, err
	}
	t := &tags{limits: pairs}
	name, hasName := t.take("json")
	t.doc, _ = t.take("doc")
	if short, ok := t.take("short"); ok {
		if t.short, err = strconv.ParseBool(short); err != nil {
			return nil, fmt.Errorf("tag short must be true or false")
		}
	}
	if err := t.parseName(f, name, hasName); err != nil {
		return nil, err
	}
	if _, ok := t.limits["default"]; ok {
		t.optional = true
	}
	return t, nil
}

func (t *tags) parseName(f reflect.StructField, tag string, given bool) error {
	if tag == "-" {
		t.skip = true
		return nil
	}
	options := strings.Split(tag, ",")
	t.name = options[0]
	if t.name == "" && !f.Anonymous {
		return fmt.Errorf("has no json name")
	}
	if given && t.name == "" && len(options) == 1 {
		return fmt.Errorf("has an empty json tag")
	}
	for _, option := range options[1:] {
		switch option {
		case "omitempty":
			t.omit = ifEmpty
		case "omitzero":
			t.omit = ifZero
		default:
			return fmt.Errorf("json option %q is not supported", option)
		}
	}
	t.optional = t.omit != never || f.Type.Kind() == reflect.Pointer
	return nil
}

// splitTags reads key:"value" pairs and refuses what reflect.StructTag would
// silently skip.
func splitTags(tag string) (map[string]string, error) {
	pairs := map[string]string{}
	for tag = strings.TrimSpace(tag); tag != ""; tag = strings.TrimSpace(tag) {
		key, rest, ok := strings.Cut(tag, ":")
		quoted, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			return nil, fmt.Errorf("malformed tag %q", tag)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("malformed tag %q", tag)
		}
		switch {
		case slices.Contains(tolerated, key):
		case !slices.Contains(known, key):
			return nil, fmt.Errorf("unknown tag %q", key)
		default:
			if _, twice := pairs[key]; twice {
				return nil, fmt.Errorf("tag %s is given twice", key)
			}
			pairs[key] = value
		}
		tag = rest[len(quoted):]
	}
	return pairs, nil
}

// bounds are a smallest and a largest length.
type bounds struct{ min, max int }

const unbounded = -1

// len takes a length tag: "1-32", "16", "1-".
func (t *tags) len() (bounds, error) {
	tag, ok := t.take("len")
	if !ok {
		return bounds{0, unbounded}, nil
	}
	low, high, ranged := strings.Cut(tag, "-")
	if !ranged {
		high = low
	}
	b := bounds{0, unbounded}
	var err error
	if b.min, err = strconv.Atoi(low); err != nil {
		return b, fmt.Errorf("tag len:%q must look like 1-32", tag)
	}
	if high != "" {
		if b.max, err = strconv.Atoi(high); err != nil || b.max < b.min {
			return b, fmt.Errorf("tag len:%q must look like 1-32", tag)
		}
	}
	return b, nil
}

// check returns the reason why a length, counted in things, is refused, "" if
// it is not.
func (b bounds) check(n int, thing string) string {
	switch {
	case n >= b.min && (b.max == unbounded || n <= b.max):
		return ""
	case b.max == unbounded:
		return fmt.Sprintf("must have at least %d %s, has %d", b.min, thing, n)
	case b.min == b.max:
		return fmt.Sprintf("must have %d %s, has %d", b.min, thing, n)
	case b.min == 0:
		return fmt.Sprintf("must have at most %d %s, has %d", b.max, thing, n)
	}
	return fmt.Sprintf("must have %d to %d %s, has %d", b.min, b.max, thing, n)
}

// describe adds the bounds to a schema under the names for its type.
func (b bounds) describe(o *object, min, max string) *object {
	if b.min > 0 {
		o.set(min, b.min)
	}
	if b.max != unbounded {
		o.set(max, b.max)
	}
	return o
}

var rangeForm = regexp.MustCompile(`^(-?[0-9.]+)?-(-?[0-9.]+)?$`)

// interval takes a range tag, "1-3600", as the texts of its bounds, "" for none.
func (t *tags) interval() (low, high string, err error) {
	tag, ok := t.take("range")
	if !ok {
		return "", "", nil
	}
	parts := rangeForm.FindStringSubmatch(tag)
	if parts == nil || parts[1] == "" && parts[2] == "" {
		return "", "", fmt.Errorf("tag range:%q must look like 1-3600", tag)
	}
	return parts[1], parts[2], nil
}

// enum takes the values that are allowed, nil for any.
func (t *tags) enum() ([]string, error) {
	tag, ok := t.take("enum")
	if !ok {
		return nil, nil
	}
	values := strings.Split(tag, ",")
	for i, v := range values {
		if v == "" || slices.Contains(values[:i], v) {
			return nil, fmt.Errorf("tag enum:%q has an empty or repeated value", tag)
		}
	}
	return values, nil
}

// text takes the tag that says that people read a string: it returns the check of
// one line or of several, nil without the tag.
func (t *tags) text() (func(string) string, error) {
	tag, ok := t.take("text")
	switch {
	case !ok:
		return nil, nil
	case tag != "line" && tag != "lines":
		return nil, fmt.Errorf("tag text:%q must be line or lines", tag)
	}
	return func(s string) string { return protocol.CheckText(s, tag == "lines") }, nil
}

// pattern takes the expression strings must match, nil for none.
func (t *tags) pattern() (*regexp.Regexp, error) {
	tag, ok := t.take("pattern")
	if !ok {
		return nil, nil
	}
	return regexp.Compile(tag)
}
