package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// boundUnique replaces the validator's own uniqueItems, whose hash is easy to
// make collide, by one that takes time in proportion to the array.
func boundUnique(n *jsonschema.Schema) {
	if n.UniqueItems {
		n.UniqueItems = false
		n.Extensions = append(n.Extensions, uniqueItems{})
	}
}

type uniqueItems struct{}

// Validate implements [jsonschema.SchemaExt].
func (uniqueItems) Validate(ctx *jsonschema.ValidatorContext, v any) {
	items, ok := v.([]any)
	if !ok {
		return
	}
	first := make(map[string]int, len(items))
	var text []byte
	for i, item := range items {
		text = appendCanonical(text[:0], item)
		if j, seen := first[string(text)]; seen {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{j, i}})
			return
		}
		first[string(text)] = i
	}
}

// appendCanonical writes a value so that equal values get equal texts.
func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			dst = append(strconv.AppendQuote(dst, key), ':')
			dst = append(appendCanonical(dst, v[key]), ',')
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for _, item := range v {
			dst = append(appendCanonical(dst, item), ',')
		}
		return append(dst, ']')
	case string:
		return strconv.AppendQuote(dst, v)
	case json.Number:
		return appendNumber(dst, string(v))
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}

// appendNumber writes a number of at most maxDigits characters without an
// exponent: integers exactly, others as the nearest float64.
func appendNumber(dst []byte, text string) []byte {
	if whole, frac, ok := strings.Cut(text, "."); ok && strings.Trim(frac, "0") == "" {
		text = whole
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f == float64(int64(f)) && len(text) > 15 {
		return append(dst, text...) // an integer that float64 would round
	}
	return strconv.AppendFloat(dst, f+0, 'g', -1, 64)
}
