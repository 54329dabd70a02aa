package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

// all has a parameter of every kind and cardinality.
func all(t testing.TB) *Tool {
	t.Helper()
	tool := &Tool{Declaration: Declaration{Name: "all", Parameters: []Parameter{
		{Name: "text", Kind: String},
		{Name: "flag", Kind: Boolean},
		{Name: "count", Kind: Integer},
		{Name: "share", Kind: Number},
		{Name: "object", Kind: JSONObject},
		{Name: "array", Kind: JSONArray},
		{Name: "when", Kind: Timestamp},
		{Name: "where", Kind: URI},
		{Name: "mode", Kind: EnumToken, Enum: []string{"Heat", "Cool"}},
		{Name: "exact", Kind: EnumToken, Enum: []string{"Heat", "heat", "Cool"}, CaseSensitive: true},
		{Name: "level", Kind: Integer, Enum: []string{"1", "2"}},
		{Name: "file", Kind: AttachmentReference},
		{Name: "maybe", Kind: Integer, Cardinality: Optional},
		{Name: "texts", Kind: String, Cardinality: List},
		{Name: "counts", Kind: Integer, Cardinality: List},
		{Name: "objects", Kind: JSONObject, Cardinality: List},
		{Name: "named", Kind: Number, Cardinality: Map},
	}}}
	if p := tool.prepare(); p.err != nil {
		t.Fatal(p.err)
	}
	return tool
}

