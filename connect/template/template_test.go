package template

import (
	"errors"
	"strings"
	"testing"
)

// message is the message as the templates of the table see it.
const message = `{"state":"ON","temperature":21.456,"humidity":40,"moving":false,"running_state":null,"ENERGY":{"Power":12},
	"color":{"x":0.3,"y":0.4},"list":[1,"two"],"level":254,"text":"a\"b"}`

func variables(t testing.TB) Vars {
	t.Helper()
	v, err := FromJSON([]byte(message))
	if err != nil {
		t.Fatal(err)
	}
	return Vars{"value_json": v, "value": message, "brightness": int64(50), "on": true, "name": "x"}
}

func TestTemplatesRenderAsInHomeAssistant(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"plain {text}":                                             "plain {text}",
		"{{ value_json.state }}":                                   "ON",
		"{{value_json['ENERGY'].Power}}":                           "12",
		"{{ value_json[\"state\"] | lower }}":                      "on",
		"{{ value_json.temperature | round(1) }}":                  "21.5",
		"{{ value_json.temperature | round }}":                     "21",
		"{{ value_json.temperature | float | round(2) }}":          "21.46",
		"{{ '12.7' | int }}":                                       "12",
		"{{ 'x' | int(5) }}":                                       "5",
		"{{ value_json.none_such | default('unknown') }}":          "unknown",
		"{{ value_json.a.b.c | default(0) }}":                      "0",
		"{{ '' | default('x', true) }}":                            "x",
		"{{ value_json.level / 2.54 }}":                            "100.0",
		"{{ (value_json.level / 2.54) | int }}":                    "100",
		"{{ value_json.level // 2 }}":                              "127",
		"{{ -7 // 2 }} {{ -7 % 3 }}":                               "-4 2",
		"{{ 1 + 2 * 3 - 4 }}":                                      "3",
		"{{ value_json.humidity > 30 and not value_json.moving }}": "True",
		"{{ 'open' if value_json.moving else 'closed' }}":          "closed",
		"{% if value_json.moving %}moving{% elif value_json.level == 254 %}full{% else %}stopped{% endif %}":  "full",
		"{% set values = {None:None,'idle':'idle','heat':'heating'} %}{{ values[value_json.running_state] }}": "None",
		" {%- if true -%} x {%- endif -%} ":                               "x",
		"{{ value_json.color.x ~ ',' ~ value_json.color.y }}":             "0.3,0.4",
		"{{ value_json.color | tojson }}":                                 `{"x":0.3,"y":0.4}`,
		"{{ value_json.text | tojson }}":                                  `"a\"b"`,
		"{{ value_json.list[1] }} {{ value_json.list[-2] }}":              "two 1",
		"{{ 'a,b'.split(',')[1].upper() }}":                               "B",
		"{{ value_json.state == 'ON' }} {{ '1' == 1 }}":                   "True False",
		"{{ value_json.x is defined }} {{ value_json.x is not defined }}": "False True",
		"{{ value_json.running_state is none }}":                          "True",
		"{{ 'two' in value_json.list }} {{ 'z' not in 'xy' }}":            "True True",
		"{{ float(value_json.level) + 1 }}":                               "255.0",
		"{{ max(1, 3, 2) }} {{ [1, 3] | min }}":                           "3 1",
		"{{ iif(value_json.moving, 'a', 'b') }}":                          "b",
		"{# nothing #}x":                                                  "x",
		"{{ {'a': {'b': 1}}['a']['b'] }}":                                 "1",
		"{{ value_json.get('nothing', 'else') }}":                         "else",
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := parsed.Render(variables(t)); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", source, got, err, want)
		}
	}
}

