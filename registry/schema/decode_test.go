package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// FuzzDecode compares the parser with encoding/json on what is JSON, and
// checks that it does not panic on what is not.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"a": [1, -2.5, "x\n\u00e9", true, false, null, {}], "b": {"c": []}}`, ` [ ] `, `"\ud83d\ude00"`, `0`, `-0`,
		`123456789012345678901234567890123456789`, `1e5`, `1e999`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `[`, `{`, `"`, `"\`, `tru`, `nul`, `1 2`, `01`, `--1`, `.`, ``, `]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := decode(text)
		if !json.Valid(text) || !utf8.Valid(text) {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		if dec.Decode(&want) != nil {
			return
		}
		if err != nil {
			if depth(want) < maxNesting && !bytes.ContainsAny(text, "0123456789") {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		if !reflect.DeepEqual(plainNumbers(got), plainNumbers(want)) {
			t.Fatalf("%s: %#v, want %#v", text, got, want)
		}
	})
}

// plainNumbers makes all numbers float64.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64()
		return f
	case map[string]any:
		for key := range v {
			v[key] = plainNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	}
	return v
}
