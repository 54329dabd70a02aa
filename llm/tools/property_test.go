package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A corruption is what models do to arguments without meaning anything by it.
type corruption struct {
	name string
	of   func(t *rapid.T, p *Parameter, value string) (corrupted string, ok bool)
}

// quoted is a JSON text as a JSON string.
func quoted(text string) string {
	q, _ := json.Marshal(text)
	return string(q)
}

var corruptions = []corruption{
	{"a value is quoted", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		text := p.Cardinality == "" && slices.Contains([]Kind{String, Timestamp, URI, AttachmentReference}, p.Kind)
		return quoted(value), !text && !strings.Contains(string(p.Kind), "Enum") || p.Cardinality == List || p.Cardinality == Map
	}},
	{"a token is quoted twice", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		return quoted(value), p.Kind == EnumToken && p.Cardinality == ""
	}},
	{"a token has another case", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		other := strings.ToUpper(value)
		return other, p.Kind == EnumToken && p.Cardinality == "" && other != value
	}},
	{"elements are quoted", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		var list []json.RawMessage
		if p.Cardinality != List || p.Kind != Integer || json.Unmarshal([]byte(value), &list) != nil || len(list) == 0 {
			return "", false
		}
		for i := range list {
			list[i] = json.RawMessage(quoted(string(list[i])))
		}
		text, _ := json.Marshal(list)
		return string(text), true
	}},
	{"a list of one is left out", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		var list []json.RawMessage
		if p.Cardinality != List || json.Unmarshal([]byte(value), &list) != nil || len(list) != 1 {
			return "", false
		}
		return string(list[0]), !strings.HasPrefix(string(list[0]), `"[`)
	}},
	{"a boolean is a number", func(_ *rapid.T, p *Parameter, value string) (string, bool) {
		return map[string]string{"true": "1", "false": "0"}[value], p.Kind == Boolean && p.Cardinality == ""
	}},
	{"a text is a number", func(t *rapid.T, p *Parameter, value string) (string, bool) {
		inner := strings.Trim(value, `"`)
		return inner, p.Kind == String && p.Cardinality == "" && numberLength([]byte(inner)) == len(inner) && inner != ""
	}},
}

