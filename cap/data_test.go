package cap

import (
	"encoding/json"
	"testing"
)

func TestAValueIsOfItsDataType(t *testing.T) {
	t.Parallel()
	values := []string{`"text"`, `"AAAA"`, `21`, `21.0`, `2.1e1`, `21.5`, `1e400`, `true`, `{"a":1}`, `[1]`, `null`}
	for kind, good := range map[DataType][]string{
		String: {`"text"`, `"AAAA"`}, Binary: {`"text"`, `"AAAA"`}, Number: {`21`, `21.0`, `2.1e1`, `21.5`, `1e400`},
		Integer: {`21`, `21.0`, `2.1e1`}, Float: {`21`, `21.0`, `2.1e1`, `21.5`, `1e400`},
		Boolean: {`true`}, Object: {`{"a":1}`}, Array: {`[1]`},
		JSON: {`"text"`, `"AAAA"`, `21`, `21.0`, `2.1e1`, `21.5`, `1e400`, `true`, `{"a":1}`, `[1]`},
	} {
		allowed := make(map[string]bool)
		for _, v := range good {
			allowed[v] = true
		}
		for _, v := range values {
			if err := kind.check(json.RawMessage(v)); (err == nil) != allowed[v] {
				t.Errorf("%s as %s: %v", v, kind, err)
			}
		}
	}
}
