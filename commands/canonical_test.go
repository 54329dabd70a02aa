package commands

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func canonical(params string) string {
	w := &canonicalWriter{src: []byte(params)}
	w.value()
	return string(w.out)
}

func TestFingerprintsIgnoreSpaceAndOrder(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                              `{}`,
		` { "b" : 1 , "a" : [ 1 , 2 ] } `: `{"a":[1,2],"b":1}`,
		`{"b":{"d":"x y","c":null},"a":[{"z":1,"y":true}]}`: `{"a":[{"y":true,"z":1}],"b":{"c":null,"d":"x y"}}`,
		`{"a\"b":"\\","a":"}"}`:                             `{"a":"}","a\"b":"\\"}`,
		`[]`:                                                `[]`, `"x"`: `"x"`, `-1.5e3`: `-1.5e3`,
	} {
		if got := canonical(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if fingerprint("a.b", []byte(`{"x":1}`)) == fingerprint("a.b", []byte(`{"x":2}`)) ||
		fingerprint("a.b", []byte(`{}`)) == fingerprint("a.c", []byte(`{}`)) {
		t.Error("different requests have the same fingerprint")
	}
}

func FuzzCanonicalKeepsTheValue(f *testing.F) {
	for _, s := range []string{`{}`, `{"b":[1, 2,{"d":4,"c":3}],"a":"x\"y"}`, `[[[]]]`, `{"a":{"b":{}}}`, `{"a":`, `}`, `["`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := canonical(string(data)) // must end, whatever it gets
		if protocol.CheckJSON(data, protocol.Limits{}) != nil {
			return
		}
		var before, after any
		if err := decode(data, &before); err != nil {
			t.Skip()
		}
		if err := decode([]byte(out), &after); err != nil {
			t.Fatalf("%s became %s: %v", data, out, err)
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s became %s", data, out)
		}
		if again := canonical(out); again != out {
			t.Fatalf("%s is not stable: %s", out, again)
		}
	})
}

func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}
