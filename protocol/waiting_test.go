package protocol_test

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestAResultNamesTheTaskThatItWaitsFor(t *testing.T) {
	for result, want := range map[string]protocol.TaskID{
		`{"finish_reason":"waiting","waiting":{"task_id":"t-1"}}`:                  "t-1",
		`{"finish_reason":"end_turn","waiting":{"task_id":"t-1"}}`:                 "",
		`{"finish_reason":"waiting","waiting":{"task_id":"../x?y"}}`:               "",
		`{"finish_reason":"waiting"}`:                                              "",
		`{"data":{"finish_reason":"waiting","waiting":{"task_id":"of a device"}}}`: "",
		`{"result":"\"waiting\":{","finish_reason":"waiting"}`:                     "",
		`[]`: "", ``: "",
	} {
		if got := protocol.TaskOfWaiting([]byte(result)); got != want {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
	}
}
