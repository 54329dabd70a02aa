package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// schemaTool takes what a JSON Schema says.
func schemaTool(t testing.TB, schema string) *Tool {
	t.Helper()
	tool := &Tool{Declaration: Declaration{Name: "schema", Schema: json.RawMessage(schema)}}
	if err := tool.prepare().err; err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestArgumentsAreReadAsASchemaSays(t *testing.T) {
	const closed = `{"type":"object","properties":{
		"room":{"type":"string"},"celsius":{"type":"number"},"day":{"type":"integer"},"on":{"type":"boolean"},
		"mode":{"enum":["Heat","Cool"]},"at":{"type":"string","format":"date-time"},"link":{"type":"string","format":"uri"},
		"days":{"type":"array","items":{"type":"integer"}},
		"plan":{"type":"object","properties":{"from":{"type":"integer"},"note":{"type":"string"}},"additionalProperties":false},
		"free":{"type":"object"},"levels":{"type":"object","additionalProperties":{"type":"number"}},
		"maybe":{"type":["number","null"]},"either":{"anyOf":[{"type":"integer"},{"type":"null"}]},
		"mixed":{"anyOf":[{"type":"string"},{"type":"number"}]},"ref":{"$ref":"#/$defs/step"},"pair":{"type":"array","prefixItems":[{"type":"integer"}]},
		"any":true
	},"required":["room"],"additionalProperties":false,"$defs":{"step":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/step"}}}}}`
	for _, c := range []struct{ name, schema, raw, want, warning, fault string }{
		{"plain", closed, `{"room":"a","celsius":1.5}`, `{"room":"a","celsius":1.5}`, "", ""},
		{"missing", closed, `{}`, `{}`, "", "missing_required:room"},
		{"null is missing", closed, `{"room":null}`, `{}`, "", "missing_required:room"},
		{"null for what need not be there", closed, `{"room":"a","celsius":null}`, `{"room":"a"}`, "", ""},
		{"null that is meant", closed, `{"room":"a","maybe":null,"either":null,"any":null}`, `{"room":"a","maybe":null,"either":null,"any":null}`, "", ""},
		{"coerced", closed, `{"room":5,"celsius":"1.5","day":"3","on":"true"}`, `{"room":"5","celsius":1.5,"day":3,"on":true}`,
			"non-string literal retained; string coerced to number; string coerced to integer; string coerced to boolean", ""},
		{"or null, coerced", closed, `{"room":"a","maybe":"1","either":"2"}`, `{"room":"a","maybe":1,"either":2}`, "string coerced to number; string coerced to integer", ""},
		{"enum", closed, `{"room":"a","mode":"heat"}`, `{"room":"a","mode":"Heat"}`, "value brought to its declared form", ""},
		{"formats", closed, `{"room":"a","at":"2026-01-01T00:00:00Z","link":"x"}`, `{"room":"a","at":"2026-01-01T00:00:00Z","link":"x"}`, "not an absolute URI, retained", ""},
		{"a bad timestamp", closed, `{"room":"a","at":"noon"}`, `{"room":"a"}`, "", `at: "noon" is not an ISO 8601 timestamp`},
		{"a list", closed, `{"room":"a","days":"1"}`, `{"room":"a","days":[1]}`, "scalar wrapped in a list; string coerced to integer", ""},
		{"a tuple", closed, `{"room":"a","pair":["1","2"]}`, `{"room":"a","pair":["1","2"]}`, "", ""},
		{"inside an object", closed, `{"room":"a","plan":{"from":"8","note":1,"until":9}}`, `{"room":"a","plan":{"from":8,"note":"1"}}`,
			"string coerced to integer; non-string literal retained; unknown_parameter:plan.until", ""},
		{"an object as text", closed, `{"room":"a","plan":"{\"from\":\"8\"}"}`, `{"room":"a","plan":{"from":8}}`, "string parsed as JSON; string coerced to integer", ""},
		{"a free object", closed, `{"room":"a","free":{"x":"1"}}`, `{"room":"a","free":{"x":"1"}}`, "", ""},
		{"a map", closed, `{"room":"a","levels":{"x":"1"}}`, `{"room":"a","levels":{"x":1}}`, "string coerced to number", ""},
		{"a choice is left alone", closed, `{"room":"a","mixed":"1"}`, `{"room":"a","mixed":"1"}`, "", ""},
		{"references", closed, `{"room":"a","ref":{"n":"1","next":{"n":"2"}}}`, `{"room":"a","ref":{"n":1,"next":{"n":2}}}`, "string coerced to integer; string coerced to integer", ""},
		{"twice in an object", closed, `{"room":"a","free":{"x":1,"x":2}}`, `{"room":"a"}`, "", `free: has the member "x" twice`},
		{"unknown", closed, `{"room":"a","rom":1}`, `{"room":"a"}`, "unknown_parameter:rom", ""},

		{"nothing said of others", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"1","b":2}`, `{"a":"1"}`, "unknown_parameter:b", ""},
		{"others are welcome", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, `{"a":"1","b":2}`, `{"a":"1","b":2}`, "", ""},
		{"others are typed", `{"type":"object","additionalProperties":{"type":"integer"}}`, `{"b":"2"}`, `{"b":2}`, "string coerced to integer", ""},
		{"others by pattern", `{"type":"object","properties":{},"patternProperties":{"^x":{}}}`, `{"x1":2}`, `{"x1":2}`, "", ""},
		{"members elsewhere", `{"type":"object","properties":{"a":{"type":"integer"}},"oneOf":[{"properties":{"b":{}}}]}`, `{"a":"1","b":2}`, `{"a":1,"b":2}`, "string coerced to integer", ""},
		{"anything", `{}`, `{"b":2}`, `{"b":2}`, "", ""},
		{"true", `true`, `{"b":2}`, `{"b":2}`, "", ""},
		{"names with escapes", `{"type":"object","properties":{"a\\b":{"type":"integer"},"c\"d":{"type":"integer"},"é":{"type":"integer"}}}`,
			`{"a\\b":"1","c\"d":"2","\u00e9":"3","a\b":4}`, `{"a\\b":1,"c\"d":2,"é":3}`,
			"string coerced to integer; string coerced to integer; string coerced to integer; unknown_parameter:a\b", ""},
		{"required and not described", `{"type":"object","required":["a"]}`, `{"b":2}`, `{"b":2}`, "", "missing_required:a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Parse(schemaTool(t, c.schema), []byte(c.raw))
			if string(p.JSON) != c.want || p.Warning() != c.warning || p.Error() != c.fault {
				t.Errorf("%s is read as %s\nwarning %q\nfault %q", c.raw, p.JSON, p.Warning(), p.Error())
			}
		})
	}
}

func TestSchemasThatAreNoneAreRefused(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string"}`: `tool "x": the schema of its parameters is not that of an object`,
		`false`:             `tool "x": the schema of its parameters refuses everything`,
		`[]`:                `tool "x": the schema of its parameters is not a JSON Schema`,
		`{`:                 `tool "x": the schema of its parameters is not a JSON Schema`,
		`{"properties":7}`:  `tool "x": the schema of its parameters is not a JSON Schema`,
		`{"a":"` + strings.Repeat("x", 70000) + `"}`: `tool "x": the schema of its parameters has 70008 bytes, at most 65536 are allowed`,
	} {
		tool := &Tool{Declaration: Declaration{Name: "x", Schema: json.RawMessage(schema)}}
		if err := tool.prepare().err; err == nil || err.Error() != want {
			t.Errorf("%.40s: %v", schema, err)
		}
	}
}

func TestASchemaThatUnfoldsToMuchIsReadInLittleTime(t *testing.T) {
	var properties []string
	for i := range 50 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
	}
	inner := `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`
	n, err := importSchema(json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":` + inner + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	var count func(n *node) int
	count = func(n *node) (total int) {
		if n == nil {
			return 0
		}
		for i := range n.members.list {
			total += count(n.members.list[i].node)
		}
		return total + 1
	}
	if got := count(n); got > maxSchemaNodes+1 {
		t.Errorf("it unfolds to %d nodes", got)
	}
}
