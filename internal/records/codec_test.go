package records_test

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records"
)

// A record that is damaged anywhere is not read.
func TestDecodeRefusesWhatIsNoRecord(t *testing.T) {
	for _, data := range []string{``, `{`, `{"level":1`, `{"level":1}}`, `{"level":1} 2`, `{"level":"high"}`, `{"tags":{"a":1,}}`, `[]`} {
		var v lamp
		if err := records.Decode([]byte(data), &v); err == nil {
			t.Errorf("%q was read as %+v", data, v)
		}
	}
}
