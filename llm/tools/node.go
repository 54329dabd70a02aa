package tools

import (
	"strconv"
	"strings"
)

// A node describes the expected type of a value. The zero node accepts any value.
type node struct {
	kind     kind
	nullable bool
	wrap     bool   // of a list: a single value is accepted as a list of one
	tokens   tokens // allowed values of a string or an integer

	items   *node   // of a list, nil for any
	members members // of an object
	open    bool    // an object may have further members
	rest    *node   // of the further members, nil for any
}

// A kind is the JSON type that a node requires.
type kind uint8

const (
	anyKind kind = iota
	stringKind
	booleanKind
	integerKind
	numberKind
	objectKind
	listKind
	timestampKind
	uriKind
)

var kindNames = [...]string{
	"a value", "a string", "a boolean", "an integer", "a number", "an object", "a list", "an ISO 8601 timestamp", "a URI",
}

func (k kind) String() string { return kindNames[k] }

// A member is a declared member of an object.
type member struct {
	name     string
	required bool
	node     *node
}

// members are the members of an object, also by name.
type members struct {
	list   []member
	byName map[string]int
}

func newMembers(list []member) members {
	m := members{list: list, byName: make(map[string]int, len(list))}
	for i := range list {
		m.byName[list[i].name] = i
	}
	return m
}

func (m *members) find(name string) (int, bool) {
	i, ok := m.byName[name]
	return i, ok
}

// tokens are allowed values, empty for any.
type tokens struct {
	exact  map[string]bool
	folded map[string]string // declared tokens by their lower case; nil if case counts
	list   []string
}

// newTokens returns tokens. Case counts if caseSensitive is true, or if two tokens
// differ in case alone.
func newTokens(list []string, caseSensitive bool) tokens {
	if len(list) == 0 {
		return tokens{}
	}
	t := tokens{exact: make(map[string]bool, len(list)), list: list}
	if !caseSensitive {
		t.folded = make(map[string]string, len(list))
	}
	for _, token := range list {
		t.exact[token] = true
		if t.folded == nil {
			continue
		}
		key := strings.ToLower(token)
		if _, twice := t.folded[key]; twice {
			t.folded = nil
			continue
		}
		t.folded[key] = token
	}
	return t
}

// find returns the token of a text.
func (t *tokens) find(text string) (token string, ok bool) {
	if t.exact == nil || t.exact[text] {
		return text, true
	}
	token, ok = t.folded[strings.ToLower(text)]
	return token, ok
}

// String lists the tokens.
func (t *tokens) String() string {
	var b strings.Builder
	for i, token := range t.list {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 20 {
			b.WriteString("…")
			break
		}
		b.WriteString(strconv.Quote(token))
	}
	return b.String()
}

// nodeOf is the node of a declared parameter.
func nodeOf(p *Parameter) *node {
	one := &node{tokens: newTokens(p.Enum, p.CaseSensitive)}
	switch p.Kind {
	case Boolean:
		one.kind = booleanKind
	case Integer:
		one.kind = integerKind
	case Number:
		one.kind = numberKind
	case JSONObject:
		one.kind, one.open = objectKind, true
	case JSONArray:
		one.kind = listKind
	case Timestamp:
		one.kind = timestampKind
	case URI:
		one.kind = uriKind
	default:
		one.kind = stringKind
	}
	switch p.Cardinality {
	case Optional:
		one.nullable = true
	case List:
		return &node{kind: listKind, wrap: true, items: one}
	case Map:
		return &node{kind: objectKind, open: true, rest: one}
	}
	return one
}

// shapeOf is the node of all arguments of a tool.
func shapeOf(d *Declaration) (*node, error) {
	if len(d.Schema) > 0 {
		return importSchema(d.Schema)
	}
	list := make([]member, len(d.Parameters))
	for i := range d.Parameters {
		p := &d.Parameters[i]
		list[i] = member{name: p.Name, required: p.Required, node: nodeOf(p)}
	}
	return &node{kind: objectKind, members: newMembers(list)}, nil
}
