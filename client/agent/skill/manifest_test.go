package skill

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

const converter = `apiVersion: skill.ooder.net/v1
kind: Skill
metadata:
  id: unit-converter
  name: Unit converter
  version: 1.0.0
  description: Converts units of measurement
  author: Somebody
  keywords: [units, temperature]
spec:
  type: custom
  capabilities:
    - id: celsius_to_fahrenheit
      name: Celsius to Fahrenheit
      description: Converts a temperature
      parameters:
        type: object
        properties:
          celsius: {type: number, minimum: -273.15}
        required: [celsius]
      returns: {type: object}
      idempotent: true
      risk: low
    - id: list-units
      effect: read
  scenes: [SMART_HOME]
  endpoints: ["https://units.example/api"]
`

func TestAManifestIsRead(t *testing.T) {
	t.Parallel()
	m, err := Parse("skill.yaml", []byte(converter))
	if err != nil {
		t.Fatal(err)
	}
	c := m.Capability("celsius_to_fahrenheit")
	if c == nil || !c.Idempotent || c.Risk != "low" || c.Name != "Celsius to Fahrenheit" {
		t.Fatalf("capability: %+v", c)
	}
	c.Params, c.Result = nil, nil
	want := &Manifest{
		ID: "unit-converter", Name: "Unit converter", Version: "1.0.0",
		Description: "Converts units of measurement", Type: "custom",
		Capabilities: []*Capability{c, {ID: "list-units", Effect: "read"}},
		Scenes:       []protocol.SceneType{"SMART_HOME"},
		Endpoints:    []string{"https://units.example/api"},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
}

// manifest is a good skill.yaml with the metadata and spec given.
func manifest(metadata, spec string) string {
	return "apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: " + metadata + "\nspec: " + spec + "\n"
}

const (
	goodMetadata = "{id: a, name: A, version: 1.0.0, description: D}"
	goodSpec     = "{capabilities: [{id: c}]}"
)

func capability(fields string) string {
	return manifest(goodMetadata, "{capabilities: [{id: c, "+fields+"}]}")
}

func TestWhatIsWrongIsNamedWithLineAndField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":                     {"", "f: is empty"},
		"a comment only":            {"# nothing\n", "f: is empty"},
		"a scalar":                  {"hello", "f:1: must be a mapping, not text"},
		"not YAML":                  {"apiVersion: x\nkind: [", "f:2: is not YAML: did not find expected node content"},
		"a tab":                     {"a:\n\tb: 1", "f:2: is not YAML: found character that cannot start any token"},
		"not UTF-8":                 {"name: \xff", "f: is not valid UTF-8"},
		"too large":                 {strings.Repeat("#", MaxManifest+1), "f: is larger than 256 KiB"},
		"two documents":             {converter + "---\n" + converter, "f:28: has more than one YAML document"},
		"an anchor":                 {"a: &x 1", "f:1: uses an anchor or alias; write the value out"},
		"an alias bomb":             {"a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]", "f:1: uses an anchor or alias; write the value out"},
		"a merge key":               {"a:\n  <<: {b: 1}", "f:2: uses a merge key (<<); write the fields out"},
		"a tag":                     {"a: !!binary aGk=", "f:1: uses the tag !!binary, which has no meaning here"},
		"a foreign tag":             {"a: !ruby/object x", "f:1: uses the tag !ruby/object, which has no meaning here"},
		"great depth":               {"a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "f:1: is nested more than 32 levels deep"},
		"great number":              {"a: [" + strings.Repeat("1,", 20_001) + "]", "f:1: has more than 20000 values"},
		"a duplicate":               {"kind: Skill\nkind: Skill", `f:2: the field "kind" is already there in line 1`},
		"a numeric key":             {"1: x", `f:1: a field's name must be text; quote it: "1"`},
		"a composed key":            {"[a]: x", `f:1: a field's name must be text; quote it: ""`},
		"an unknown field":          {converter + "metdata: 1", `f:28: metdata: unknown field, did you mean "metadata"?`},
		"another version":           {strings.Replace(converter, "net/v1", "net/v2", 1), `f:1: apiVersion: must be "skill.ooder.net/v1", not "skill.ooder.net/v2"`},
		"another kind":              {strings.Replace(converter, "kind: Skill", "kind: SkillIndex", 1), `f:2: kind: must be "Skill", not "SkillIndex"`},
		"no spec":                   {"apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: " + goodMetadata, "f:1: spec: is missing"},
		"null spec":                 {manifest(goodMetadata, "null"), "f:1: spec: is missing"},
		"metadata as a list":        {manifest("[1]", goodSpec), "f:3: metadata: must be a mapping, not a list"},
		"no id":                     {manifest("{name: A, version: 1.0.0, description: D}", goodSpec), "f:3: metadata.id: is missing"},
		"an empty id":               {manifest(`{id: "", name: A, version: 1.0.0, description: D}`, goodSpec), "f:3: metadata.id: must have 1 to 64 characters, has 0"},
		"an id with topic levels":   {manifest("{id: a/b, name: A, version: 1.0.0, description: D}", goodSpec), "f:3: metadata.id: may not contain '/'"},
		"a numeric id":              {manifest("{id: 12, name: A, version: 1.0.0, description: D}", goodSpec), `f:3: metadata.id: must be text, not a number; quote it: "12"`},
		"a numeric version":         {manifest("{id: a, name: A, version: 1.0, description: D}", goodSpec), `f:3: metadata.version: must be text, not a number; quote it: "1.0"`},
		"a short version":           {manifest(`{id: a, name: A, version: "1.0", description: D}`, goodSpec), `f:3: metadata.version: must be major.minor.patch, "1.0.0"`},
		"an over-long name":         {manifest("{id: a, name: "+strings.Repeat("ä", 129)+", version: 1.0.0, description: D}", goodSpec), "f:3: metadata.name: must have 1 to 128 characters, has 129"},
		"control characters":        {manifest(`{id: a, name: "A\a", version: 1.0.0, description: D}`, goodSpec), "f:3: metadata.name: may not contain control characters"},
		"a wrong type":              {manifest(goodMetadata, "{type: tool, capabilities: [{id: c}]}"), `f:4: spec.type: must be system or custom, not "tool"`},
		"no capabilities":           {manifest(goodMetadata, "{}"), "f:4: spec.capabilities: is missing"},
		"empty capabilities":        {manifest(goodMetadata, "{capabilities: []}"), "f:4: spec.capabilities: must have 1 to 100 items, has 0"},
		"capabilities as text":      {manifest(goodMetadata, "{capabilities: all}"), "f:4: spec.capabilities: must be a list, not text"},
		"a capability as text":      {manifest(goodMetadata, "{capabilities: [c]}"), "f:4: spec.capabilities[0]: must be a mapping, not text"},
		"a capability twice":        {manifest(goodMetadata, "{capabilities: [{id: c}, {id: c}]}"), `f:4: spec.capabilities[1]: the capability "c" is declared twice`},
		"a capability up the tree":  {manifest(goodMetadata, "{capabilities: [{id: ..}]}"), "f:4: spec.capabilities[0].id: names a script"},
		"a capability with a space": {manifest(goodMetadata, "{capabilities: [{id: a b}]}"), "f:4: spec.capabilities[0].id: names a script"},
		"a capability as a file":    {manifest(goodMetadata, "{capabilities: [{id: a.sh}]}"), `f:4: spec.capabilities[0].id: may not end in .sh: the script scripts/a.sh runs the capability "a"`},
		"a reserved capability":     {manifest(goodMetadata, "{capabilities: [{id: skill.x}]}"), `f:4: spec.capabilities[0].id: may not begin with "skill."`},
		"a misspelt field":          {capability("parametres: {}"), `f:4: spec.capabilities[0].parametres: unknown field, did you mean "parameters"?`},
		"a wrong flag":              {capability("idempotent: 1"), "f:4: spec.capabilities[0].idempotent: must be true or false"},
		"a window of no length":     {capability("effect_window_ms: 0"), `f:4: spec.capabilities[0].effect_window_ms: must be a whole number from 1000 to 86400000`},
		"a list to be done":         {capability("reconcile: {capability: a, done_when: {b: [1]}}"), `f:4: spec.capabilities[0].reconcile.done_when.b: must be a string, a number or a boolean`},
		"nothing to be done":        {capability("reconcile: {capability: a}"), `f:4: spec.capabilities[0].reconcile.done_when: is missing`},
		"a wrong risk":              {capability("risk: huge"), `f:4: spec.capabilities[0].risk: must be low or medium or high or ask or deny, not "huge"`},
		"a wrong effect":            {capability("effect: write"), `f:4: spec.capabilities[0].effect: must be read or act, not "write"`},
		"a scene with a level":      {manifest(goodMetadata, "{capabilities: [{id: c}], scenes: [a+b]}"), "f:4: spec.scenes[0]: may not contain '+'"},
		"an endpoint without host":  {manifest(goodMetadata, "{capabilities: [{id: c}], endpoints: [/api]}"), `f:4: spec.endpoints[0]: must be an absolute URL, "https://host/path"`},
		"an endpoint with secrets":  {manifest(goodMetadata, `{capabilities: [{id: c}], endpoints: ["http://u:p@h"]}`), "f:4: spec.endpoints[0]: may not contain a user name or password"},

		"parameters as a type":     {capability("parameters: number"), "f:4: spec.capabilities[0].parameters: must be a JSON Schema, a list of parameters or a mapping of them, not text"},
		"unnamed parameters":       {capability("parameters: {type: string}"), "f:4: spec.capabilities[0].parameters: parameters are named"},
		"an unknown type":          {capability("parameters: {celsius: int}"), `f:4: spec.capabilities[0].parameters.celsius: "int" is not a type, did you mean "integer"?`},
		"an unknown type within":   {capability("parameters: [{name: celsius, type: Number}]"), `f:4: spec.capabilities[0].parameters[0].type: "Number" is not a type, did you mean "number"?`},
		"an unheard-of type":       {capability("returns: temperature"), `f:4: spec.capabilities[0].returns: "temperature" is not a type; the types are string, number`},
		"a parameter without name": {capability("parameters: [{type: number}]"), "f:4: spec.capabilities[0].parameters[0]: has no name"},
		"a parameter as text":      {capability("parameters: [celsius]"), "f:4: spec.capabilities[0].parameters[0]: must be a mapping like {name: celsius, type: number}, not text"},
		"a parameter twice":        {capability("parameters: [{name: a}, {name: a}]"), `f:4: spec.capabilities[0].parameters[1]: "a" is declared twice`},
		"a bad keyword":            {capability("parameters: {celsius: {type: number, minimum: cold}}"), "f:4: spec.capabilities[0].parameters.celsius.minimum: is not JSON Schema: got string, want number"},
		"a bad keyword in a list":  {capability("parameters: [{name: celsius, minimum: cold}]"), "f:4: spec.capabilities[0].parameters[0].minimum: is not JSON Schema: got string, want number"},
		"a bad keyword in depth":   {capability("parameters: {properties: {a: {items: [1]}}}"), "f:4: spec.capabilities[0].parameters.properties.a.items: is not JSON Schema"},
		"a reference outside":      {capability("parameters: {$ref: 'file:///etc/passwd'}"), "is outside this schema"},
		"not a number":             {capability("parameters: {a: {maximum: .inf}}"), "f:4: spec.capabilities[0].parameters.a.maximum: is not a number JSON can express: .inf"},
		"a monstrous number":       {capability("parameters: {a: {multipleOf: 1e-9999999}}"), "f:4: spec.capabilities[0].parameters.a.multipleOf: is a number out of range: 1e-9999999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse("f", []byte(c.text))
			if err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %v", err, c.want)
			}
		})
	}
}