func TestArgumentsAreReadLeniently(t *testing.T) {
	tool := all(t)
	for _, c := range []struct{ name, raw, want, warning, fault string }{
		{name: "nothing", raw: ``, want: `{}`},
		{name: "white space", raw: " \n", want: `{}`},
		{name: "an empty object", raw: `{}`, want: `{}`},

		{name: "text", raw: `{"text":"a\u00e9\n"}`, want: `{"text":"aé\n"}`},
		{name: "empty text counts", raw: `{"text":""}`, want: `{"text":""}`},
		{name: "true is text", raw: `{"text":true}`, want: `{"text":"true"}`, warning: "non-string literal retained"},
		{name: "a number is text as it stands", raw: `{"text":1.50}`, want: `{"text":"1.50"}`, warning: "non-string literal retained"},
		{name: "an object is text as it stands", raw: `{"text":{ "a":1}}`, want: `{"text":"{ \"a\":1}"}`, warning: "non-string literal retained"},
		{name: "text that looks like a boolean stays", raw: `{"text":"true"}`, want: `{"text":"true"}`},
		{name: "a line break in text", raw: "{\"text\":\"a\nb\"}", want: `{"text":"a\nb"}`, warning: "unescaped control character in a string"},

		{name: "boolean", raw: `{"flag":true}`, want: `{"flag":true}`},
		{name: "boolean as text", raw: `{"flag":"true"}`, want: `{"flag":true}`, warning: "string coerced to boolean"},
		{name: "boolean as capital text", raw: `{"flag":"False"}`, want: `{"flag":false}`, warning: "string coerced to boolean"},
		{name: "one is true", raw: `{"flag":1}`, want: `{"flag":true}`, warning: "number coerced to boolean"},
		{name: "zero is false", raw: `{"flag":0}`, want: `{"flag":false}`, warning: "number coerced to boolean"},
		{name: "two is no boolean", raw: `{"flag":2}`, want: `{}`, fault: `flag: 2 is not a boolean`},
		{name: "yes is no boolean", raw: `{"flag":"yes"}`, want: `{}`, fault: `flag: "yes" is not a boolean`},
		{name: "a list is no boolean", raw: `{"flag":[true]}`, want: `{}`, fault: `flag: [true] is not a boolean`},

		{name: "integer", raw: `{"count":-42}`, want: `{"count":-42}`},
		{name: "integer as text", raw: `{"count":"42"}`, want: `{"count":42}`, warning: "string coerced to integer"},
		{name: "integer with an exponent", raw: `{"count":4.2e1}`, want: `{"count":42}`},
		{name: "a fraction is cut off", raw: `{"count":3.7}`, want: `{"count":3}`, warning: "number truncated to integer"},
		{name: "a fraction as text is cut off", raw: `{"count":"-3.7"}`, want: `{"count":-3}`, warning: "string coerced to integer; number truncated to integer"},
		{name: "the largest integer", raw: `{"count":9223372036854775807}`, want: `{"count":9223372036854775807}`},
		{name: "an integer too large", raw: `{"count":9223372036854775808}`, want: `{}`, fault: `count: 9223372036854775808 is not an integer of 64 bits`},
		{name: "an exponent too large", raw: `{"count":1e300}`, want: `{}`, fault: `count: 1e300 is not an integer of 64 bits`},
		{name: "letters are no integer", raw: `{"count":"x"}`, want: `{}`, fault: `count: "x" is not an integer`},
		{name: "empty text is no integer", raw: `{"count":""}`, want: `{}`, fault: `count: "" is not an integer`},
		{name: "true is no integer", raw: `{"count":true}`, want: `{}`, fault: `count: true is not an integer`},

		{name: "number", raw: `{"share":21.50}`, want: `{"share":21.50}`},
		{name: "number as text", raw: `{"share":" 21.5 "}`, want: `{"share":21.5}`, warning: "string coerced to number"},
		{name: "infinity is no number", raw: `{"share":"Infinity"}`, want: `{}`, fault: `share: "Infinity" is not a number`},
		{name: "a number too large", raw: `{"share":1e400}`, want: `{}`, fault: `share: 1e400 is too large`},

		{name: "object", raw: `{"object":{"a":[1,null,"b"]}}`, want: `{"object":{"a":[1,null,"b"]}}`},
		{name: "object as text", raw: `{"object":"{\"a\":1}"}`, want: `{"object":{"a":1}}`, warning: "string parsed as JSON"},
		{name: "other text is no object", raw: `{"object":"a"}`, want: `{}`, fault: `object: "a" is not an object`},
		{name: "a list is no object", raw: `{"object":[1]}`, want: `{}`, fault: `object: [1] is not an object`},
		{name: "a list as text is no object", raw: `{"object":"[1]"}`, want: `{}`, fault: `object: "[1]" is not an object`},

		{name: "array", raw: `{"array":[1,[2]]}`, want: `{"array":[1,[2]]}`},
		{name: "array as text", raw: `{"array":"[1]"}`, want: `{"array":[1]}`, warning: "string parsed as JSON"},
		{name: "a scalar is no array", raw: `{"array":1}`, want: `{}`, fault: `array: 1 is not a list`},

		{name: "timestamp", raw: `{"when":"2026-01-02T03:04:05Z"}`, want: `{"when":"2026-01-02T03:04:05Z"}`},
		{name: "date", raw: `{"when":"2026-01-02"}`, want: `{"when":"2026-01-02"}`},
		{name: "tomorrow is no timestamp", raw: `{"when":"tomorrow"}`, want: `{}`, fault: `when: "tomorrow" is not an ISO 8601 timestamp`},
		{name: "a number is no timestamp", raw: `{"when":1700000000}`, want: `{}`, fault: `when: 1700000000 is not an ISO 8601 timestamp`},

		{name: "URI", raw: `{"where":"https://example.com/a"}`, want: `{"where":"https://example.com/a"}`},
		{name: "relative URI", raw: `{"where":"/a"}`, want: `{"where":"/a"}`, warning: "not an absolute URI, retained"},
		{name: "bad URI", raw: `{"where":"http://[bad"}`, want: `{"where":"http://[bad"}`, warning: "not an absolute URI, retained"},

		{name: "token", raw: `{"mode":"Heat"}`, want: `{"mode":"Heat"}`},
		{name: "token of another case", raw: `{"mode":"hEAT"}`, want: `{"mode":"Heat"}`, warning: "value brought to its declared form"},
		{name: "token written as a string twice", raw: `{"mode":"\"Cool\""}`, want: `{"mode":"Cool"}`, warning: "value brought to its declared form"},
		{name: "a stranger", raw: `{"mode":"dry"}`, want: `{}`, fault: `mode: "dry" is none of "Heat", "Cool"`},
		{name: "case counts", raw: `{"exact":"COOL"}`, want: `{}`, fault: `exact: "COOL" is none of "Heat", "heat", "Cool"`},
		{name: "case is kept", raw: `{"exact":"heat"}`, want: `{"exact":"heat"}`},
		{name: "integer of a set", raw: `{"level":"2"}`, want: `{"level":2}`, warning: "string coerced to integer"},
		{name: "integer not of the set", raw: `{"level":3}`, want: `{}`, fault: `level: 3 is none of "1", "2"`},
		{name: "attachment", raw: `{"file":"a1"}`, want: `{"file":"a1"}`},

		{name: "null for what need not be there", raw: `{"maybe":null,"count":null}`, want: `{"maybe":null}`},
		{name: "optional value", raw: `{"maybe":7}`, want: `{"maybe":7}`},

		{name: "list", raw: `{"texts":["a","b"]}`, want: `{"texts":["a","b"]}`},
		{name: "empty list", raw: `{"texts":[]}`, want: `{"texts":[]}`},
		{name: "a scalar is wrapped", raw: `{"texts":"a"}`, want: `{"texts":["a"]}`, warning: "scalar wrapped in a list"},
		{name: "a number is wrapped", raw: `{"counts":5}`, want: `{"counts":[5]}`, warning: "scalar wrapped in a list"},
		{name: "wrapped and coerced", raw: `{"counts":"5"}`, want: `{"counts":[5]}`, warning: "scalar wrapped in a list; string coerced to integer"},
		{name: "an object is wrapped", raw: `{"objects":{"a":1}}`, want: `{"objects":[{"a":1}]}`, warning: "scalar wrapped in a list"},
		{name: "list as text", raw: `{"counts":"[1,2]"}`, want: `{"counts":[1,2]}`, warning: "string parsed as JSON"},
		{name: "elements are coerced", raw: `{"counts":[1,"2",3.5]}`, want: `{"counts":[1,2,3]}`, warning: "string coerced to integer; number truncated to integer"},
		{name: "a bad element", raw: `{"counts":[1,"b",3],"text":"c"}`, want: `{"text":"c"}`, fault: `counts: "b" is not an integer`},
		{name: "null in a list", raw: `{"counts":[null]}`, want: `{}`, fault: `counts: null is no value of an integer`},

		{name: "map", raw: `{"named":{"a":1,"b":2.5}}`, want: `{"named":{"a":1,"b":2.5}}`},
		{name: "values of a map are coerced", raw: `{"named":{"a":"1"}}`, want: `{"named":{"a":1}}`, warning: "string coerced to number"},
		{name: "map as text", raw: `{"named":"{\"a\":1}"}`, want: `{"named":{"a":1}}`, warning: "string parsed as JSON"},
		{name: "a list is no map", raw: `{"named":[1]}`, want: `{}`, fault: `named: [1] is not an object`},
		{name: "a scalar is no map", raw: `{"named":1}`, want: `{}`, fault: `named: 1 is not an object`},

		{name: "unknown", raw: `{"flag":true,"flog":{"a":1}}`, want: `{"flag":true}`, warning: "unknown_parameter:flog"},
		{name: "several", raw: `{"flag":1,"x":1,"text":5}`, want: `{"flag":true,"text":"5"}`, warning: "number coerced to boolean; unknown_parameter:x; non-string literal retained"},
		{name: "twice", raw: `{"count":1,"count":2}`, want: `{"count":2}`, warning: "duplicate_parameter:count"},

		{name: "trailing commas", raw: `{"counts":[1,2,],}`, want: `{"counts":[1,2]}`},
		{name: "comments", raw: "// so\n{/* a */\"count\": /* b */ 1 // c\n}\n/* end */", want: `{"count":1}`},
		{name: "no comment in a string", raw: `{"text":"a // b /* c */"}`, want: `{"text":"a // b /* c */"}`},
		{name: "a code fence", raw: "```json\n{\"count\":1}\n```", want: `{"count":1}`},
		{name: "everything as text", raw: `"{\"count\":\"1\"}"`, want: `{"count":1}`, warning: "string coerced to integer; string parsed as JSON"},
		{name: "keys with escapes", raw: `{"\u0066lag":true}`, want: `{"flag":true}`},

		{name: "a list", raw: `[1]`, fault: "arguments_must_be_object"},
		{name: "a number", raw: `42`, fault: "arguments_must_be_object"},
		{name: "null", raw: `null`, fault: "arguments_must_be_object"},
		{name: "text", raw: `"hello"`, fault: "arguments_must_be_object"},
		{name: "cut off", raw: `{"count":1`, fault: "json_parse_error:unexpected end at offset 10"},
		{name: "cut off in a string", raw: `{"text":"a`, fault: "json_parse_error:unexpected end at offset 10"},
		{name: "no JSON", raw: `count=1`, fault: "json_parse_error:unexpected 'c' at offset 0"},
		{name: "a missing value", raw: `{"count":}`, fault: "json_parse_error:unexpected '}' at offset 9"},
		{name: "a comma alone", raw: `{,}`, fault: "json_parse_error:unexpected ',' at offset 1"},
		{name: "more behind", raw: `{"count":1} {}`, fault: "json_parse_error:unexpected '{' at offset 12"},
		{name: "a leading zero", raw: `{"count":01}`, fault: "json_parse_error:unexpected '0' at offset 9"},
		{name: "a bad escape", raw: `{"text":"\x"}`, fault: "json_parse_error:bad escape in the string at offset 8"},
		{name: "a comment without end", raw: `{/*`, fault: "json_parse_error:unexpected end at offset 3"},
		{name: "too deep", raw: `{"array":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, fault: "json_parse_error:nested more than 64 levels deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Parse(tool, []byte(c.raw))
			if string(p.JSON) != c.want {
				t.Errorf("%s is read as %s, want %s", c.raw, p.JSON, c.want)
			}
			if p.Warning() != c.warning {
				t.Errorf("%s: warning %q, want %q", c.raw, p.Warning(), c.warning)
			}
			if p.Error() != c.fault {
				t.Errorf("%s: fault %q, want %q", c.raw, p.Error(), c.fault)
			}
			if p.JSON == nil {
				return
			}
			var again map[string]any
			if err := json.Unmarshal(p.JSON, &again); err != nil || len(again) != len(p.Arguments) {
				t.Errorf("the arguments %v are written as %s: %v", p.Arguments, p.JSON, err)
			}
		})
	}
}
