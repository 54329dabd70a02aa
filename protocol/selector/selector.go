package selector

import (
	"slices"
	"strings"
)

// A Selector is a list of requirements that all have to hold. It is immutable;
// [Parse] makes it.
type Selector struct {
	requirements []Requirement
}

// An Op compares the value of a key with those of a requirement.
type Op uint8

// The operators. NotEqual and NotIn hold for a subject that lacks the key, too.
const (
	Exists Op = iota
	Lacks
	Equal
	NotEqual
	In
	NotIn
	Less
	AtMost
	More
	AtLeast
)

var signs = map[Op]string{Equal: "=", NotEqual: "!=", In: " in ", NotIn: " notin ", Less: "<", AtMost: "<=", More: ">", AtLeast: ">="}

// A Requirement is one condition.
type Requirement struct {
	Key    Key
	Op     Op
	Values []string // one, but any number for In and NotIn, and none for Exists and Lacks
}

// A Kind says where the value of a key comes from.
type Kind uint8

// The kinds of keys.
const (
	Tag   Kind = iota // of the agent
	Agent             // a field of the agent
	Skill             // a field of the skill
	State             // what the agent reported of the skill
)

// A Key is a compared property: a tag, a field of the agent or skill, or a member of the
// state.
type Key struct {
	Kind Kind
	Name string // without the prefix of its kind
}

var prefixes = map[Kind]string{Tag: "", Agent: "agent.", Skill: "skill.", State: "state."}

// String is the key as it is written.
func (k Key) String() string { return prefixes[k.Kind] + k.Name }

// fields are the names of the fields.
var fields = map[Kind][]string{
	Agent: {"id", "name", "status", "type"},
	Skill: {"cap", "capability", "id", "type", "version"},
}

// A Subject is a candidate for selection: an agent with one of its skills.
type Subject interface {
	// Values are the values of a key, one for most; none without the key.
	Values(Key) []string
	// Has reports whether the subject has the key, be it with a value that cannot
	// be compared.
	Has(Key) bool
}

// Requirements are the conditions, in the order in which they were written. They
// must not be changed.
func (s *Selector) Requirements() []Requirement { return s.requirements }

// OfAgent reports whether the requirement is about the agent alone, whatever the
// skill.
func (r *Requirement) OfAgent() bool { return r.Key.Kind == Tag || r.Key.Kind == Agent }

// Matches reports whether all requirements hold.
func (s *Selector) Matches(x Subject) bool {
	for i := range s.requirements {
		if !s.requirements[i].Holds(x) {
			return false
		}
	}
	return true
}

// Holds reports whether a subject fulfils the requirement.
func (r *Requirement) Holds(x Subject) bool {
	switch r.Op {
	case Exists:
		return x.Has(r.Key)
	case Lacks:
		return !x.Has(r.Key)
	case NotEqual, NotIn:
		return !slices.ContainsFunc(x.Values(r.Key), r.named)
	}
	return slices.ContainsFunc(x.Values(r.Key), r.compares)
}

func (r *Requirement) named(value string) bool { return slices.Contains(r.Values, value) }

func (r *Requirement) compares(value string) bool {
	if r.Op == Equal || r.Op == In {
		return r.named(value)
	}
	order, ok := compare(value, r.Values[0], r.Key.Kind == State)
	if !ok {
		return false
	}
	switch r.Op {
	case Less:
		return order < 0
	case AtMost:
		return order <= 0
	case More:
		return order > 0
	}
	return order >= 0
}

// String is the selector in its shortest form, which reads as the same.
func (s *Selector) String() string {
	list := make([]string, len(s.requirements))
	for i := range s.requirements {
		list[i] = s.requirements[i].String()
	}
	return strings.Join(list, ",")
}

// String is the requirement as it is written.
func (r *Requirement) String() string {
	switch r.Op {
	case Exists:
		return r.Key.String()
	case Lacks:
		return "!" + r.Key.String()
	case In, NotIn:
		list := make([]string, len(r.Values))
		for i, v := range r.Values {
			list[i] = quoted(v)
		}
		return r.Key.String() + signs[r.Op] + "(" + strings.Join(list, ",") + ")"
	}
	return r.Key.String() + signs[r.Op] + quoted(r.Values[0])
}
