package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Nearly all values are valid and nearly all schemas are plain, so plain schemas are also
// compiled to nodes, which read the text of a value once and build nothing from it. A
// node gives one of two answers: the value is valid, or it is not known to be. In the
// second case the library is asked. So a node need not understand everything, the faults
// of a value are found by the library alone, and there is one rule to keep: a node
// accepts nothing that the library rejects.

// kinds is a set of kinds of values. Every integer is a number.
type kinds uint16

const (
	kindNull kinds = 1 << iota
	kindTrue
	kindFalse
	kindInteger
	kindFraction
	kindString
	kindArray
	kindObject

	kindNumber = kindInteger | kindFraction
	anyKind    = kindNull | kindTrue | kindFalse | kindNumber | kindString | kindArray | kindObject
)

// A node checks one value and the values in it.
type node struct {
	kinds kinds

	listed  bool // by enum or const: strings and numbers must be one of these
	strings map[string]bool
	numbers []float64

	minimum, maximum     bound
	minLength, maxLength int // in characters
	minItems, maxItems   int
	items                *node

	members  map[string]member
	others   *node  // the node of members not named above
	required uint64 // the bits of the required members
}

// A member is the rule for a member of an object by its name.
type member struct {
	node *node
	bit  uint64 // in required, 0 if it is optional
}

// A bound is a limit of a number, as the nearest float64.
type bound struct {
	at   float64
	open bool // what equals at is not known to be within
}

// planned reports whether nodes implement the field of a schema, or the field needs
// no check. Any other field, of this version of the library or the next, leaves the
// schema to the library.
func planned(field string) bool {
	switch field {
	case "Types", "Enum", "Const",
		"Required", "Properties", "AdditionalProperties",
		"MinItems", "MaxItems", "Items", "Items2020",
		"MinLength", "MaxLength",
		"Minimum", "Maximum", "ExclusiveMinimum", "ExclusiveMaximum",
		"DraftVersion", "Location", "ID", "Anchor",
		"Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated":
		return true
	}
	return false
}

// plan makes the node of a schema, nil if the schema is not plain.
func plan(s *jsonschema.Schema) *node {
	switch {
	case s == nil || s.Bool != nil && *s.Bool:
		return anything()
	case s.Bool != nil:
		return newNode(0)
	}
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		f := fields.Type().Field(i)
		if f.IsExported() && !planned(f.Name) && !fields.Field(i).IsZero() {
			return nil
		}
	}
	n := newNode(kindsOf(s.Types))
	if !n.planList(s) || !n.planItems(s) || !n.planMembers(s) {
		return nil
	}
	n.planBounds(s)
	setInt(&n.minLength, s.MinLength)
	setInt(&n.maxLength, s.MaxLength)
	return n
}

func newNode(k kinds) *node {
	return &node{
		kinds:     k,
		minimum:   bound{at: math.Inf(-1)},
		maximum:   bound{at: math.Inf(1)},
		maxLength: math.MaxInt,
		maxItems:  math.MaxInt,
	}
}

// anything accepts every value.
func anything() *node {
	n := newNode(anyKind)
	n.items, n.others = n, n
	return n
}

func setInt(to, from *int) {
	if from != nil {
		*to = *from
	}
}

func kindsOf(types *jsonschema.Types) kinds {
	if types == nil || types.IsEmpty() {
		return anyKind
	}
	var k kinds
	for _, name := range types.ToStrings() {
		switch name {
		case "null":
			k |= kindNull
		case "boolean":
			k |= kindTrue | kindFalse
		case "integer":
			k |= kindInteger
		case "number":
			k |= kindNumber
		case "string":
			k |= kindString
		case "array":
			k |= kindArray
		case "object":
			k |= kindObject
		}
	}
	return k
}

// planList plans enum or const. Listed values that nodes do not understand – arrays,
// objects, long numbers – are left out.
func (n *node) planList(s *jsonschema.Schema) bool {
	var values []any
	switch {
	case s.Enum != nil && s.Const != nil:
		return false
	case s.Enum != nil:
		values = s.Enum.Values
	case s.Const != nil:
		values = []any{*s.Const}
	default:
		return true
	}
	n.listed, n.strings = true, make(map[string]bool)
	var listed kinds
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			listed |= kindNull
		case bool:
			if v {
				listed |= kindTrue
			} else {
				listed |= kindFalse
			}
		case string:
			listed |= kindString
			n.strings[v] = true
		case json.Number, float64:
			listed |= kindNumber
			if exact, ok := new(big.Rat).SetString(fmt.Sprint(v)); ok && isShort(exact) {
				f, _ := exact.Float64()
				n.numbers = append(n.numbers, f)
			}
		}
	}
	n.kinds &= listed
	return true
}

func (n *node) planItems(s *jsonschema.Schema) bool {
	setInt(&n.minItems, s.MinItems)
	setInt(&n.maxItems, s.MaxItems)
	items := s.Items2020
	if s.Items != nil { // before draft 2020-12
		if items = schemaOf(s.Items); items == nil {
			return false
		}
	}
	n.items = plan(items)
	return n.items != nil
}