func TestSeveralProblemsAreToldAtOnceButNotTooMany(t *testing.T) {
	t.Parallel()
	_, err := Parse("f", []byte("apiVersion: x\nkind: y\nmetadata: {}\nspec: {type: z}"))
	problems := Problems(err)
	if len(problems) != 8 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	if p := problems[1]; p.Line != 2 || p.Path != "kind" || p.File != "f" {
		t.Errorf("second problem: %+v", p)
	}
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "unknown%d: 1\n", i)
	}
	_, err = Parse("f", []byte(text.String()))
	if n := len(Problems(err)); n != maxProblems {
		t.Errorf("%d problems told", n)
	}
	if !strings.Contains(err.Error(), "f: and 24 more problems") {
		t.Errorf("the rest is not counted: %v", err)
	}
}

func TestVendorFieldsAreLetAlone(t *testing.T) {
	t.Parallel()
	text := manifest("{id: a, name: A, version: 2.0.0-rc.1, description: D, x-icon: sun}", "{capabilities: [{id: c, x-cost: {per: call}}]}")
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Error(err)
	}
}

func TestShortFormsBecomeJSONSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, params, returns string }{
		"nothing said":  {"name: C", "", ""},
		"null":          {"parameters: null", "", ""},
		"no parameters": {"parameters: {}", `{"type":"object","properties":{},"additionalProperties":false}`, ""},
		"an empty list": {"parameters: []", `{"type":"object","properties":{},"additionalProperties":false}`, ""},
		"a list": {
			"parameters: [{name: celsius, type: number, required: true, description: degrees}, {name: digits, type: integer, default: 1}]",
			`{"type":"object","properties":{"celsius":{"type":"number","description":"degrees"},"digits":{"type":"integer","default":1}},"required":["celsius"],"additionalProperties":false}`, "",
		},
		"a mapping": {
			"parameters: {celsius: {type: number, required: true}, note: string}",
			`{"type":"object","properties":{"celsius":{"type":"number"},"note":{"type":"string"}},"required":["celsius"],"additionalProperties":false}`, "",
		},
		"a parameter called type": {
			"parameters: [{name: type, type: string}]",
			`{"type":"object","properties":{"type":{"type":"string"}},"additionalProperties":false}`, "",
		},
		"a mapping with a parameter called type": {
			"parameters: {type: string, station: string}",
			`{"type":"object","properties":{"type":{"type":"string"},"station":{"type":"string"}},"additionalProperties":false}`, "",
		},
		"an object parameter with required of its own": {
			"parameters: {place: {type: object, required: [lat]}}",
			`{"type":"object","properties":{"place":{"type":"object","required":["lat"]}},"additionalProperties":false}`, "",
		},
		"a schema": {
			"parameters: {type: object, properties: {a: {const: 2026-01-01}, b: {maximum: 0x10}, c: true, d: {default: ~}}}",
			`{"type":"object","properties":{"a":{"const":"2026-01-01"},"b":{"maximum":16},"c":true,"d":{"default":null}}}`, "",
		},
		"a schema with a reference": {
			"parameters: {$defs: {t: {type: number}}, type: object, properties: {a: {$ref: '#/$defs/t'}}}",
			`{"$defs":{"t":{"type":"number"}},"type":"object","properties":{"a":{"$ref":"#/$defs/t"}}}`, "",
		},
		"a type":               {"returns: number", "", `{"type":"number"}`},
		"a type and more":      {"returns: {type: number, minimum: -459.67}", "", `{"type":"number","minimum":-459.67}`},
		"result in a mapping":  {"returns: {fahrenheit: {type: number, required: true}}", "", `{"type":"object","properties":{"fahrenheit":{"type":"number"}},"required":["fahrenheit"]}`},
		"result in a list":     {"returns: [{name: fahrenheit, type: number}]", "", `{"type":"object","properties":{"fahrenheit":{"type":"number"}}}`},
		"digits are preserved": {"returns: {type: number, maximum: 0.10000000000000000001}", "", `{"type":"number","maximum":0.10000000000000000001}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse("f", []byte(capability(c.text)))
			if err != nil {
				t.Fatal(err)
			}
			got := m.Capabilities[0]
			if string(got.Params.JSON()) != c.params {
				t.Errorf("parameters\ngot  %s\nwant %s", got.Params.JSON(), c.params)
			}
			if string(got.Result.JSON()) != c.returns {
				t.Errorf("returns\ngot  %s\nwant %s", got.Result.JSON(), c.returns)
			}
		})
	}
}

func TestAbsentParametersGetTheirDefaults(t *testing.T) {
	t.Parallel()
	m, err := Parse("f", []byte(capability(`parameters: {digits: {type: integer, default: 1}, "a\"b": {default: {x: []}}, other: string}`)))
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		`{}`:                            `{"digits":1,"a\"b":{"x":[]}}`,
		"{\"other\":1}\n":               "{\"other\":1,\"digits\":1,\"a\\\"b\":{\"x\":[]}}",
		`{"digits":null,"a\"b":0}`:      `{"digits":null,"a\"b":0}`,
		`{"digits":2}`:                  `{"digits":2,"a\"b":{"x":[]}}`,
		`[]`:                            `[]`,
		`null`:                          `null`,
		`{"other":"}","a\u0022b":true}`: `{"other":"}","a\u0022b":true,"digits":1}`,
	} {
		if got := m.Capabilities[0].Params.Complete(json.RawMessage(given)); string(got) != want {
			t.Errorf("%s\ngot  %s\nwant %s", given, got, want)
		}
	}
	var none *Schema
	if got := none.Complete(json.RawMessage(`{}`)); string(got) != `{}` {
		t.Errorf("without a schema: %s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(converter))
	f.Add([]byte(capability("parameters: [{name: a, type: number, required: true}], returns: {a: string}")))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("<<: {a: 1}\n? [a]\n: b"))
	f.Add([]byte("---\n...\n---\n"))
	f.Add([]byte("{\"apiVersion\": \"skill.ooder.net/v1\", \"kind\": \"Skill\"}"))
	f.Add([]byte(capability(`parameters: {$ref: "#"}`)))
	f.Add([]byte(capability(`parameters: {properties: {a: {pattern: "(", multipleOf: 0}}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("skill.yaml", data)
		if err != nil {
			if len(Problems(err)) == 0 {
				t.Fatalf("an error without a problem: %v", err)
			}
			return
		}
		for _, c := range m.Capabilities {
			for _, s := range []*Schema{c.Params, c.Result} {
				if s != nil && !json.Valid(s.JSON()) {
					t.Fatalf("schema is not JSON: %s", s.JSON())
				}
			}
			if !fileName.MatchString(string(c.ID)) {
				t.Fatalf("capability id %q", c.ID)
			}
			if out := c.Params.Complete(json.RawMessage(`{}`)); !json.Valid(out) {
				t.Fatalf("completed: %s", out)
			}
		}
	})
}

