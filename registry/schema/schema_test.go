package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func compiled(t testing.TB, text string) *Schema {
	t.Helper()
	src, err := NewSource([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(src, Annotate)
	if err != nil {
		t.Fatalf("Compile(%.80s): %v", text, err)
	}
	return s
}

func TestValidateNamesThePlaceAndTheReason(t *testing.T) {
	t.Parallel()
	const thermostat = `{
		"type": "object",
		"required": ["celsius", "room"],
		"additionalProperties": false,
		"properties": {
			"celsius": {"type": "number", "minimum": -50, "maximum": 100},
			"room": {"enum": ["kitchen", "bath"]},
			"mode": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]},
			"times": {"type": "array", "uniqueItems": true, "items": {"type": "integer", "multipleOf": 5}}
		}
	}`
	s := compiled(t, thermostat)
	for _, test := range []struct{ value, path, reason string }{
		{`{"celsius": 21.5, "room": "bath", "times": [5, 10]}`, "", ""},
		{`{"celsius": 21.5, "room": "bath", "times": [5, 10, 1e1]}`, "params.times", "items at 1 and 2 are equal"},
		{`{"room": "bath"}`, "params.celsius", "is missing"},
		{`{}`, "params.celsius", "is missing"},
		{`{"celsius": "warm", "room": "bath"}`, "params.celsius", "must be number, is string"},
		{`{"celsius": 200, "room": "bath"}`, "params.celsius", "must be at most 100, is 200"},
		{`{"celsius": 20, "room": "attic"}`, "params.room", `must be one of "kitchen", "bath"`},
		{`{"celsius": 20, "room": "bath", "zz": 1, "aa": 2}`, "params.aa", "is not known"},
		{`{"celsius": 20, "room": "bath", "mode": 7}`, "params.mode", "matches none of the alternatives"},
		{`{"celsius": 20, "room": "bath", "times": [5, 7]}`, "params.times[1]", "must be a multiple of 5, is 7"},
		{`[]`, "params", "must be object, is array"},
		{`{"celsius": 1e999, "room": "bath"}`, "params", "holds a number that is out of range"},
	} {
		for range 5 { // the same value always gets the same answer
			v := s.Validate([]byte(test.value))
			switch {
			case v == nil && test.reason != "":
				t.Errorf("%s: valid, want %s: %s", test.value, test.path, test.reason)
			case v != nil && (v.In("params") != test.path || v.Reason != test.reason):
				t.Errorf("%s:\n got %s: %s\nwant %s: %s", test.value, v.In("params"), v.Reason, test.path, test.reason)
			}
		}
	}
}

func TestNoSchemaLetsEverythingPass(t *testing.T) {
	t.Parallel()
	s, err := Compile(Source{}, Annotate)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.Validate([]byte(`{"any": ["thing"]}`)); v != nil {
		t.Errorf("Validate: %s", v.at("value"))
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	doubling := strings.Builder{}
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, test := range map[string]struct{ text, want string }{
		"what is not a schema":        {`{"type": "temperature"}`, "is not a JSON Schema: schema.type: "},
		"a number":                    {`7`, "must be an object"},
		"a list":                      {`[]`, "must be an object"},
		"references to the web":       {`{"$ref": "https://example.org/s.json"}`, "references to other documents are not followed"},
		"references to files":         {`{"$ref": "file:///etc/passwd"}`, "references to other documents are not followed"},
		"relative references":         {`{"$ref": "other.json"}`, "references to other documents are not followed"},
		"a draft from the web":        {`{"$schema": "https://example.org/draft"}`, "references to other documents are not followed"},
		"references to nothing":       {`{"$ref": "#/$defs/none"}`, "none"},
		"references in a circle":      {`{"$ref": "#"}`, "refers to itself in a circle"},
		"a long circle":               {`{"allOf": [{"not": {"$ref": "#"}}]}`, "refers to itself in a circle"},
		"dynamic references":          {`{"$dynamicRef": "#node", "$defs": {"n": {"$dynamicAnchor": "node"}}}`, "not supported"},
		"regular expressions asked":   {`{"$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"}`, "not supported"},
		"bad regular expressions":     {`{"pattern": "("}`, "is not a JSON Schema"},
		"huge regular expressions":    {`{"pattern": "((a{100}){100}){10}"}`, ""},
		"many regular expressions":    {`{"allOf": [` + strings.Repeat(`{"pattern": "x{300}y*"},`, 30) + `{}]}`, ""},
		"doubling with every line":    {`{"$ref": "#/$defs/d0", "$defs": {` + doubling.String() + `"d40": {"type": "string"}}}`, "takes too long"},
		"doubling with every level":   {`{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}`, "takes too long"},
		"doubling by patterns":        {`{"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}`, "takes too long"},
		"text over the limit":         {`{"description": "` + strings.Repeat("x", MaxBytes) + `"}`, "at most 16384"},
		"nesting over the limit":      {strings.Repeat(`{"not":`, 40) + `{}` + strings.Repeat(`}`, 40), "nested more than 32"},
		"numbers of a million digits": {`{"minimum": 1e999999}`, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, err := NewSource([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = Compile(src, Annotate)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
			if name == "many regular expressions" { // the same one thirty times is one
				if err != nil {
					t.Errorf("Compile: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Compile: %v, want … %s …", err, test.want)
			}
		})
	}
}

func TestRecursiveSchemasAreFine(t *testing.T) {
	t.Parallel()
	s := compiled(t, `{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "number"}}}`)
	if v := s.Validate([]byte(`{"left": {"right": {"value": 1}}}`)); v != nil {
		t.Errorf("valid tree: %s", v.at("tree"))
	}
	if v := s.Validate([]byte(`{"left": {"right": {"value": "1"}}}`)); v == nil || v.In("tree") != "tree.left.right.value" {
		t.Errorf("invalid tree: %+v", v)
	}
}

func TestHostileValuesTakeBoundedTime(t *testing.T) {
	t.Parallel()
	enum, numbers := make([]string, 2000), make([]string, 200_000)
	nested := make([]string, 0, 30_000)
	for i := range enum {
		enum[i] = fmt.Sprint(i)
	}
	for i := range numbers {
		numbers[i] = "0.5"
	}
	for i := range cap(nested) { // all of these share one hash in the validator's own uniqueItems
		text := ""
		for bit := range 16 {
			if i>>bit&1 == 1 {
				text += "[[]],[],"
			} else {
				text += "[],[[]],"
			}
		}
		nested = append(nested, "["+strings.TrimSuffix(text, ",")+"]")
	}
	for name, test := range map[string]struct{ schema, value string }{
		"a long enum and many items":        {`{"items": {"enum": [` + strings.Join(enum, ",") + `]}}`, "[" + strings.Join(numbers, ",") + "]"},
		"items made to collide":             {`{"uniqueItems": true}`, "[" + strings.Join(nested, ",") + "]"},
		"exponents of a million":            {`{"items": {"type": "integer"}}`, "[" + strings.Repeat("1e-999999,", 50_000) + "1]"},
		"a heavy pattern and a long string": {`{"pattern": "(x+x+){50}y"}`, `"` + strings.Repeat("x", 50_000) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compiled(t, test.schema)
			began := time.Now()
			s.Validate([]byte(test.value))
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestUniqueItemsComparesByValue(t *testing.T) {
	t.Parallel()
	s := compiled(t, `{"uniqueItems": true}`)
	for value, valid := range map[string]bool{
		`[1, 2, 3]`:                            true,
		`[1, 1.0]`:                             false,
		`[0.5, 5e-1]`:                          false,
		`[9007199254740993, 9007199254740992]`: true,
		`[9007199254740993, 9007199254740993]`: false,
		`[0, -0]`:                              false,
		`[{"a": 1, "b": 2}, {"b": 2, "a": 1}]`: false,
		`["1", 1, true, null, [], {}, [1]]`:    true,
		`["a,b", "a", "b"]`:                    true,
		`[["a"], ["a"]]`:                       false,
		`"not an array"`:                       true,
	} {
		if v := s.Validate([]byte(value)); (v == nil) != valid {
			t.Errorf("%s: %+v, want valid %v", value, v, valid)
		}
	}
}

func TestEqualSourcesAreOne(t *testing.T) {
	t.Parallel()
	var a, b struct {
		S Source `json:"s"`
	}
	for text, into := range map[string]any{`{"s": {"type": "string"}}`: &a, `{"s":{ "type":"string" }}`: &b} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if a.S != b.S {
		t.Errorf("%s and %s differ", a.S, b.S)
	}
	if text, err := json.Marshal(a); err != nil || string(text) != `{"s":{"type":"string"}}` {
		t.Errorf("Marshal: %s, %v", text, err)
	}
	if text, err := json.Marshal(Source{}); err != nil || string(text) != `null` {
		t.Errorf("Marshal(no schema): %s, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"s": null}`), &a); err != nil || !a.S.IsZero() {
		t.Errorf("Unmarshal(null): %v, %v", a.S, err)
	}
}

func TestFormatsAreAssertedOnDemand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schema, good, bad string }{
		{`{"type":"object","properties":{"at":{"type":"string","format":"date-time"}}}`, `{"at":"2026-11-22T06:00:00Z"}`, `{"at":"tomorrow"}`},
		{`{"format":"email"}`, `"ada@example.com"`, `"ada"`},
		{`{"items":{"format":"ipv4"}}`, `["10.0.0.1"]`, `["10.0.0.256"]`},
		{`{"$defs":{"u":{"format":"uuid"}},"$ref":"#/$defs/u"}`, `"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, `"1"`},
	} {
		src, err := NewSource([]byte(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		c := NewCache(8)
		said, err := c.Get(src, Annotate)
		if err != nil {
			t.Fatal(err)
		}
		asserted, err := c.Get(src, Assert)
		if err != nil || asserted == said {
			t.Fatal("one is taken for the other", err)
		}
		if v := said.Validate([]byte(test.bad)); v != nil {
			t.Errorf("%s, only said, refuses %s: %v", test.schema, test.bad, v)
		}
		if v := asserted.Validate([]byte(test.good)); v != nil {
			t.Errorf("%s, asserted, refuses %s: %v", test.schema, test.good, v)
		}
		if asserted.Validate([]byte(test.bad)) == nil {
			t.Errorf("%s, asserted, takes %s", test.schema, test.bad)
		}
	}
}

func TestCacheIsBoundedAndCompilesOnce(t *testing.T) {
	t.Parallel()
	c := NewCache(8)
	source := func(i int) Source {
		src, err := NewSource(fmt.Appendf(nil, `{"maximum": %d}`, i))
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	first, err := c.Get(source(0), Annotate)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.Get(source(i), Annotate); err != nil {
			t.Fatal(err)
		}
		if again, _ := c.Get(source(0), Annotate); again != first {
			t.Fatalf("a schema in use was compiled again after %d others", i)
		}
	}
	if kept := len(c.young) + len(c.old); kept > 8 {
		t.Errorf("keeps %d schemas, want at most 8", kept)
	}
	bad, _ := NewSource([]byte(`{"type": 7}`))
	if _, err := c.Get(bad, Annotate); err == nil {
		t.Error("a bad schema was compiled")
	}
}

// FuzzSchema checks that no schema and no value can make compiling or
// checking panic or hang.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type": "object", "properties": {"a": {"type": "number"}}}`, `{"a": 1}`)
	f.Add(`{"$ref": "#/$defs/a", "$defs": {"a": {"enum": [1, "x", null]}}}`, `"x"`)
	f.Add(`{"patternProperties": {"^a+$": {"uniqueItems": true}}, "unevaluatedProperties": false}`, `{"a": [1, 1.0]}`)
	f.Add(`{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}, "if": {"const": 1}}`, `1e400`)
	f.Add(`{"prefixItems": [{"multipleOf": 1e-300}], "contains": {"minLength": 2}, "maxContains": 1}`, `[0.1, "ab"]`)
	f.Fuzz(func(t *testing.T, text, value string) {
		src, err := NewSource([]byte(text))
		if err != nil {
			return
		}
		s, err := Compile(src, Annotate)
		if err != nil {
			return
		}
		if v := s.Validate([]byte(value)); v != nil && v.Reason == "" {
			t.Errorf("a violation without a reason: %+v", v)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	src, _ := NewSource([]byte(thermostatParams))
	for b.Loop() {
		if _, err := Compile(src, Annotate); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	s := compiled(b, thermostatParams)
	value := []byte(`{"celsius": 21.5, "room": "kitchen"}`)
	b.ReportAllocs()
	for b.Loop() {
		if v := s.Validate(value); v != nil {
			b.Fatal(v)
		}
	}
}

const thermostatParams = `{"type":"object","required":["celsius"],"additionalProperties":false,
	"properties":{"celsius":{"type":"number","minimum":-50,"maximum":100},"room":{"type":"string","maxLength":64}}}`
