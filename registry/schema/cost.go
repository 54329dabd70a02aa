package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema of a few lines can take for ever to check a value:
//
//	{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]},
//	           "b": {"allOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/c"}]}, …
//
// doubles with every line, and through properties it doubles with every level
// of the value. So a schema is weighed when it is compiled: weigh bounds how
// many subschemas are evaluated at any one place of any value, and with it the
// work for a value grows no faster than its size.

// maxValueDepth is the depth of values that schemas are weighed for; deeper
// ones are refused by the envelope before they get here.
const maxValueDepth = 64

// errTooCostly is the error of a schema that is over maxWeight.
var errTooCostly = errors.New("takes too long to check: too many subschemas apply to one value")

// weigh returns the largest number of evaluations at one place of a value.
func weigh(root *jsonschema.Schema) (int, error) {
	s := &scale{memo: make(map[application]int)}
	heaviest := 1
	for d := range maxValueDepth + 1 {
		w, err := s.at(root, d)
		if err != nil {
			return 0, err
		}
		if w == 0 {
			break
		}
		heaviest = max(heaviest, w)
	}
	return heaviest, nil
}

// An application is a schema applied to a value, seen from depth levels below it.
type application struct {
	schema *jsonschema.Schema
	depth  int
}

// A scale weighs schemas. An entry of -1 in memo marks an application that is being
// weighed: coming back to it means the schema applies itself to its own value.
type scale struct{ memo map[application]int }

// at is the number of evaluations that n, applied to a value, causes at one
// place depth levels inside of the value.
func (s *scale) at(n *jsonschema.Schema, depth int) (int, error) {
	if n == nil || depth < 0 {
		return 0, nil
	}
	here := application{n, depth}
	if w, ok := s.memo[here]; ok {
		if w < 0 {
			return 0, fmt.Errorf("refers to itself in a circle")
		}
		return w, nil
	}
	s.memo[here] = -1
	w, err := s.weigh(n, depth)
	if err != nil {
		return 0, err
	}
	if w > maxWeight {
		return 0, errTooCostly
	}
	s.memo[here] = w
	return w, nil
}

func (s *scale) weigh(n *jsonschema.Schema, depth int) (int, error) {
	if err := refuse(n); err != nil {
		return 0, err
	}
	total, err := s.sum(depth, sameValue(n)...)
	if err != nil {
		return 0, err
	}
	if depth == 0 {
		boundUnique(n)
		return total + own(n), nil
	}
	object, err := s.members(n, depth-1)
	if err != nil {
		return 0, err
	}
	array, err := s.items(n, depth-1)
	if err != nil {
		return 0, err
	}
	return total + max(object, array), nil
}

// refuse names the keywords whose work has no known bound.
func refuse(n *jsonschema.Schema) error {
	if n.DynamicRef != nil || n.RecursiveRef != nil {
		return errors.New("uses $dynamicRef or $recursiveRef, which are not supported")
	}
	if n.Format != nil && n.Format.Name == "regex" {
		return errors.New("uses the format regex, which is not supported")
	}
	return nil
}

// own is the work of a schema's own keywords on one value.
func own(n *jsonschema.Schema) int {
	w := 1 + len(n.Required)
	if n.Enum != nil {
		w += len(n.Enum.Values)
	}
	if n.Pattern != nil {
		w += weightOf(n.Pattern)
	}
	for re := range n.PatternProperties {
		w += weightOf(re)
	}
	return w
}

// sameValue lists the subschemas that apply to the very value n applies to.
func sameValue(n *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{n.Ref, n.Not, n.If, n.Then, n.Else}
	subs = append(subs, n.AllOf...)
	subs = append(subs, n.AnyOf...)
	subs = append(subs, n.OneOf...)
	for _, sub := range n.DependentSchemas {
		subs = append(subs, sub)
	}
	for _, dep := range n.Dependencies {
		if sub, ok := dep.(*jsonschema.Schema); ok {
			subs = append(subs, sub)
		}
	}
	return subs
}

// members weighs the schemas that apply to one member of an object. Different
// properties are different places, so the heaviest counts, not their sum.
func (s *scale) members(n *jsonschema.Schema, depth int) (int, error) {
	named := 0
	for _, sub := range n.Properties {
		w, err := s.at(sub, depth)
		if err != nil {
			return 0, err
		}
		named = max(named, w)
	}
	for _, sub := range n.PatternProperties {
		w, err := s.at(sub, depth)
		if err != nil {
			return 0, err
		}
		named += w
	}
	additional, err := s.sum(depth, schemaOf(n.AdditionalProperties))
	if err != nil {
		return 0, err
	}
	rest, err := s.sum(depth, n.PropertyNames, n.UnevaluatedProperties)
	return max(named, additional) + rest, err
}

// items weighs the schemas that apply to one item of an array.
func (s *scale) items(n *jsonschema.Schema, depth int) (int, error) {
	listed := n.PrefixItems
	if old, ok := n.Items.([]*jsonschema.Schema); ok {
		listed = old
	}
	heaviest := 0
	for _, sub := range append(listed[:len(listed):len(listed)], n.Items2020, schemaOf(n.Items), schemaOf(n.AdditionalItems)) {
		w, err := s.at(sub, depth)
		if err != nil {
			return 0, err
		}
		heaviest = max(heaviest, w)
	}
	rest, err := s.sum(depth, n.Contains, n.UnevaluatedItems)
	return heaviest + rest, err
}

func (s *scale) sum(depth int, subs ...*jsonschema.Schema) (int, error) {
	total := 0
	for _, sub := range subs {
		w, err := s.at(sub, depth)
		if err != nil {
			return 0, err
		}
		total += w
	}
	return total, nil
}

func schemaOf(v any) *jsonschema.Schema {
	sub, _ := v.(*jsonschema.Schema)
	return sub
}
