package policy

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// typeNumbers is the type of the numbers among the arguments of an approval's call.
const typeNumbers cedar.EntityType = "Numbers"

// Arguments of a call are tags: each text, number and Boolean by its JSON Pointer
// (RFC 6901), as text. The numbers that Cedar represents exactly, with four digits
// behind the point, are also tags of another entity, to be compared.
type arguments struct{ texts, numbers cedar.RecordMap }

// argumentsOf reads the arguments of a call. Those that are no JSON have no tags.
func argumentsOf(text json.RawMessage) arguments {
	a := arguments{make(cedar.RecordMap), make(cedar.RecordMap)}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var tree any
	if decoder.Decode(&tree) == nil {
		a.add("", tree)
	}
	return a
}

// pointers escape the keys of objects in a JSON Pointer.
var pointers = strings.NewReplacer("~", "~0", "/", "~1")

// add adds the value at a place in the arguments, and everything below it.
func (a *arguments) add(at string, value any) {
	name := cedar.String(at)
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			a.add(at+"/"+pointers.Replace(key), inner)
		}
	case []any:
		for i, inner := range v {
			a.add(at+"/"+strconv.Itoa(i), inner)
		}
	case string:
		a.texts[name] = cedar.String(v)
	case bool:
		a.texts[name] = cedar.String(strconv.FormatBool(v))
	case json.Number:
		a.texts[name] = cedar.String(v)
		if d, ok := decimalOf(v.String()); ok {
			a.numbers[name] = d
		}
	}
}

// decimalOf is a number of JSON as Cedar compares it, if Cedar represents it exactly.
func decimalOf(text string) (types.Decimal, bool) {
	if strings.ContainsAny(text, "eE") {
		return types.Decimal{}, false
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		fraction = "0"
	}
	d, err := types.ParseDecimal(whole + "." + fraction) // it refuses more than five digits behind the point, and too large numbers
	return d, err == nil
}

// numbersOf names the entity with the numbers of an approval's call.
func numbersOf(approval cedar.EntityUID) cedar.EntityUID {
	return cedar.EntityUID{Type: typeNumbers, ID: approval.ID}
}