func TestMisspeltKeywordsAreWarnedOfWithTheirLine(t *testing.T) {
	const text = `apiVersion: skill.ooder.net/v1
kind: Skill
metadata: {id: oven, name: Oven, version: 1.0.0, description: Heats}
spec:
  capabilities:
    - id: heat
      format: assert
      risk: deny
      parameters:
        - name: celsius
          type: number
          maxmum: 300
      returns:
        type: object
        properties:
          at: {type: string, formt: date-time}
    - id: cool
      parameters: {celsius: {type: number, maximum: 5}}
`
	m, err := Parse("oven/skill.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Capabilities[0]; c.Format != "assert" || c.Risk != "deny" {
		t.Errorf("the capability is %+v", c)
	}
	want := []string{
		`oven/skill.yaml:12: spec.capabilities[0].parameters[0].maxmum: is no keyword of JSON Schema and is passed over, did you mean "maximum"?`,
		`oven/skill.yaml:16: spec.capabilities[0].returns.properties.at.formt: is no keyword of JSON Schema and is passed over, did you mean "format"?`,
	}
	var got []string
	for _, w := range m.Warnings {
		got = append(got, w.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("warned of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAPromptHasArguments(t *testing.T) {
	const head = "apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: {id: lamp, name: Lamp, description: Lights, version: 1.0.0}\nspec:\n  capabilities: [{id: light}]\n"
	m, err := Parse("skill.yaml", []byte(head+"  prompt: [{name: room, type: string, required: true, enum: [kitchen, cellar]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(m.Prompt.JSON()), `{"type":"object","properties":{"room":{"type":"string","enum":["kitchen","cellar"]}},"required":["room"],"additionalProperties":false}`; got != want {
		t.Errorf("it is %s", got)
	}
	if _, err := Parse("skill.yaml", []byte(head+"  prompt: room\n")); err == nil || !strings.Contains(err.Error(), "spec.prompt") {
		t.Errorf("a prompt without arguments: %v", err)
	}
}
