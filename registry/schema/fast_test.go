package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzAccepts checks the rule of nodes on any schema and any text: what a
// node accepts, the library accepts.
func FuzzAccepts(f *testing.F) {
	for _, schema := range []string{
		lampParams,
		thermostatParams,
		`{"items": {"type": "integer", "exclusiveMinimum": 0, "maximum": 0.3}, "maxItems": 3}`,
		`{"enum": [1, 0.1, "a", "é", true, null, [1], {"a": 1}]}`,
		`{"type": "string", "minLength": 1, "maxLength": 2}`,
		`{"required": ["a", "b"], "additionalProperties": {"const": false}, "properties": {"a": true, "c": false}}`,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true, "items": {"type": "number"}}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "number"}], "format": "email"}`,
		`{"properties": {"a": {"$ref": "#/properties/b"}, "b": {"pattern": "x"}}}`,
	} {
		for _, value := range edgeValues {
			f.Add(schema, value)
		}
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		src, err := NewSource([]byte(schema))
		if err != nil {
			return
		}
		s, err := Compile(src, Annotate)
		if err != nil || s.fast == nil {
			return
		}
		if !s.fast.accepts([]byte(value)) {
			return
		}
		if v := s.explain([]byte(value)); v != nil {
			t.Errorf("%s accepts %q, want %s", schema, value, v.at("value"))
		}
	})
}

var edgeValues = []string{
	lampValue, ` { } `, `[]`, `[1, 2.0, 3e0]`, `[0.1, 0.3, 0.30000000000000004]`, `[1,]`, `[,1]`, `[`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 "b":2}`,
	`{"a": 1, "a": "x"}`, `{"\u0061": 1, "b": 2}`, `{"a": false, "b": false}`, `"a"`, `"\u0061"`, `"é"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\u0041"`,
	`"\x"`, `"\u12g4"`, `"\u+123"`, "\"\t\"", "\"\\n\t\"", "\"\xff\"", "\"\xff\\n\"", `"`, `"\`, `"\u12`, `0`, `-0`, `-0.0`, `1`, `1.0`, `1.5`, `10e-1`, `1e400`, `1e-400`, `-1e400`, `1E+2`, `1e`, `01`, `-`, `1.`, `.1`, `+1`, `0x1`, `1_0`,
	`9007199254740993`, `123456789012345678901234567890123`, `1.00000000000000000001`, `0.1000000000000000055511151231257`, `tru`, `true`, `truex`, `null`, `nul`, `true false`, ``, `]`, "\x00",
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat("[", 5000),
}

// TestPlainValuesAreDecidedAlike holds nodes against the library on plain
// schemas and values: the verdict is the same, so no valid value takes the
// long way and no invalid one the short way.
func TestPlainValuesAreDecidedAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plain := drawSchema(t, 3)
		text, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		src, err := NewSource(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(src, Annotate)
		if err != nil {
			t.Fatalf("Compile(%s): %v", text, err)
		}
		if s.fast == nil {
			t.Fatalf("%s is not plain", text)
		}
		for range 10 {
			value := drawValue(t, plain, 4)
			want := s.explain([]byte(value))
			if got := s.fast.accepts([]byte(value)); got != (want == nil) {
				t.Fatalf("%s\naccepts %s: %v, want %+v", text, value, got, want)
			}
			checkSame(t, want, s.Validate([]byte(value)))
		}
	})
}

func checkSame(t *rapid.T, want, got *Violation) {
	switch {
	case want == nil && got == nil:
	case want == nil || got == nil || want.at("value") != got.at("value"):
		t.Fatalf("Validate: %+v, want %+v", got, want)
	}
}

var (
	someNames   = []string{"a", "b", "celsius", "raum-é", ""}
	someStrings = []string{"", "a", "ab", "é", "日本語", "b c"}
	someNumbers = []string{"0", "-0", "1", "1.0", "-1", "2", "1.5", "0.1", "0.3", "1e0", "15e-1", "1E2", "100", "1e300", "-1e-5", "123456789012345", "0.123456789", "10.00"}
	someTypes   = []string{"null", "boolean", "integer", "number", "string", "array", "object"}
)

func oneOf[T any](t *rapid.T, from []T) T { return rapid.SampledFrom(from).Draw(t, "") }
func chance(t *rapid.T, in int) bool      { return rapid.IntRange(1, in).Draw(t, "") == 1 }

