package entities

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/aibridge/aibridge/protocol"
)

// A Skill is a registered skill, as far as it matters here.
type Skill struct {
	Space        protocol.SpaceID
	ID           protocol.SkillID
	Owner        protocol.Party
	Name         string
	Capabilities []Capability
}

// A Capability is something that a skill can do.
type Capability struct {
	ID     protocol.CapabilityID
	Name   string
	Params json.RawMessage // JSON Schema, nil for any
	Result json.RawMessage
	Reads  bool
	Risk   string
	Sealed bool // the bridge cannot make its params
}

// risky reports whether the capability needs an approval.
func (c *Capability) risky() bool { return c.Risk == "high" || c.Risk == "ask" }

// name is a capability for people.
func (c *Capability) name() string { return label(c.Name, string(c.ID)) }

// An object is JSON Schema of an object, as far as it is understood.
type object struct {
	Type       kinds                `json:"type"`
	Properties map[string]*property `json:"properties"`
	Required   []string             `json:"required"`
	Beyond     json.RawMessage      `json:"$ref"`
	AllOf      json.RawMessage      `json:"allOf"`
	AnyOf      json.RawMessage      `json:"anyOf"`
	OneOf      json.RawMessage      `json:"oneOf"`
}

// A property is JSON Schema of one value.
type property struct {
	Type       kinds    `json:"type"`
	Title      string   `json:"title"`
	Enum       []any    `json:"enum"`
	Minimum    *float64 `json:"minimum"`
	Maximum    *float64 `json:"maximum"`
	MultipleOf *float64 `json:"multipleOf"`
	MinLength  *int     `json:"minLength"`
	MaxLength  *int     `json:"maxLength"`
	Unit       string   `json:"unit"`
}

// kinds are the types of a schema: one, or a list.
type kinds []string

// UnmarshalJSON implements [json.Unmarshaler].
func (k *kinds) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*k = kinds{one}
		return nil
	}
	var several []string
	err := json.Unmarshal(text, &several)
	*k = several
	return err
}

// one is the type besides null, "" if there are several or none.
func (k kinds) one() string {
	rest := slices.DeleteFunc(slices.Clone(k), func(t string) bool { return t == "null" })
	if len(rest) != 1 {
		return ""
	}
	return rest[0]
}

// objectOf reads a schema. It is not ok for one that is no plain object.
func objectOf(schema json.RawMessage) (o object, ok bool) {
	if len(schema) == 0 {
		return o, true
	}
	if json.Unmarshal(schema, &o) != nil || o.Beyond != nil || o.AllOf != nil || o.AnyOf != nil || o.OneOf != nil {
		return o, false
	}
	return o, len(o.Type) == 0 || o.Type.one() == "object"
}

// options are the words of an enum of texts that Home Assistant can show.
func (p *property) options() (words []string, ok bool) {
	if len(p.Enum) == 0 || len(p.Enum) > 100 {
		return nil, false
	}
	for _, v := range p.Enum {
		word, text := v.(string)
		if !text || word == "" || len(word) > longestState || label(word, "") != word || slices.Contains(words, word) {
			return nil, false
		}
		words = append(words, word)
	}
	return words, true
}

// sort is the sort of value of a property: boolean, number, integer, option,
// text, or "" for what cannot be shown.
func (p *property) sort() string {
	kind := p.Type.one()
	_, chosen := p.options()
	switch {
	case chosen && (kind == "" || kind == "string"):
		return "option"
	case len(p.Enum) > 0:
		return ""
	case kind == "boolean" || kind == "number" || kind == "integer":
		return kind
	case kind == "string":
		return "text"
	}
	return ""
}

// digested is a name that ends as those do that were changed.
var digested = regexp.MustCompile(`_[0-9a-f]{8}$`)

// safe is a name as an identifier: of letters, digits and _, and no other name's.
// So names can neither be topics of their own nor templates.
func safe(name string) string {
	made := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '_'
	}, name)
	if made == name && name != "" && len(name) <= 40 && name[0] != '_' && !digested.MatchString(name) {
		return made
	}
	return strings.TrimLeft(made[:min(len(made), 40)], "_") + "_" + digest(name)
}

// digest is a short mark of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// label is a text for people in one line, without what is hidden.
func label(text, otherwise string) string {
	clean := strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == unicode.ReplacementChar || protocol.Hidden(c) {
			return -1
		}
		return c
	}, text))
	if clean == "" {
		return otherwise
	}
	if runes := []rune(clean); len(runes) > 120 {
		return string(runes[:120])
	}
	return clean
}
