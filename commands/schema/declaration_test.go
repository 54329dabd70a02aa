package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type recursive struct {
	Children []recursive `json:"children"`
}

type decodesItself struct{ a int }

func (d *decodesItself) UnmarshalJSON([]byte) error { d.a++; return nil }

// made builds a struct of integers whose tags go vet would not let pass.
func made(tags ...reflect.StructTag) reflect.Type {
	fields := make([]reflect.StructField, len(tags))
	for i, tag := range tags {
		fields[i] = reflect.StructField{Name: string(rune('A' + i)), Type: reflect.TypeFor[int](), Tag: tag}
	}
	return reflect.StructOf(fields)
}

func TestBadDeclarationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		typ  any
		want string
	}{
		"not a struct": {1, "must be a struct"},
		"no name":      {struct{ A int }{}, "has no json name"},
		"empty name": {struct {
			A int `json:""`
		}{}, "has no json name"},
		"name twice": {made(`json:"a"`, `json:"a"`), `"a" is used twice`},
		"json option": {struct {
			A int `json:"a,string"`
		}{}, `option "string"`},
		"misspelt tag": {struct {
			A int `json:"a" rnage:"1-2"`
		}{}, `unknown tag "rnage"`},
		"malformed tag": {made(`json:"a" len:1`), "malformed tag"},
		"bad len": {struct {
			A string `json:"a" len:"x"`
		}{}, `len:"x"`},
		"reversed len": {struct {
			A string `json:"a" len:"3-1"`
		}{}, `len:"3-1"`},
		"len of a number": {struct {
			A int `json:"a" len:"1-3"`
		}{}, "tag len does not apply"},
		"range of text": {struct {
			A string `json:"a" range:"1-3"`
		}{}, "tag range does not apply"},
		"range too wide": {struct {
			A int8 `json:"a" range:"1-300"`
		}{}, "tag range"},
		"bad range": {struct {
			A int `json:"a" range:"one-two"`
		}{}, "range"},
		"empty range": {struct {
			A int `json:"a" range:"3-1"`
		}{}, "range is empty"},
		"enum twice": {struct {
			A string `json:"a" enum:"x,x"`
		}{}, "repeated"},
		"enum of a bool": {struct {
			A bool `json:"a" enum:"true"`
		}{}, "tag enum does not apply"},
		"bad pattern": {struct {
			A string `json:"a" pattern:"("`
		}{}, "error parsing regexp"},
		"bad default": {struct {
			A int `json:"a" range:"1-3" default:"4"`
		}{}, "default"},
		"default of a map": {struct {
			A map[string]int `json:"a" default:"x"`
		}{}, "default"},
		"short on number": {struct {
			A struct {
				B int `json:"b" short:"true"`
			} `json:"a"`
		}{}, "short does not apply"},
		"short beside required": {struct {
			A struct {
				B string `json:"b" short:"true"`
				C int    `json:"c"`
			} `json:"a"`
		}{}, "field c must be optional"},
		"type of a string": {struct {
			A string `json:"a" type:"object"`
		}{}, "tag type does not apply"},
		"type unknown": {struct {
			A json.RawMessage `json:"a" type:"array"`
		}{}, "must be object"},
		"duration": {struct {
			A time.Duration `json:"a"`
		}{}, "durations"},
		"channel": {struct {
			A chan int `json:"a"`
		}{}, "not supported"},
		"keys": {struct {
			A map[int]string `json:"a"`
		}{}, "not strings"},
		"recursion": {recursive{}, "contains itself"},
		"decodes itself": {struct {
			A decodesItself `json:"a"`
		}{}, "JSONSchema"},
		"embedded pointer": {struct{ *paging }{}, "only structs"},
		"deep": {struct {
			A []struct {
				B chan int `json:"b"`
			} `json:"a"`
		}{}, "field A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ, ok := tc.typ.(reflect.Type)
			if !ok {
				typ = reflect.TypeOf(tc.typ)
			}
			_, err := ForParams(typ, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something about %s", err, tc.want)
			}
		})
	}
}

func TestSchemaReadsLikeTheDeclaration(t *testing.T) {
	t.Parallel()
	c := compiled(t, struct {
		paging
		Skill capability `json:"skill" doc:"id or more"`
	}{})
	want := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"number","default":100},` +
		`"cursor":{"type":"string"},` +
		`"skill":{"anyOf":[{"type":"string","minLength":1,"maxLength":64,"pattern":"^([^$/+#\\x00-\\x1f\\x7f-\\x9f][^/+#\\x00-\\x1f\\x7f-\\x9f]*)?$"},` +
		`{"type":"object","properties":{"capability_id":{"type":"string","minLength":1,"maxLength":64,"pattern":"^([^$/+#\\x00-\\x1f\\x7f-\\x9f][^/+#\\x00-\\x1f\\x7f-\\x9f]*)?$"},` +
		`"name":{"type":"string","minLength":1,"maxLength":8},"idempotent":{"type":"boolean"}},"required":["capability_id"],"additionalProperties":false}],` +
		`"description":"id or more"}},"required":["skill"],"additionalProperties":false}`
	if got := string(c.JSON()); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

type opaque struct{ secret int }

func (o opaque) MarshalJSON() ([]byte, error) { return json.Marshal(o.secret) }

func TestResultsMayBeAnything(t *testing.T) {
	t.Parallel()
	type result struct {
		Opaque opaque     `json:"opaque"`
		Tree   *recursive `json:"tree"`
		List   []string   `json:"list"`
		Err    error      `json:"err,omitempty"`
		F      float64    `json:"f"`
		Hidden int        `json:"-"`
	}
	c, err := ForResult(reflect.TypeFor[result]())
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Encode(&result{Opaque: opaque{7}, Tree: &recursive{Children: []recursive{{}}}, F: 1e6})
	if want := `{"opaque":7,"tree":{"children":[{"children":[]}]},"list":[],"f":1000000}`; err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

// selfDescribed has a description of its own.
type selfDescribed struct{ json.RawMessage }

func (selfDescribed) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":["object","boolean"],"description":"a JSON Schema"}`)
}

func TestFieldsDocReplacesTheDescriptionOfItsType(t *testing.T) {
	t.Parallel()
	c := compiled(t, struct {
		Documented selfDescribed `json:"documented" doc:"wish"`
		Plain      selfDescribed `json:"plain"`
	}{})
	want := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"documented":{"type":["object","boolean"],"description":"wish"},` +
		`"plain":{"type":["object","boolean"],"description":"a JSON Schema"}},` +
		`"required":["documented","plain"],"additionalProperties":false}`
	if got := string(c.JSON()); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