func drawSchema(t *rapid.T, depth int) any {
	if chance(t, 12) {
		return rapid.Bool().Draw(t, "")
	}
	s := map[string]any{"title": "t", "description": "d", "format": "email", "default": []int{1}}
	switch rapid.IntRange(0, 3).Draw(t, "") {
	case 0:
		s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom(someTypes), 1, 3, rapid.ID).Draw(t, "")
	case 1, 2:
		s["type"] = oneOf(t, someTypes)
	}
	scalar := func() json.RawMessage {
		switch rapid.IntRange(0, 2).Draw(t, "") {
		case 0:
			return json.RawMessage(oneOf(t, someNumbers))
		case 1:
			return json.RawMessage(fmt.Sprintf("%q", oneOf(t, someStrings)))
		}
		return json.RawMessage(oneOf(t, []string{"true", "false", "null"}))
	}
	switch rapid.IntRange(0, 6).Draw(t, "") {
	case 0:
		s["const"] = scalar()
	case 1:
		s["enum"] = []json.RawMessage{scalar(), scalar(), scalar(), scalar()}
	}
	for _, bound := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if chance(t, 6) {
			s[bound] = json.RawMessage(oneOf(t, someNumbers))
		}
	}
	for _, size := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		if chance(t, 6) {
			s[size] = rapid.IntRange(0, 4).Draw(t, "")
		}
	}
	if chance(t, 3) {
		s["required"] = rapid.SliceOfNDistinct(rapid.SampledFrom(someNames), 0, 3, rapid.ID).Draw(t, "")
	}
	if depth > 0 {
		if chance(t, 2) {
			properties := map[string]any{}
			for _, name := range someNames {
				if chance(t, 2) {
					properties[name] = drawSchema(t, depth-1)
				}
			}
			s["properties"] = properties
		}
		if chance(t, 2) {
			s["items"] = drawSchema(t, depth-1)
		}
		if chance(t, 3) {
			s["additionalProperties"] = drawSchema(t, depth-1)
		}
	}
	return s
}