func TestWhatIsNotUnderstoodIsNamed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ states('sensor.x') }}":                  "the function states is not understood",
		"{{ value | timestamp_local }}":             `the filter "timestamp_local" is not understood`,
		"{% for x in y %}{% endfor %}":              "{% for %} is not understood",
		"{% macro m() %}{% endmacro %}":             "{% macro %} is not understood",
		"{{ value.__class__() }}":                   "the method __class__ is not understood",
		"{{ x is divisibleby }}":                    `the test "divisibleby" is not understood`,
		"{{ value":                                  "}} is missing",
		"{{ 'open }}":                               "a string is not closed",
		"{% if x %}":                                "{% endif %} is missing",
		"{% endif %}":                               "{% endif %} without {% if %}",
		"{% if x %}{% else %}{% else %}{% endif %}": "{% else %} after {% else %}",
		"{{ }}":                          `a value is expected, and there is "}}"`,
		"{{ 1.2.3 }}":                    "1.2.3 is not a number",
		"{{ a b }}":                      `}} is expected, and there is "b"`,
		"{{ x | round(1,2,3,4) }}":       "round does not take 5 arguments",
		"{{ a ; b }}":                    `";" is not understood`,
		strings.Repeat("x", MaxSource+1): "a template has at most 8192 bytes",
		"{{" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "}}": "nested more than 40 deep",
		"{{" + strings.Repeat("-", 100) + "1}}":                                 "nested more than 40 deep",
		"{{" + strings.Repeat("not ", 100) + "1}}":                              "nested more than 40 deep",
		strings.Repeat("{% if x %}", 100) + strings.Repeat("{% endif %}", 100):  "nested more than 40 deep",
	} {
		if _, err := Parse(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", source, err, want)
		}
	}
}

func TestEvaluationIsBoundedAndSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ nothing }}":          "is not there",
		"{{ nothing | round }}":  "is not there",
		"{{ value_json.color }}": "an object is shown by tojson only",
		"{{ 'x' | int }}":        "a text is not a number",
		"{{ 'x' < 1 }}":          "< does not go with a text and a number",
		"{{ 1 / 0 }}":            "division by zero",
		"{{ 'x' in 1 }}":         "nothing can be in a number",
		"{% set a = '" + strings.Repeat("x", 1000) + "' %}" + strings.Repeat("{% set a = a ~ a %}", 20) + "{{ a }}": "longer than",
		"{% set a = '" + strings.Repeat("x", 2000) + "' %}{{ a | replace('x', a) }}":                                "longer than",
		"{% set a = ['x', 'x'] %}" + strings.Repeat("{% set a = [a, a] %}", 60) + "{{ a | tojson }}":                "the JSON is too long",
		"{% set a = {1: 'x'} %}" + strings.Repeat("{% set a = {1: a, 2: a} %}", 60) + "{{ a | tojson }}":            "the JSON is too long",
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Errorf("%.60s: %v", source, err)
			continue
		}
		if _, err := parsed.Render(variables(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", source, err, want)
		}
	}
}

func TestAValueKeepsItsType(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]any{
		"{{ brightness }}":        int64(50),
		"{{ on }}":                true,
		" {{ on }}":               "True",
		"{{ name ~ 1 }}":          "x1",
		"{{ value_json.nobody }}": nil,
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed.Value(variables(t))
		if want == nil {
			if !errors.Is(err, ErrUndefined) {
				t.Errorf("%s: %v %v", source, got, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", source, got, err, want)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	parsed, err := Parse("{% set a = b %}{% if c %}{{ a ~ d.e[f] }}{% endif %}{{ {g: [h]} | default(i) }}")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(parsed.Variables(), ""); got != "bcdfghi" {
		t.Error(got)
	}
}

func TestJSONIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("[", 33) + strings.Repeat("]", 33): "nested too deep",
		`{} {}`:                      "something follows",
		`{`:                          "not JSON",
		strings.Repeat(" ", 1<<20+1): "too long",
	} {
		if _, err := FromJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, source := range []string{
		"{{ value_json.x | round(1) }}", "{% if a %}b{% elif c %}d{% else %}e{% endif %}", "{% set x = {1: [2]} %}{{ x[1][-1] }}",
		"{{ 'a' ~ \"b\" if not c is defined else -1 }}", "{#-#}{{- x -}}", "{{ value.split(',')[0] | int(0) }}",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		parsed, err := Parse(source)
		if err != nil {
			return
		}
		parsed.Variables()
		out, err := parsed.Render(variables(t))
		if err == nil && len(out) > 2*MaxOutput {
			t.Errorf("%d bytes", len(out))
		}
		_, _ = parsed.Value(variables(t))
	})
}
