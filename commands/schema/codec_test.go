package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

type level string

func (l *level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "debug", "info":
		*l = level(text)
		return nil
	}
	return fmt.Errorf("must be debug or info")
}

func (l level) MarshalText() ([]byte, error) { return []byte(l), nil }

func (level) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["debug","info"]}`)
}

type capability struct {
	ID         protocol.CapabilityID `json:"capability_id" short:"true"`
	Name       string                `json:"name,omitempty" len:"1-8"`
	Idempotent bool                  `json:"idempotent,omitempty"`
}

type paging struct {
	Limit  int    `json:"limit" range:"1-1000" default:"100" doc:"number"`
	Cursor string `json:"cursor,omitempty"`
}

// everything has a field of every sort.
type everything struct {
	SkillID  protocol.SkillID                `json:"skill_id" doc:"the skill"`
	Name     string                          `json:"name,omitempty" len:"1-8"`
	Mode     string                          `json:"mode,omitempty" enum:"sequential,parallel" default:"sequential"`
	Version  string                          `json:"version,omitempty" pattern:"^[0-9]+\\.[0-9]+$"`
	Level    level                           `json:"level,omitempty"`
	Serial   *protocol.Serial                `json:"cert_sn,omitempty"`
	Count    *int                            `json:"count,omitempty" range:"-5-5"`
	Small    int8                            `json:"small,omitempty"`
	Size     uint16                          `json:"size,omitempty"`
	Step     int                             `json:"step,omitempty" enum:"1,2,3"`
	Ratio    float64                         `json:"ratio,omitempty" range:"0-1"`
	Enabled  bool                            `json:"enabled,omitempty"`
	At       time.Time                       `json:"at,omitzero"`
	Content  []byte                          `json:"content,omitempty"`
	Params   json.RawMessage                 `json:"params,omitempty" type:"object"`
	Value    json.RawMessage                 `json:"value,omitempty"`
	Anything any                             `json:"anything,omitempty"`
	Scenes   []protocol.SceneType            `json:"scenes,omitempty" len:"1-3"`
	Tags     []string                        `json:"tags,omitempty" each:"1-4"`
	Labels   map[string]string               `json:"labels,omitempty" len:"0-2" each:"1-4"`
	Roles    map[protocol.SkillID]capability `json:"roles,omitempty"`
	Skill    *struct {
		Capabilities []capability `json:"capabilities" len:"1-3"`
	} `json:"skill,omitempty"`
	paging
}

func compiled(t testing.TB, v any) *Codec {
	t.Helper()
	c, err := ForParams(reflect.TypeOf(v), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decode(c *Codec, body []byte, into any) error {
	_, err := c.Decode(body, into)
	return err
}

func TestDecodeRefusesWhatBreaksARuleAndNamesThePlace(t *testing.T) {
	t.Parallel()
	c := compiled(t, everything{})
	for _, tc := range []struct{ name, body, param, reason string }{
		{"not an object", `[]`, "params", "must be an object, is an array"},
		{"missing field", `{}`, "skill_id", "is missing"},
		{"null is not a value", `{"skill_id":null}`, "skill_id", "must be a string, is null"},
		{"wrong type", `{"skill_id":7}`, "skill_id", "must be a string, is a number"},
		{"identifier rule", `{"skill_id":"a/b"}`, "skill_id", `may not contain '/'`},
		{"empty identifier", `{"skill_id":""}`, "skill_id", "must have 1 to 64 characters, has 0"},
		{"length counts characters", `{"skill_id":"s","name":"ääääääääx"}`, "name", "must have 1 to 8 characters, has 9"},
		{"enum", `{"skill_id":"s","mode":"both"}`, "mode", `must be one of sequential, parallel, is "both"`},
		{"pattern", `{"skill_id":"s","version":"1"}`, "version", `must match ^[0-9]+\.[0-9]+$`},
		{"text unmarshaler", `{"skill_id":"s","level":"loud"}`, "level", "must be debug or info"},
		{"integer wanted", `{"skill_id":"s","count":1.5}`, "count", "must be an integer"},
		{"integer range", `{"skill_id":"s","count":-6}`, "count", "must be -5 to 5, is -6"},
		{"integer size", `{"skill_id":"s","small":128}`, "small", "must be -128 to 127, is 128"},
		{"huge integer", `{"skill_id":"s","count":123456789012345678901234567890}`, "count", "is too large"},
		{"huge exponent", `{"skill_id":"s","count":1e400}`, "count", "is too large"},
		{"negative unsigned", `{"skill_id":"s","size":-1}`, "size", "must be 0 to 65535, is -1"},
		{"number enum", `{"skill_id":"s","step":4}`, "step", `must be one of 1, 2, 3, is "4"`},
		{"float range", `{"skill_id":"s","ratio":1.5}`, "ratio", "must be at most 1, is 1.5"},
		{"boolean", `{"skill_id":"s","enabled":"yes"}`, "enabled", "must be true or false, is a string"},
		{"time", `{"skill_id":"s","at":"yesterday"}`, "at", "must be a time as in RFC 3339, 2006-01-02T15:04:05Z"},
		{"base64", `{"skill_id":"s","content":"?"}`, "content", "must be base64 with padding"},
		{"object wanted", `{"skill_id":"s","params":[1]}`, "params", "must be an object, is an array"},
		{"too many items", `{"skill_id":"s","scenes":["a","b","c","d"]}`, "scenes", "must have 1 to 3 items, has 4"},
		{"item rule", `{"skill_id":"s","scenes":["a","b#"]}`, "scenes[1]", `may not contain '#'`},
		{"each", `{"skill_id":"s","tags":["abcde"]}`, "tags[0]", "must have 1 to 4 characters, has 5"},
		{"too many entries", `{"skill_id":"s","labels":{"a":"1","b":"2","c":"3"}}`, "labels", "must have at most 2 entries, has 3"},
		{"map value", `{"skill_id":"s","labels":{"a b":""}}`, `labels["a b"]`, "must have 1 to 4 characters, has 0"},
		{"map key rule", `{"skill_id":"s","roles":{"a/b":"c"}}`, `roles["a/b"]`, `its name may not contain '/'`},
		{"deep path", `{"skill_id":"s","skill":{"capabilities":["a",{"capability_id":"b","name":"123456789"}]}}`,
			"skill.capabilities[1].name", "must have 1 to 8 characters, has 9"},
		{"short form is checked too", `{"skill_id":"s","skill":{"capabilities":["a","b/c"]}}`, "skill.capabilities[1]", `may not contain '/'`},
		{"unknown with a suggestion", `{"skil_id":"s"}`, "skil_id", `is unknown; did you mean "skill_id"?`},
		{"unknown beside params", `{"skill_id":"s","zzzzzzz":{"a":[1,"]"]}}`, "zzzzzzz", `is unknown; did you mean "params.zzzzzzz"?`},
		{"unknown without one", `{"skill_id":"s","skill":{"zzzzzzz":1}}`, "skill.zzzzzzz", "is unknown"},
		{"unknown inside", `{"skill_id":"s","skill":{"capabilities":[{"capability_id":"b","nam":""}]}}`,
			"skill.capabilities[0].nam", `is unknown; did you mean "name"?`},
		{"twice", `{"skill_id":"s","skill_id":"t"}`, "skill_id", "is given twice"},
		{"embedded struct", `{"skill_id":"s","limit":0}`, "limit", "must be 1 to 1000, is 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var v everything
			err := decode(c, []byte(tc.body), &v)
			var e *protocol.Error
			if !errors.As(err, &e) || e.Code != protocol.InvalidParameter {
				t.Fatalf("got %v, want a 1001", err)
			}
			if e.Details["param_name"] != tc.param || e.Details["reason"] != tc.reason {
				t.Errorf("got %v: %v, want %s: %s", e.Details["param_name"], e.Details["reason"], tc.param, tc.reason)
			}
		})
	}
}

func TestDecodeFillsEveryField(t *testing.T) {
	t.Parallel()
	c := compiled(t, everything{})
	var v everything
	body := `{"skill_id":"s\u00e4\ud83d\ude00","name":"n","version":"1.2","level":"info","cert_sn":"8A1B2C3D4E5F6A7B","count":1e0,
		"small":-128,"size":65535,"step":2,"ratio":0.5,"enabled":true,"at":"2026-01-02T03:04:05Z","content":"AQI=",
		"params":{"celsius":25},"value":[1,{"a":null}],"anything":{"a":[1]},"scenes":["A","B"],"tags":["x"],"labels":{"k":"v"},
		"roles":{"r":{"capability_id":"c","idempotent":true},"q":"d"},"skill":{"capabilities":["one",{"capability_id":"two"}]},"cursor":"next"}`
	if err := decode(c, []byte(body), &v); err != nil {
		t.Fatal(err)
	}
	want := `{"skill_id":"sä😀","name":"n","mode":"sequential","version":"1.2","level":"info","cert_sn":"8a1b2c3d4e5f6a7b","count":1,` +
		`"small":-128,"size":65535,"step":2,"ratio":0.5,"enabled":true,"at":"2026-01-02T03:04:05Z","content":"AQI=",` +
		`"params":{"celsius":25},"value":[1,{"a":null}],"anything":{"a":[1]},"scenes":["A","B"],"tags":["x"],"labels":{"k":"v"},` +
		`"roles":{"q":{"capability_id":"d"},"r":{"capability_id":"c","idempotent":true}},` +
		`"skill":{"capabilities":[{"capability_id":"one"},{"capability_id":"two"}]},"limit":100,"cursor":"next"}`
	got, err := c.Encode(&v)
	if err != nil || string(got) != want {
		t.Errorf("encoded again: %v\n got %s\nwant %s", err, got, want)
	}
}

func TestDecodeNamesEveryProblemAndLetsTheFirstDecide(t *testing.T) {
	t.Parallel()
	var v everything
	err := decode(compiled(t, v), []byte(`{"name":"","tags":[1,2],"skil_id":"s"}`), &v)
	var e *protocol.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Details["param_name"] != "name" {
		t.Errorf("first is %v", e.Details["param_name"])
	}
	var names []string
	for _, p := range e.Details["problems"].([]any) {
		names = append(names, p.(map[string]any)["param_name"].(string))
	}
	if got := strings.Join(names, " "); got != "name tags[0] tags[1] skil_id skill_id" {
		t.Errorf("problems in %s", got)
	}
}

func TestDecodeStopsAfterSomeProblems(t *testing.T) {
	t.Parallel()
	var v struct {
		Items []int `json:"items"`
	}
	body := `{"items":[` + strings.Repeat(`"x",`, 100_000) + `"x"]}`
	var e *protocol.Error
	if !errors.As(decode(compiled(t, v), []byte(body), &v), &e) {
		t.Fatal("accepted")
	}
	if n := len(e.Details["problems"].([]any)); n != maxProblems {
		t.Errorf("%d problems", n)
	}
	if len(v.Items) > maxProblems {
		t.Errorf("went on to decode %d items", len(v.Items))
	}
}

func TestDecodeKeepsACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	var v everything
	err := decode(compiled(t, v), []byte(`{"skill_id":"s","cert_sn":"12"}`), &v)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CertificateUnknown || e.Details["param_name"] != "cert_sn" {
		t.Errorf("got %v with %v", err, e.Details)
	}
}

type span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (s span) Validate() error {
	if s.To < s.From {
		return protocol.InvalidParam("to", "must not be before from")
	}
	return nil
}

func TestValidateIsAskedAfterTheFields(t *testing.T) {
	t.Parallel()
	var v struct {
		Spans []span `json:"spans"`
	}
	c := compiled(t, v)
	var e *protocol.Error
	if !errors.As(decode(c, []byte(`{"spans":[{"from":1,"to":2},{"from":3,"to":2}]}`), &v), &e) || e.Details["param_name"] != "spans[1].to" {
		t.Errorf("got %v", e)
	}
	if !errors.As(decode(c, []byte(`{"spans":[{"from":3,"to":"x"}]}`), &v), &e) || e.Details["reason"] != "must be an integer, is a string" || e.Details["problems"] != nil {
		t.Errorf("got %v with %v", e, e.Details)
	}
	if err := decode(c, []byte(`{"spans":[{"from":3,"to":3}]}`), &v); err != nil {
		t.Error(err)
	}
}

func TestDecodeIsSafeOnWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	c := compiled(t, everything{})
	for _, body := range []string{``, ` `, `{`, `{"`, `{"skill_id"`, `{"skill_id":`, `{"skill_id":"`, `{"skill_id":"s"`, `{"skill_id":"s",`,
		`{"skill_id":"s"}}`, `{"skill_id":"s" "name"}`, `{1:2}`, `{"tags":[1`, `{"tags":["a" "b"]}`, `{"value":}`, `{"params":{"a":[}`, `{"skill_id":"s\`, `}`, `"`} {
		var v everything
		if decode(c, []byte(body), &v) == nil {
			t.Errorf("%q was accepted", body)
		}
	}
}

func TestNearestFindsSlipsOfThePen(t *testing.T) {
	t.Parallel()
	names := func(yield func(string) bool) {
		for _, n := range []string{"skill.invoke", "skill.register", "agent.list", "type"} {
			if !yield(n) {
				return
			}
		}
	}
	for name, want := range map[string]string{
		"skill.invok": "skill.invoke", "skil.invoke": "skill.invoke", "Skill.Invoke": "skill.invoke", "skill.ivnoke": "skill.invoke",
		"agents.list": "agent.list", "tpye": "type", "page": "", "completely.different": "", "": "",
	} {
		if got, _ := Nearest(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestCodecsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	type params struct {
		Name string `json:"name"`
	}
	typ := reflect.TypeFor[params]()
	compile := func(flag *Flag) *Codec {
		codec, err := ForParams(typ, flag)
		if err != nil {
			t.Fatal(err)
		}
		return codec
	}
	result, err := ForResult(typ)
	if err != nil {
		t.Fatal(err)
	}
	plain, flagged := compile(nil), compile(&Flag{Name: "dry_run", Doc: "only checks"})
	if plain != compile(nil) || flagged != compile(&Flag{Name: "dry_run", Doc: "only checks"}) {
		t.Error("the same declaration was compiled again")
	}
	if flagged == plain || flagged == compile(&Flag{Name: "force", Doc: "only checks"}) || result == plain {
		t.Error("different declarations share a codec")
	}
}