// drawValue writes a value that has a fair chance to be valid.
func drawValue(t *rapid.T, schema any, depth int) string {
	s, _ := schema.(map[string]any)
	typ := oneOf(t, someTypes)
	if s != nil && !chance(t, 8) {
		switch want := s["type"].(type) {
		case string:
			typ = want
		case []string:
			typ = oneOf(t, want)
		}
		if c, ok := s["const"].(json.RawMessage); ok && !chance(t, 4) {
			return string(c)
		}
		if e, ok := s["enum"].([]json.RawMessage); ok && !chance(t, 4) {
			return string(oneOf(t, e))
		}
	}
	space := oneOf(t, []string{"", "", " ", "\r\n\t"})
	switch typ {
	case "null":
		return "null"
	case "boolean":
		return oneOf(t, []string{"true", "false"})
	case "integer", "number":
		return oneOf(t, someNumbers)
	case "string":
		text := fmt.Sprintf("%q", oneOf(t, someStrings))
		if _, listed := s["enum"]; !listed && s["const"] == nil { // nodes do not unescape
			text = strings.NewReplacer("a", oneOf(t, []string{"a", `\n`, `\u0061`, `\ud83d\ude00`, `\"`})).Replace(text)
		}
		return text
	case "array":
		if depth == 0 {
			return "[" + space + "]"
		}
		items := make([]string, rapid.IntRange(0, 4).Draw(t, ""))
		for i := range items {
			items[i] = space + drawValue(t, s["items"], depth-1) + space
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	if depth == 0 {
		return "{" + space + "}"
	}
	properties, _ := s["properties"].(map[string]any)
	names := map[string]bool{}
	for _, name := range someNames {
		names[name] = chance(t, 3)
	}
	required, _ := s["required"].([]string)
	for _, name := range required {
		names[name] = !chance(t, 10)
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		of, named := properties[name]
		if !named {
			of = s["additionalProperties"]
		}
		members = append(members, fmt.Sprintf("%s%q%s:%s%s", space, name, space, space, drawValue(t, of, depth-1)))
	}
	return "{" + strings.Join(members, ",") + space + "}"
}

func TestNodesDecideNumbersAndStringsExactly(t *testing.T) {
	t.Parallel()
	const accepted, asked = true, false // asked: the library is, and finds valid what is valid
	for _, test := range []struct {
		schema, value string
		fast, valid   bool
	}{
		{`{"type": "integer"}`, `1.0`, accepted, true},
		{`{"type": "integer"}`, `1.50`, asked, false},
		{`{"type": "integer"}`, `1e2`, accepted, true},
		{`{"type": "integer"}`, `1e-2`, asked, false},
		{`{"type": "integer"}`, `1e300`, accepted, true},
		{`{"type": "integer"}`, `12345678901234567890123456789012`, accepted, true},
		{`{"type": "integer"}`, `1.0000000000000000001`, asked, false},
		{`{"type": "integer"}`, `1.0000000000000000000`, asked, true},
		{`{"type": "number"}`, `21.299999999999997`, accepted, true},
		{`{"type": "number"}`, `1e999`, asked, false},
		{`{}`, `[1e999]`, asked, false},
		{`{"maximum": 0.3}`, `0.3`, accepted, true},
		{`{"maximum": 0.3}`, `0.30000000000000000001`, asked, false},
		{`{"maximum": 0.3}`, `0.29999999999999999999`, asked, true},
		{`{"maximum": 9007199254740992}`, `9007199254740993`, asked, false},
		{`{"exclusiveMinimum": 0}`, `0`, asked, false},
		{`{"exclusiveMinimum": 0}`, `1e-400`, asked, false},
		{`{"minimum": 0}`, `-0`, accepted, true},
		{`{"minimum": 2, "exclusiveMinimum": 2}`, `2`, asked, false},
		{`{"minimum": 3, "exclusiveMinimum": 2}`, `3`, accepted, true},
		{`{"const": 1}`, `1.0`, accepted, true},
		{`{"const": 9007199254740993}`, `9007199254740992`, asked, false},
		{`{"const": 9007199254740993}`, `9007199254740993`, asked, true},
		{`{"const": 0.1000000000000000001}`, `0.1`, asked, false},
		{`{"const": null}`, `null`, accepted, true},
		{`{"enum": [true]}`, `false`, asked, false},
		{`{"enum": [[1], "a"]}`, `[1]`, asked, true},
		{`{"enum": ["a"]}`, `"\u0061"`, asked, true},
		{`{"maxLength": 1}`, `"\ud83d\ude00"`, accepted, true},
		{`{"maxLength": 1}`, `"😀"`, accepted, true},
		{`{"minLength": 2}`, `"\ud83d\ude00"`, asked, false},
		{`{"minLength": 2}`, `"é"`, asked, false},
		{`{"minLength": 2}`, `"\"\n"`, accepted, true},
		{`{"maxLength": 1}`, `"\\\\"`, asked, false},
		{`{"properties": {"a": {"type": "string"}}}`, `{"\u0061": 1}`, asked, false},
		{`{"properties": {"a": {"type": "string"}}}`, `{"b": {"a": 1}}`, accepted, true},
		{`{"required": ["a"], "additionalProperties": false}`, `{"a": 1}`, asked, false},
		{`{"required": ["a", "b"]}`, `{"a": 1, "a": 2}`, asked, false},
	} {
		s := compiled(t, test.schema)
		value := strings.ReplaceAll(test.value, "\n", `\n`)
		if got := s.fast.accepts([]byte(value)); got != test.fast {
			t.Errorf("%s accepts %s: %v, want %v", test.schema, value, got, test.fast)
		}
		if v := s.Validate([]byte(value)); (v == nil) != test.valid {
			t.Errorf("%s: %s: %+v, want valid %v", test.schema, value, v, test.valid)
		}
	}
}

func TestOtherKeywordsAreLeftToTheLibrary(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{
		`"pattern": "x"`, `"multipleOf": 2`, `"uniqueItems": true`, `"minProperties": 1`, `"maxProperties": 1`, `"propertyNames": {}`, `"patternProperties": {"x": {}}`,
		`"allOf": [{}]`, `"anyOf": [{}]`, `"oneOf": [{}]`, `"not": {}`, `"if": {}, "then": {}`, `"contains": {}`, `"prefixItems": [{}]`, `"unevaluatedItems": false`, `"unevaluatedProperties": false`,
		`"dependentRequired": {"a": ["b"]}`, `"dependentSchemas": {"a": {}}`, `"$ref": "#/$defs/a"`, `"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]`, `"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"`,
	} {
		for _, text := range []string{`{%s, "$defs": {"a": {}}}`, `{"items": {%s}, "$defs": {"a": {}}}`, `{"properties": {"p": {%s}}, "$defs": {"a": {}}}`, `{"additionalProperties": {%s}, "$defs": {"a": {}}}`} {
			if strings.Contains(keyword, "$schema") && !strings.HasPrefix(text, "{%s") {
				continue
			}
			if text = fmt.Sprintf(text, keyword); compiled(t, text).fast != nil {
				t.Errorf("%s is taken for plain", text)
			}
		}
	}
}

func TestAcceptingDoesNotAllocate(t *testing.T) {
	s := compiled(t, lampParams)
	value := []byte(lampValue)
	if n := testing.AllocsPerRun(100, func() {
		if v := s.Validate(value); v != nil {
			t.Error(v)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkLamp checks an object of five properties.
func BenchmarkLamp(b *testing.B) {
	s := compiled(b, lampParams)
	value := []byte(lampValue)
	for name, validate := range map[string]func([]byte) *Violation{"node": s.Validate, "library": s.explain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := validate(value); v != nil {
					b.Fatal(v)
				}
			}
		})
	}
}

const (
	lampParams = `{"type": "object", "required": ["room", "on"], "additionalProperties": false, "properties": {
		"room": {"type": "string", "minLength": 1, "maxLength": 64},
		"on": {"type": "boolean"},
		"brightness": {"type": "integer", "minimum": 0, "maximum": 100},
		"mode": {"enum": ["day", "night", "party"]},
		"seconds": {"type": "number", "exclusiveMinimum": 0}}}`
	lampValue = `{"room":"living room","on":true,"brightness":80,"mode":"night","seconds":1.5}`
)