// valueOf draws a valid value of a parameter, as JSON.
func valueOf(t *rapid.T, p *Parameter) string {
	one := func() string {
		switch p.Kind {
		case Boolean:
			return fmt.Sprint(rapid.Bool().Draw(t, "boolean"))
		case Integer:
			return fmt.Sprint(rapid.Int64().Draw(t, "integer"))
		case Number:
			f := rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
			text, _ := json.Marshal(f)
			return string(text)
		case JSONObject:
			return rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"a":{"b":[1,"2",null]},"c":"{\"d\":1}"}`}).Draw(t, "object")
		case JSONArray:
			return rapid.SampledFrom([]string{`[]`, `[1]`, `["a",["b"],{"c":null}]`}).Draw(t, "array")
		case Timestamp:
			return rapid.SampledFrom([]string{`"2026-01-02T03:04:05Z"`, `"2026-01-02"`, `"2026-01-02T03:04:05.678+02:00"`}).Draw(t, "timestamp")
		case URI:
			return rapid.SampledFrom([]string{`"https://example.com/a?b=c#d"`, `"mailto:a@example.com"`}).Draw(t, "URI")
		case EnumToken:
			return quoted(rapid.SampledFrom(p.Enum).Draw(t, "token"))
		}
		return quoted(rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[1-9][0-9]{0,5}`)).Draw(t, "text"))
	}
	var parts []string
	n := rapid.IntRange(0, 3).Draw(t, "values")
	switch p.Cardinality {
	case List:
		for range n {
			parts = append(parts, one())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case Map:
		for i := range n {
			parts = append(parts, fmt.Sprintf("%q:%s", fmt.Sprint("key", i), one()))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return one()
}

// object writes an object of values, with the noise that is tolerated.
func object(t *rapid.T, values map[string]string) string {
	noise := rapid.SampledFrom([]string{"", " ", "\n\t", "/* so */", "// so\n"})
	var b strings.Builder
	b.WriteString(noise.Draw(t, "noise") + "{")
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(noise.Draw(t, "noise") + quoted(name) + noise.Draw(t, "noise") + ":" + noise.Draw(t, "noise") + values[name] + noise.Draw(t, "noise"))
	}
	if len(values) > 0 && rapid.Bool().Draw(t, "comma") {
		b.WriteString(",")
	}
	b.WriteString("}" + noise.Draw(t, "noise"))
	return b.String()
}

func TestValidArgumentsSurviveWhatModelsDoToThem(t *testing.T) {
	tool := all(t)
	rapid.Check(t, func(t *rapid.T) {
		values := make(map[string]string)
		for i := range tool.Parameters {
			if p := &tool.Parameters[i]; p.Name != "exact" && p.Name != "level" && rapid.Bool().Draw(t, p.Name) {
				values[p.Name] = valueOf(t, p)
			}
		}
		valid := Parse(tool, []byte(object(t, values)))
		if valid.Error() != "" || valid.Warning() != "" || len(valid.Arguments) != len(values) {
			t.Fatalf("valid arguments: %s; %s; %v", valid.Error(), valid.Warning(), valid.Arguments)
		}
		corrupted, expect := maps.Clone(values), 0
		for i := range tool.Parameters {
			p := &tool.Parameters[i]
			value, given := values[p.Name]
			if !given {
				continue
			}
			c := rapid.SampledFrom(corruptions).Draw(t, "corruption of "+p.Name)
			if bad, ok := c.of(t, p, value); ok {
				corrupted[p.Name] = bad
				expect++
			}
		}
		raw := object(t, corrupted)
		if rapid.Bool().Draw(t, "everything quoted") {
			raw = quoted(raw)
			expect++
		}
		got := Parse(tool, []byte(raw))
		if got.Error() != "" {
			t.Fatalf("%s\nfault %s", raw, got.Error())
		}
		if len(got.Warnings) < expect {
			t.Fatalf("%s\n%d corruptions and the warnings %q", raw, expect, got.Warning())
		}
		if !reflect.DeepEqual(got.Arguments, valid.Arguments) {
			t.Fatalf("%s\nis read as %v\nwant %v", raw, got.Arguments, valid.Arguments)
		}
	})
}

func FuzzParse(f *testing.F) {
	tools := []*Tool{all(f), schemaTool(f, `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"string"}}}}},"required":["a"]}`), nil}
	for _, seed := range []string{
		``, `{}`, `{"text":"a","count":"1"}`, `{"a":"1","b":{"c":2}}`, `"{\"a\":1}"`, "```json\n{}\n```", `{/*`, `{"a":1,}`, `{"texts":"[\"a\"]"}`,
		`{"text":"\ud800","text":2}`, "{\"text\":\"\x00\xff\"}", `{"object":"{\"a\":\"{}\"}"}`, `{"b":[[]]}`, `[1]`, `{"count":1e999}`, `{"named":{"a":"1","a":2}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		before := strings.Clone(raw)
		for _, tool := range tools {
			p := Parse(tool, []byte(raw))
			if raw != before {
				t.Fatal("the raw arguments were changed")
			}
			if p.JSON == nil {
				if len(p.Faults) == 0 || !p.Refused(true) {
					t.Fatalf("%q: nothing was read, and nothing is wrong", raw)
				}
				continue
			}
			var object map[string]any
			if err := json.Unmarshal(p.JSON, &object); err != nil {
				t.Fatalf("%q is written as %s: %v", raw, p.JSON, err)
			}
			if len(object) != len(p.Arguments) {
				t.Fatalf("%q is read as %v and written as %s", raw, p.Arguments, p.JSON)
			}
			again := Parse(tool, p.JSON)
			if len(p.Faults) == 0 && again.Error() != "" || string(again.JSON) != string(p.JSON) && !strings.Contains(again.Warning(), noteStringParsed) {
				t.Fatalf("%q is read as %s, and that as %s: %s", raw, p.JSON, again.JSON, again.Error())
			}
		}
	})
}
