// Package schemaword finds the keywords of a JSON Schema that are probably
// misspelt. Validators ignore unknown keywords: "maxmum" switches a limit off
// without an error.
package schemaword

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/commands/schema"
)

// A Misspelling is a keyword that there is not, and the one that was probably
// meant.
type Misspelling struct {
	At      []string // where the schema with it is, as the steps of a JSON Pointer
	Keyword string
	Meant   string
}

// String is `at properties.celsius: there is no keyword "maxmum", did you mean
// "maximum"? It is passed over`.
func (m Misspelling) String() string {
	place := ""
	if len(m.At) > 0 {
		place = "at " + strings.Join(m.At, ".") + ": "
	}
	return fmt.Sprintf("%sthere is no keyword %q, did you mean %q? It is passed over", place, short(m.Keyword), m.Meant)
}

func short(text string) string {
	if len(text) <= 64 {
		return text
	}
	return strings.ToValidUTF8(text[:64], "") + "…"
}

// what a keyword's value holds.
type holds uint8

const (
	plain   holds = iota // no schemas
	one                  // a schema
	several              // a list of schemas
	either               // a schema, or a list of them
	named                // schemas by name
)

// keywords are the keywords of all drafts, and the additions of OpenAPI and others.
var keywords = map[string]holds{
	"$schema": plain, "$id": plain, "$anchor": plain, "$dynamicAnchor": plain, "$ref": plain, "$dynamicRef": plain, "$recursiveRef": plain,
	"$recursiveAnchor": plain, "$vocabulary": plain, "$comment": plain, "id": plain,
	"type": plain, "enum": plain, "const": plain, "format": plain, "default": plain, "examples": plain, "example": plain,
	"title": plain, "description": plain, "deprecated": plain, "readOnly": plain, "writeOnly": plain,
	"multipleOf": plain, "minimum": plain, "maximum": plain, "exclusiveMinimum": plain, "exclusiveMaximum": plain,
	"minLength": plain, "maxLength": plain, "pattern": plain, "contentEncoding": plain, "contentMediaType": plain, "contentSchema": one,
	"minItems": plain, "maxItems": plain, "uniqueItems": plain, "minContains": plain, "maxContains": plain,
	"minProperties": plain, "maxProperties": plain, "required": plain, "dependentRequired": plain,
	"items": either, "prefixItems": several, "additionalItems": one, "contains": one, "unevaluatedItems": one,
	"properties": named, "patternProperties": named, "additionalProperties": one, "propertyNames": one, "unevaluatedProperties": one,
	"$defs": named, "definitions": named, "dependentSchemas": named, "dependencies": named,
	"allOf": several, "anyOf": several, "oneOf": several, "not": one, "if": one, "then": one, "else": one,
	"nullable": plain, "discriminator": plain, "xml": plain, "externalDocs": plain, "units": plain, "unit": plain, "label": plain, "name": plain,
}

var names = slices.Sorted(maps.Keys(keywords))

// The bounds of a search.
const (
	maxFound = 10
	maxDepth = 64
)

// Check lists the misspelt keywords of a schema, at most ten, in the order of
// their places. A text that is no schema has none.
func Check(text []byte) []Misspelling {
	var root any
	if json.Unmarshal(text, &root) != nil {
		return nil
	}
	var s search
	s.schema(root, nil)
	return s.found
}

type search struct{ found []Misspelling }

func (s *search) schema(value any, at []string) {
	object, ok := value.(map[string]any)
	if !ok || len(at) > maxDepth {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(s.found) == maxFound {
			return
		}
		what, known := keywords[name]
		if !known {
			s.unknown(name, at)
			continue
		}
		s.within(what, object[name], append(slices.Clip(at), name))
	}
}

// unknown notes a name that is nearly a keyword. A name that begins with x- is the
// author's own.
func (s *search) unknown(name string, at []string) {
	if strings.HasPrefix(strings.ToLower(name), "x-") {
		return
	}
	if meant, ok := nearest(name); ok {
		s.found = append(s.found, Misspelling{At: slices.Clone(at), Keyword: name, Meant: meant})
	}
}

// nearest is the keyword that a name probably means. Short names differ from
// each other by little anyway.
func nearest(name string) (string, bool) {
	for _, k := range names {
		if strings.EqualFold(k, name) {
			return k, true
		}
	}
	if len(name) < 4 {
		return "", false
	}
	folded := make(map[string]string, len(names))
	for _, k := range names {
		folded[strings.ToLower(k)] = k
	}
	meant, ok := schema.Nearest(name, slices.Values(slices.Sorted(maps.Keys(folded))))
	return folded[meant], ok && len(meant) > 3
}

func (s *search) within(what holds, value any, at []string) {
	list, isList := value.([]any)
	switch {
	case what == plain:
	case what == named:
		object, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			s.schema(object[name], append(slices.Clip(at), name))
		}
	case isList && what != one:
		for i, item := range list {
			s.schema(item, append(slices.Clip(at), strconv.Itoa(i)))
		}
	case what != several:
		s.schema(value, at)
	}
}
