package schema

import (
	"encoding/json"
	"reflect"
	"testing"

	library "github.com/go-json-experiment/json"

	"github.com/aibridge/aibridge/protocol"
)

type invokeParams struct {
	Skill      protocol.SkillID      `json:"skill_id"`
	Capability protocol.CapabilityID `json:"capability_id"`
	Params     json.RawMessage       `json:"params,omitempty" type:"object"`
	Timeout    int                   `json:"timeout_ms,omitempty"`
}

// BenchmarkReaders justifies the decoder: it reads the params of a skill.invoke
// with their limits, which the library reads without looking at limits.
func BenchmarkReaders(b *testing.B) {
	codec, err := ForParams(reflect.TypeFor[invokeParams](), nil)
	if err != nil {
		b.Fatal(err)
	}
	params := []byte(`{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","params":{"celsius":25.5,"round":true,"labels":["kitchen","north"],"note":"of the afternoon"}}`)
	for name, decode := range map[string]func(*invokeParams) error{
		"codec": func(p *invokeParams) error {
			_, err := codec.Decode(params, p)
			return err
		},
		"library": func(p *invokeParams) error { return library.Unmarshal(params, p) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p invokeParams
				if err := decode(&p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWriting writes the schema of a deep type, as each command does when
// a bridge starts.
func BenchmarkWriting(b *testing.B) {
	root, err := compiler{}.compile(reflect.TypeFor[everything](), &tags{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(withDialect(root.schema())); err != nil {
			b.Fatal(err)
		}
	}
}
