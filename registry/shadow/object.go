package shadow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of a document.
const (
	MaxBytes = 16 << 10 // of its JSON, and of that of a patch
	MaxDepth = 8        // of nested objects and arrays
)

// An object is a document, or a patch of one: strings, json.Numbers, booleans,
// nil, []any and objects. Documents have no members that are nil; patches have.
type object = map[string]any

// parse reads a JSON object. The error names the fault in a few words.
func parse(text []byte) (object, error) {
	if len(text) > MaxBytes {
		return nil, tooLarge(len(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("is not JSON")
	}
	o, ok := v.(object)
	if !ok {
		return nil, errors.New("must be an object")
	}
	if depthOf(o) > MaxDepth {
		return nil, tooDeep()
	}
	return o, nil
}

func tooLarge(size int) error {
	return protocol.Errorf(protocol.PayloadTooLarge, "state has %d bytes, at most %d are possible", size, MaxBytes).
		With("param_name", "state").With("size", size).With("limit", MaxBytes)
}

func tooDeep() error { return fmt.Errorf("is nested more than %d levels deep", MaxDepth) }

// render is the one JSON text of a document: members sorted, no white space.
func render(o object) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil { // it came from JSON
		return json.RawMessage("{}")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// depthOf is the number of objects and arrays that are within each other.
func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case object:
		for _, member := range v {
			deepest = max(deepest, depthOf(member))
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depthOf(item))
		}
	default:
		return 0
	}
	return deepest + 1
}
