package commands

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestFingerprintsIgnoreSpaceAndOrderAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFingerprinter()
	same := [][]string{
		{`{}`, ` { } `},
		{`{"a":[1,2],"b":{"c":null,"d":"x y"}}`, "{\"b\" : {\"d\":\"x y\",\t\"c\":null} ,\n \"a\":[ 1 , 2 ] }"},
		{`{"a":"}","a\"b":"\\"}`, `{"a\"b":"\\","a":"}"}`},
		{`{"a":[{"x":1,"y":2}]}`, `{"a":[{"y":2,"x":1}]}`},
		{`{"a":[{"x":1},{"y":2}]}`}, {`{"a":[{"y":2},{"x":1}]}`}, {`{"a":[1,2]}`}, {`{"a":[2,1]}`}, {`{"a":[[1],2]}`}, {`{"a":[1,[2]]}`},
		{`{"a":{"b":1},"c":2}`}, {`{"a":{"b":1,"c":2}}`}, {`{"a":1}`}, {`{"a":"1"}`}, {`{"b":1}`}, {`{"a":1,"b":2}`}, {`{"a":2,"b":1}`},
		{`{"a":[]}`}, {`{"a":{}}`}, {`{"a":""}`}, {`{"a":[[]]}`}, {`{"a":"x y"}`}, {`{"a":"xy"}`},
	}
	seen := map[uint64]string{}
	for _, group := range same {
		first := f.of("a.b", []byte(group[0]))
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have the same fingerprint", other, group[0])
		}
		seen[first] = group[0]
		for _, other := range group[1:] {
			if f.of("a.b", []byte(other)) != first {
				t.Errorf("%s and %s have different fingerprints", group[0], other)
			}
		}
	}
	if f.of("a.b", []byte(`{}`)) == f.of("a.c", []byte(`{}`)) {
		t.Error("the command does not matter")
	}
}

func FuzzFingerprint(fz *testing.F) {
	for _, s := range []string{`{}`, `{"b":[1, 2,{"d":4,"c":3}],"a":"x\"y"}`, `[[[]]]`, `{"a":{"b":{}}}`, `{"a":`, `}`, `["`, `"\`} {
		fz.Add([]byte(s))
	}
	f := newFingerprinter()
	fz.Fuzz(func(t *testing.T, data []byte) {
		sum := f.of("a.b", data) // must end, whatever it gets
		if protocol.CheckJSON(data, protocol.Limits{}) != nil {
			return
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, " ", "\t"); err != nil {
			t.Skip()
		}
		if f.of("a.b", indented.Bytes()) != sum {
			t.Fatalf("%s and %s differ", data, indented.Bytes())
		}
	})
}
