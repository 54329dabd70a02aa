package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// A Violation is the first thing that is wrong with a value.
type Violation struct {
	Path   []string // where, from the value down; empty for the value itself
	Reason string   // "is missing", "must be number, is string"
}

// In is the path of the violation when the value is called name:
// In("params") is "params.rooms[2].celsius".
func (v *Violation) In(name string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, step := range v.Path {
		if _, err := strconv.ParseUint(step, 10, 32); err == nil {
			b.WriteString("[" + step + "]")
		} else {
			b.WriteString("." + step)
		}
	}
	return b.String()
}

func (v *Violation) at(name string) string { return v.In(name) + ": " + v.Reason }

// violationOf picks one violation of those a value has: the shallowest, and
// of these the first by path, so that the same value always gets the same
// answer.
func violationOf(err *jsonschema.ValidationError) Violation {
	var best *Violation
	visit(err, func(v Violation) {
		if best == nil || compare(v, *best) < 0 {
			best = &v
		}
	})
	return *best
}

func visit(err *jsonschema.ValidationError, found func(Violation)) {
	switch err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.MinContains, *kind.PropertyNames:
		// The violations of their subschemas say little: any of
		// them could have been meant.
	default:
		if len(err.Causes) > 0 {
			for _, cause := range err.Causes {
				visit(cause, found)
			}
			return
		}
	}
	found(describe(err))
}

func compare(a, b Violation) int {
	return cmp.Or(
		cmp.Compare(len(a.Path), len(b.Path)),
		strings.Compare(strings.Join(a.Path, "\x00"), strings.Join(b.Path, "\x00")),
		strings.Compare(a.Reason, b.Reason),
	)
}

func describe(err *jsonschema.ValidationError) Violation {
	path := err.InstanceLocation
	below := func(name string) []string { return append(path[:len(path):len(path)], name) }
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		return Violation{below(least(k.Missing)), "is missing"}
	case *kind.AdditionalProperties:
		return Violation{below(least(k.Properties)), "is not known"}
	case *kind.FalseSchema:
		return Violation{path, "is not allowed"}
	case *kind.Type:
		return Violation{path, fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), k.Got)}
	case *kind.AnyOf:
		return Violation{path, "matches none of the alternatives"}
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return Violation{path, "matches more than one of the alternatives"}
		}
		return Violation{path, "matches none of the alternatives"}
	}
	if reason := limit(err.ErrorKind); reason != "" {
		return Violation{path, reason}
	}
	return Violation{path, err.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
}

// limit states the violated limit in the words of the bridge's own commands; "" for kinds
// that have other words.
func limit(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, is %s", number(k.Want), number(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, is %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s, is %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s, is %s", number(k.Want), number(k.Got))
	case *kind.MultipleOf:
		return fmt.Sprintf("must be a multiple of %s, is %s", number(k.Want), number(k.Got))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s, has %d", counted(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, has %d", counted(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, has %d", counted(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, has %d", counted(k.Want, "item"), k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s, has %d", counted(k.Want, "member"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, has %d", counted(k.Want, "member"), k.Got)
	case *kind.Enum:
		return mustBe(k.Want)
	case *kind.Const:
		return mustBe([]any{k.Want})
	}
	return ""
}

// number is a number as people write it.
func number(r *big.Rat) string {
	if r.IsInt() && r.Num().BitLen() <= 64 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// maxAlternatives bounds the list of permitted values in an error, in bytes.
const maxAlternatives = 1000

// mustBe lists values, "" for too many or values that cannot be shown.
func mustBe(values []any) string {
	list := make([]string, len(values))
	for i, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		list[i] = string(raw)
	}
	text := strings.Join(list, ", ")
	switch {
	case len(text) > maxAlternatives:
		return ""
	case len(list) == 1:
		return "must be " + text
	}
	return "must be one of " + text
}

// least returns the first of names in order: the validator finds them in the
// order of a map.
func least(names []string) string {
	first := names[0]
	for _, name := range names[1:] {
		first = min(first, name)
	}
	return first
}
