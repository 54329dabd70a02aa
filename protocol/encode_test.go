package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestStringsAreEscapedNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                    `""`,
		"plain":               `"plain"`,
		"a\"b\\c":             `"a\"b\\c"`,
		"\b\f\n\r\t":          `"\b\f\n\r\t"`,
		"\x00\x1f\x7f":        "\"\\u0000\\u001f\x7f\"",
		"<&>é界😀\u2028":        "\"<&>é界😀\u2028\"",
		"a\xffb\xc3":          `"a\ufffdb\ufffd"`,
		"\ufffd":              "\"\ufffd\"",
		"eight by\"te string": `"eight by\"te string"`,
	} {
		if got := string(protocol.AppendString(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestResponseAlwaysHasAllFields(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*protocol.Response{
		"zero":    {},
		"failure": {Err: &protocol.Error{Code: protocol.NotFound}},
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(r.Append(nil), &fields); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, field := range []string{"version", "id", "timestamp", "type", "status", "result", "error", "metadata"} {
			if _, ok := fields[field]; !ok {
				t.Errorf("%s: no %s", name, field)
			}
		}
		if string(fields["result"]) != "{}" {
			t.Errorf("%s: result %s", name, fields["result"])
		}
		if (string(fields["error"]) == "null") != (r.Err == nil) {
			t.Errorf("%s: error %s", name, fields["error"])
		}
		if !strings.Contains(string(fields["metadata"]), `"warnings":[]`) {
			t.Errorf("%s: metadata %s", name, fields["metadata"])
		}
	}
}

func TestTimeLeftIsRoundedUp(t *testing.T) {
	t.Parallel()
	r := request("a.b", "{}", protocol.Metadata{Timeout: time.Microsecond})
	if got := string(r.Append(nil)); !strings.Contains(got, `"timeout":1}`) {
		t.Error(got)
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for name, shape := range shapes() {
		if strings.HasPrefix(name, "response_failure") {
			continue // map iteration of details is allowed to
		}
		if n := testing.AllocsPerRun(100, func() { buf = shape.Append(buf[:0]) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestDecodingAllocatesLittle(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		if _, err := protocol.DecodeRequest(invocation, protocol.Limits{}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 { // the request, its texts, its params
		t.Errorf("%v allocations", n)
	}
}

func TestNewRequestIsReadyToSend(t *testing.T) {
	t.Parallel()
	type params struct {
		SkillID string `json:"skill_id"`
	}
	for name, in := range map[string]any{
		"nothing": nil, "struct": params{"s"}, "map": map[string]any{"skill_id": "s"},
		"raw": json.RawMessage(` {"skill_id":"s"}`), "bytes": []byte(`{}`),
	} {
		r, err := protocol.NewRequest("skill.invoke", in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, err := protocol.DecodeRequest(r.Append(nil), protocol.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back.ID != r.ID || len(back.ID) != 36 || back.ID[14] != '4' || time.Since(time.UnixMilli(back.Timestamp)) > time.Minute || back.Deprecations != nil {
			t.Errorf("%s: got %+v", name, back)
		}
	}
	for name, in := range map[string]any{
		"list": []int{1}, "text": "x", "raw list": json.RawMessage(`[]`), "raw garbage": []byte(`{`), "channel": make(chan int), "null": json.RawMessage(`null`), "no bytes": []byte{},
	} {
		if r, err := protocol.NewRequest("skill.invoke", in); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

func TestIDsAreDistinctUUIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := protocol.NewID()
		if len(id) != 36 || strings.Count(id, "-") != 4 || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}

func TestAnswerEchoesTheRequest(t *testing.T) {
	t.Parallel()
	r := request("a.b", "{}", protocol.Metadata{SenderID: "agent-1", TraceID: "t"})
	r.Deprecations = []string{"old"}
	got := r.Answer("bridge-1", time.UnixMilli(5))
	if got.ID != r.ID || got.Timestamp != 5 || got.Metadata.TraceID != "t" || got.Metadata.SenderID != "bridge-1" ||
		got.Status() != protocol.StatusSuccess || len(got.Metadata.Warnings) != 1 {
		t.Errorf("got %+v", got)
	}
	got.Err = protocol.AsError(protocol.Errorf(protocol.NotFound, "gone"))
	if got.Status() != protocol.StatusFailed {
		t.Error(got.Status())
	}
}