func (n *node) planMembers(s *jsonschema.Schema) bool {
	if allowed, ok := s.AdditionalProperties.(bool); ok && !allowed {
		n.others = newNode(0)
	} else if n.others = plan(schemaOf(s.AdditionalProperties)); n.others == nil {
		return false
	}
	n.members = make(map[string]member, len(s.Properties))
	for name, property := range s.Properties {
		p := plan(property)
		if p == nil {
			return false
		}
		n.members[name] = member{node: p}
	}
	if len(s.Required) > 64 {
		return false
	}
	for i, name := range s.Required {
		m, named := n.members[name]
		if !named {
			m.node = n.others
		}
		m.bit |= 1 << i
		n.members[name] = m
		n.required |= 1 << i
	}
	return true
}

func (n *node) planBounds(s *jsonschema.Schema) {
	tighten := func(b *bound, by *big.Rat, exclusive bool, side int) {
		if by == nil {
			return
		}
		at, _ := by.Float64()
		open := exclusive || !isShort(by)
		switch {
		case at == b.at:
			b.open = b.open || open
		case (at > b.at) == (side > 0):
			*b = bound{at, open}
		}
	}
	tighten(&n.minimum, s.Minimum, false, 1)
	tighten(&n.minimum, s.ExclusiveMinimum, true, 1)
	tighten(&n.maximum, s.Maximum, false, -1)
	tighten(&n.maximum, s.ExclusiveMaximum, true, -1)
}

// shortDigits is the number of decimal digits that a float64 keeps: different numbers
// of so many digits have different float64s, so comparing these is exact.
// For longer numbers only "less" and "greater" are certain.
const shortDigits = 15

func isShort(exact *big.Rat) bool {
	f, _ := exact.Float64()
	if f != 0 && (math.Abs(f) < 1e-300 || math.Abs(f) > 1e300) {
		return false // where a float64 keeps less
	}
	short, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', shortDigits-1, 64))
	return ok && short.Cmp(exact) == 0
}

// accepts reports whether text is certainly a valid value.
func (n *node) accepts(text []byte) bool {
	p := parser{text: text}
	if !n.value(&p, 0) {
		return false
	}
	p.skip()
	return p.at == len(p.text)
}

func (n *node) value(p *parser, depth int) bool {
	if depth > maxValueDepth {
		return false
	}
	switch p.next() {
	case '{':
		return n.kinds&kindObject != 0 && n.object(p, depth+1)
	case '[':
		return n.kinds&kindArray != 0 && n.array(p, depth+1)
	case '"':
		return n.kinds&kindString != 0 && n.text(p)
	case 't':
		return n.kinds&kindTrue != 0 && p.word("true") == nil
	case 'f':
		return n.kinds&kindFalse != 0 && p.word("false") == nil
	case 'n':
		return n.kinds&kindNull != 0 && p.word("null") == nil
	case 0:
		return false
	}
	p.at--
	return n.kinds&kindNumber != 0 && n.number(p)
}

func (n *node) object(p *parser, depth int) bool {
	var seen uint64
	for c, first := p.next(), true; c != '}'; c, first = p.next(), false {
		if !first {
			if c != ',' {
				return false
			}
			c = p.next()
		}
		if c != '"' {
			return false
		}
		name, saved, ok := p.rawString()
		if !ok || saved > 0 || p.next() != ':' {
			return false
		}
		m, named := n.members[string(name)]
		if !named {
			m.node = n.others
		}
		if !m.node.value(p, depth) {
			return false
		}
		seen |= m.bit
	}
	return seen == n.required
}

func (n *node) array(p *parser, depth int) bool {
	count := 0
	for c := p.next(); c != ']'; c = p.next() {
		if count == 0 {
			p.at-- // c begins the first item
		} else if c != ',' {
			return false
		}
		if c == 0 || !n.items.value(p, depth) {
			return false
		}
		count++
	}
	return n.minItems <= count && count <= n.maxItems
}

func (n *node) text(p *parser) bool {
	raw, saved, ok := p.rawString()
	if !ok {
		return false
	}
	if n.listed && (saved > 0 || !n.strings[string(raw)]) {
		return false
	}
	if n.minLength <= 0 && len(raw) <= n.maxLength {
		return true
	}
	length := utf8.RuneCount(raw) - saved
	return n.minLength <= length && length <= n.maxLength
}

func (n *node) number(p *parser) bool {
	x, ok := p.numeral()
	if !ok {
		return false
	}
	f, ok := x.float()
	if !ok {
		return false
	}
	short := x.digits <= shortDigits
	if n.kinds&kindFraction == 0 && !x.plain && (!short || f != math.Trunc(f)) {
		return false
	}
	if n.listed && (!short || !slices.Contains(n.numbers, f)) {
		return false
	}
	return (f > n.minimum.at || f == n.minimum.at && short && !n.minimum.open) &&
		(f < n.maximum.at || f == n.maximum.at && short && !n.maximum.open)
}
