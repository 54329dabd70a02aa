package ask

import (
	"encoding/json"
	"testing"
)

// TestTheParamsOfAnInvocationAreAlwaysTheSameBytes, however the caller wrote what
// is around its own.
func TestTheParamsOfAnInvocationAreAlwaysTheSameBytes(t *testing.T) {
	params := json.RawMessage(`{"on":true}`)
	want := `{"skill_id":"lamp","capability_id":"switch","params":{"on":true}}`
	head := InvokeHeadOf("lamp", "switch")
	for name, request := range map[string]string{
		"as it is":          want,
		"in another order":  `{"capability_id":"switch","skill_id":"lamp","params":{"on":true}}`,
		"with space":        `{ "skill_id":"lamp","capability_id":"switch","params":{"on":true}}`,
		"with more":         `{"skill_id":"lamp","capability_id":"switch","params":{"on":true},"async":false}`,
		"of the same size":  `{"params":{"on":true},"skill_id":"lamp","capability_id":"switch"}`,
		"with space behind": `{"skill_id":"lamp","capability_id":"switch","params":{"on":true} }`,
	} {
		if got := head.Of(json.RawMessage(request), params); string(got) != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := InvokeParams("lamp", "switch", params); string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}
