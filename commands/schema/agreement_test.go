package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// published compiles the schema a codec exports, as any user of it would.
func published(t testing.TB, c *Codec) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("mem:params", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("mem:params")
	if err != nil {
		t.Fatalf("the exported schema does not compile: %v\n%s", err, c.JSON())
	}
	return s
}

// agree fails unless decoder and exported schema say the same about a body.
func agree(t interface{ Fatalf(string, ...any) }, c *Codec, s *jsonschema.Schema, body []byte) {
	if protocol.CheckJSON(body, protocol.Limits{}) != nil || beyondSchema(body) {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s passed CheckJSON: %v", body, err)
	}
	var v everything
	decoded, accepted := decode(c, body, &v), s.Validate(value)
	if (decoded == nil) != (accepted == nil) {
		t.Fatalf("%s\ndecoder: %v\nschema: %v", body, decoded, accepted)
	}
	if decoded != nil {
		return
	}
	again, err := c.Encode(&v)
	if err != nil {
		t.Fatalf("%s was decoded and cannot be encoded: %v", body, err)
	}
	var w everything
	if err := decode(c, again, &w); err != nil {
		t.Fatalf("%s was decoded, but written again as %s: %v", body, again, err)
	}
}

// beyondSchema finds what the schema does not express: integers that do not
// fit int64 or float64 numbers that overflow, times that one of the two
// grammars of RFC 3339 allows, and base64 that stands for the same bytes as
// another text, by bits that are left over.
func beyondSchema(body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		switch v := token.(type) {
		case json.Number:
			f, _, err := big.ParseFloat(string(v), 10, 64, big.ToNearestEven)
			if err != nil || f.Cmp(big.NewFloat(1<<53)) > 0 || f.Cmp(big.NewFloat(-1<<53)) < 0 {
				return true
			}
			if g, _ := f.Float64(); strings.ContainsAny(string(v), ".eE") && big.NewFloat(g).Cmp(f) != 0 {
				return true
			}
		case string:
			if _, err := base64.StdEncoding.DecodeString(v); err == nil {
				if _, err := base64.StdEncoding.Strict().DecodeString(v); err != nil {
					return true
				}
			}
			if len(v) >= 17 && strings.Count(v, ":") >= 2 {
				if new(time.Time).UnmarshalText([]byte(v)) != nil {
					return true
				}
			}
		}
	}
}

var bodies = []string{
	`{"skill_id":"s"}`, `{"skill_id":"s","count":1e0,"small":127,"size":65535,"ratio":1}`, `{"skill_id":"$s"}`,
	`{"skill_id":"s","roles":{"a":"b","$":{}},"labels":{"":"x"}}`, `{"skill_id":"s","skill":{"capabilities":["a",{"capability_id":"b"}]}}`,
	`{"skill_id":"s","at":"2026-01-02T03:04:05Z","content":"AQI=","level":"info","cert_sn":"8a1b2c3d4e5f6a7b"}`,
	`{"skill_id":"s","scenes":["A","B"],"tags":["x"],"step":3,"mode":"parallel","anything":null,"value":null}`,
	`{"skill_id":"\u0000","name":"\ud83d\ude00","version":"1.0\n"}`, `{"limit":1.0,"skill_id":"\u0085"}`, `[]`, `{}`, `null`,
}

func FuzzDecoderAgreesWithItsSchema(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	c := compiled(f, everything{})
	s := published(f, c)
	f.Fuzz(func(t *testing.T, body []byte) { agree(t, c, s, body) })
}

// TestDecoderAgreesWithItsSchema tries bodies that are nearly right, which
// random bytes hardly ever are.
func TestDecoderAgreesWithItsSchema(t *testing.T) {
	t.Parallel()
	c := compiled(t, everything{})
	s := published(t, c)
	scalars := []string{`1`, `0`, `-6`, `5`, `1.5`, `2.0`, `128`, `70000`, `true`, `null`, `""`, `"a"`, `"abcde"`, `"a/b"`, `"$a"`, `"1.2"`, `"info"`,
		`"sequential"`, `"8a1b2c3d4e5f6a7b"`, `"AQI="`, `"AQ=="`, `"AR=="`, `"2026-01-02T03:04:05Z"`, `"äöüß😀"`, `{}`, `[]`, `{"capability_id":"x"}`, `{"capabilities":["x"]}`}
	names := []string{"name", "mode", "version", "level", "cert_sn", "count", "small", "size", "step", "ratio", "enabled", "at", "content", "params",
		"value", "anything", "scenes", "tags", "labels", "roles", "skill", "limit", "cursor", "unknown"}
	value := rapid.Custom(func(t *rapid.T) string {
		scalar := rapid.SampledFrom(scalars)
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			return "[" + strings.Join(rapid.SliceOfN(scalar, 0, 4).Draw(t, "items"), ",") + "]"
		case 1:
			return fmt.Sprintf(`{"k":%s,"a b":%s}`, scalar.Draw(t, "first"), scalar.Draw(t, "second"))
		}
		return scalar.Draw(t, "scalar")
	})
	rapid.Check(t, func(t *rapid.T) {
		members := []string{`"skill_id":"s"`}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "names") {
			members = append(members, fmt.Sprintf("%q:%s", name, value.Draw(t, name)))
		}
		agree(t, c, s, []byte("{"+strings.Join(members, ",")+"}"))
	})
}
