package schema

import (
	"encoding/json"
	"reflect"

	"github.com/aibridge/aibridge/protocol"
)

// A decoder walks over JSON that was checked before. It is safe on any input;
// input that is not JSON it reports without details.
type decoder struct {
	data     []byte
	pos      int
	path     []step
	problems []problem
	halted   bool // nothing more is to be read
	flag     bool // the codec's flag was set
}

func (d *decoder) start(data []byte) {
	*d = decoder{data: data, path: d.path[:0]}
}

func (d *decoder) finish() error {
	if d.peek() != 0 && !d.halted {
		d.broken()
	}
	err := asError(d.problems)
	d.data, d.problems = nil, nil
	return err
}

func (d *decoder) push(name string)    { d.path = append(d.path, step{name: name, index: -1}) }
func (d *decoder) pushIndex(index int) { d.path = append(d.path, step{index: index}) }
func (d *decoder) pop()                { d.path = d.path[:len(d.path)-1] }

// where is the path of the value being read, "params" for all of them.
func (d *decoder) where() string {
	if len(d.path) == 0 {
		return "params"
	}
	return pathOf(d.path)
}

func (d *decoder) report(reason string) { d.add(problem{path: d.where(), reason: reason}) }

// reportIn reports a problem with a member of the value being read.
func (d *decoder) reportIn(name, reason, didYouMean string) {
	d.push(name)
	d.add(problem{path: d.where(), reason: reason, didYouMean: didYouMean})
	d.pop()
}

// reportError reports the error of a method of the value's type.
func (d *decoder) reportError(err error) {
	p := problemOf(pathOf(d.path), err)
	if p.path == "" {
		p.path = "params"
	}
	d.add(p)
}

func (d *decoder) add(p problem) {
	d.problems = append(d.problems, p)
	if len(d.problems) >= maxProblems {
		d.halt()
	}
}

func (d *decoder) broken() {
	if !d.halted {
		d.halt()
		d.problems = append(d.problems, problem{path: d.where(), reason: "is not JSON"})
	}
}

func (d *decoder) halt() { d.halted, d.pos = true, len(d.data) }

// peek skips white space and returns the byte that follows, 0 at the end.
func (d *decoder) peek() byte {
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; c {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return c
		}
	}
	return 0
}

// open enters an object or array, which must be next, and reports whether it
// has a first element.
func (d *decoder) open(closing byte) bool {
	d.pos++
	if d.peek() == closing {
		d.pos++
		return false
	}
	return !d.halted
}

// more steps over the comma after an element, or over the closing bracket.
func (d *decoder) more(closing byte) bool {
	switch d.peek() {
	case ',':
		d.pos++
		return true
	case closing:
		d.pos++
	default:
		d.broken()
	}
	return false
}

// name reads the name of a member and its colon. The bytes are valid until
// the next read.
func (d *decoder) name() []byte {
	if d.peek() != '"' {
		d.broken()
		return nil
	}
	raw, escaped := d.quoted()
	if d.peek() != ':' {
		d.broken()
		return nil
	}
	d.pos++
	if escaped {
		return []byte(unquote(raw))
	}
	return raw[1 : len(raw)-1]
}

// quoted reads a string with its quotes and reports whether it has escapes.
func (d *decoder) quoted() (raw []byte, escaped bool) {
	begin := d.pos
	for i := begin + 1; i < len(d.data); i++ {
		if i += protocol.Plain(d.data[i:]); i == len(d.data) {
			break
		}
		switch d.data[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			d.pos = i + 1
			return d.data[begin:d.pos], escaped
		}
	}
	d.broken()
	return []byte(`""`), false
}

func unquote(raw []byte) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return "" // not JSON; the caller checked it
	}
	return s
}

// raw reads any value and returns its bytes.
func (d *decoder) raw() []byte {
	first := d.peek()
	begin := d.pos
	switch first {
	case '"':
		d.quoted()
	case '{', '[':
		d.skipNested()
	default:
		d.literal()
	}
	if d.halted || begin == d.pos {
		d.broken()
		return nil
	}
	return d.data[begin:d.pos]
}

// skipNested steps over an object or array: all that matters inside are
// strings and brackets.
func (d *decoder) skipNested() {
	for depth := 0; d.pos < len(d.data); {
		switch d.data[d.pos] {
		case '"':
			d.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		d.pos++
		if depth == 0 {
			return
		}
	}
	d.broken()
}

// literal steps over a number, true, false or null.
func (d *decoder) literal() []byte {
	begin := d.pos
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ',', ':', '}', ']', ' ', '\t', '\r', '\n', '"', '{', '[':
			return d.data[begin:d.pos]
		}
		d.pos++
	}
	return d.data[begin:]
}

// kinds of JSON values, named as in messages.
const (
	anObject  = "an object"
	anArray   = "an array"
	aString   = "a string"
	aNumber   = "a number"
	anInteger = "an integer"
	aBoolean  = "true or false"
	aNull     = "null"
)

func kindOf(first byte) string {
	switch first {
	case '{':
		return anObject
	case '[':
		return anArray
	case '"':
		return aString
	case 't', 'f':
		return aBoolean
	case 'n':
		return aNull
	}
	return aNumber
}

// expect reports whether the next value is of a kind; a value of another kind
// is reported and stepped over.
func (d *decoder) expect(want string) bool {
	first := d.peek()
	if first == 0 {
		d.broken()
		return false
	}
	got := kindOf(first)
	if got == want || want == anInteger && got == aNumber {
		return true
	}
	if d.raw(); !d.halted {
		d.report("must be " + want + ", is " + got)
	}
	return false
}

// text reads a string.
func (d *decoder) text() (string, bool) {
	if !d.expect(aString) {
		return "", false
	}
	raw, escaped := d.quoted()
	switch {
	case d.halted:
		return "", false
	case escaped:
		return unquote(raw), true
	}
	return string(raw[1 : len(raw)-1]), true
}

// apart decodes other data with a node, as the default of a field, and returns
// its fault.
func apart(n node, data []byte, v reflect.Value) error {
	d := &decoder{data: data}
	n.decode(d, v)
	return d.finish()
}
