package protocol

import (
	"strings"
	"testing"
)

// A door that matches answers with requests by itself needs neither id nor
// type nor timestamp; what is there must be right all the same.
func TestARequestThatIsMatchedMayLeaveOutItsID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text     string
		code     Code
		warnings int
	}{
		"as the document prints it": {`{"version":"0.6.3","command":"cap.declare","params":{}}`, "", 4},
		"only the id is missing":    {`{"version":"0.6.3","timestamp":0,"type":"request","command":"a","params":{},"metadata":{}}`, "", 1},
		"whole":                     {`{"version":"0.6.3","id":"1","timestamp":0,"type":"request","command":"a","params":{},"metadata":{}}`, "", 0},
		"an empty id":               {`{"version":"0.6.3","id":"","command":"a"}`, MalformedEnvelope, 0},
		"a null id":                 {`{"version":"0.6.3","id":null,"command":"a"}`, MalformedEnvelope, 0},
		"a number as id":            {`{"version":"0.6.3","id":7,"command":"a"}`, MalformedEnvelope, 0},
		"another type":              {`{"version":"0.6.3","type":"event","command":"a"}`, MalformedEnvelope, 0},
		"no version":                {`{"command":"a"}`, CodeOf(new(Request).Decode([]byte(`{"id":"1","timestamp":0,"type":"request","command":"a"}`), Limits{})), 0},
	} {
		var r Request
		err := r.DecodeMatched([]byte(c.text), Limits{})
		if (err != nil || c.code != "") && CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if err == nil && (r.ID == "" || len(r.Deprecations) != c.warnings) {
			t.Errorf("%s: id %q, warnings %q", name, r.ID, r.Deprecations)
		}
		if strings.Contains(c.text, `"id":`) {
			continue
		}
		if err := new(Request).Decode([]byte(c.text), Limits{}); err == nil {
			t.Errorf("%s: is read without an id where it is needed", name)
		}
	}
	var first, second Request
	text := []byte(`{"version":"0.6.3","command":"a"}`)
	if first.DecodeMatched(text, Limits{}) != nil || second.DecodeMatched(text, Limits{}) != nil || first.ID == second.ID {
		t.Errorf("ids %q and %q", first.ID, second.ID)
	}
}
