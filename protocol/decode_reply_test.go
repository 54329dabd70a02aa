package protocol_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestResponseIsReadLeniently(t *testing.T) {
	t.Parallel()
	head := `{"version":"0.6.3","id":"7","timestamp":1,"type":"response",`
	tests := map[string]struct {
		data  string
		check func(r *protocol.Response) bool
	}{
		"result left out":      {head + `"status":"success"}`, func(r *protocol.Response) bool { return r.Err == nil && string(r.Result) == "{}" }},
		"result is null":       {head + `"status":"success","result":null}`, func(r *protocol.Response) bool { return string(r.Result) == "{}" }},
		"result is a list":     {head + `"status":"success","result":[1]}`, func(r *protocol.Response) bool { return string(r.Result) == "[1]" }},
		"result is text":       {head + `"status":"success","result":"a\"b"}`, func(r *protocol.Response) bool { return string(r.Result) == `"a\"b"` }},
		"details are text":     {head + `"status":"failed","error":{"code":"3005","details":"x"}}`, func(r *protocol.Response) bool { return r.Err.Details["details"] == "x" }},
		"success has an error": {head + `"status":"success","error":{"code":"1001"}}`, func(r *protocol.Response) bool { return r.Err == nil }},
		"error left out":       {head + `"status":"failed"}`, func(r *protocol.Response) bool { return r.Err.Code == protocol.Internal && r.Err.Message != "" }},
		"no message":           {head + `"status":"failed","error":{"code":"3005"}}`, func(r *protocol.Response) bool { return r.Err.Message == "agent offline" }},
		"code of another kind": {head + `"status":"failed","error":{"code":"E_OVEN","message":"hot"}}`, func(r *protocol.Response) bool {
			return r.Err.Code == protocol.Internal && r.Err.Details["code"] == "E_OVEN" && r.Err.Message == "hot"
		}},
		"code of another table": {head + `"status":"failed","error":{"code":"9123"}}`, func(r *protocol.Response) bool { return r.Err.Code == "9123" }},
		"code is a fraction":    {head + `"status":"failed","error":{"code":30.5}}`, func(r *protocol.Response) bool { return r.Err.Code == protocol.Internal }},
		"details are a list":    {head + `"status":"failed","error":{"code":"3005","details":[1]}}`, func(r *protocol.Response) bool { return reflect.DeepEqual(r.Err.Details["details"], []any{int64(1)}) }},
		"error is a number":     {head + `"status":"failed","error":5}`, func(r *protocol.Response) bool { return r.Err.Code == protocol.Internal }},
		"partial result": {head + `"status":"failed","result":{"done":1},"error":{"code":"4007"}}`, func(r *protocol.Response) bool {
			return string(r.Result) == `{"done":1}` && r.Err.Code == protocol.TimedOut
		}},
		"strange metadata":     {head + `"status":"success","metadata":{"sender_id":5,"trace_id":"","timeout":"x","warnings":"w","priority":"no"}}`, func(r *protocol.Response) bool { return reflect.DeepEqual(r.Metadata, protocol.Metadata{}) }},
		"metadata is a list":   {head + `"status":"success","metadata":[]}`, func(r *protocol.Response) bool { return r.Metadata.SenderID == "" }},
		"warnings of any kind": {head + `"status":"success","metadata":{"warnings":["a",1]}}`, func(r *protocol.Response) bool { return r.Metadata.Warnings == nil }},
		"warnings":             {head + `"status":"success","metadata":{"warnings":["a","b"]}}`, func(r *protocol.Response) bool { return reflect.DeepEqual(r.Metadata.Warnings, []string{"a", "b"}) }},
		"id is a number":       {strings.Replace(head, `"7"`, `7`, 1) + `"status":"success"}`, func(r *protocol.Response) bool { return r.ID == "7" }},
		"timestamp is text":    {strings.Replace(head, `:1,`, `:"now",`, 1) + `"status":"success"}`, func(r *protocol.Response) bool { return r.Timestamp == 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := protocol.DecodeResponse([]byte(tt.data), protocol.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !tt.check(r) {
				t.Errorf("got %+v, error %v", r, r.Err)
			}
		})
	}
}

func TestResponseThatAnswersNothingIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data, param string
		code        protocol.Code
	}{
		"no id":           {`{"version":"0.6.3","status":"success"}`, "id", protocol.MalformedEnvelope},
		"long id":         {`{"id":"` + strings.Repeat("i", 65) + `","status":"success"}`, "id", protocol.MalformedEnvelope},
		"another type":    {`{"id":"7","type":"request","status":"success"}`, "type", protocol.MalformedEnvelope},
		"another status":  {`{"id":"7","status":"done"}`, "status", protocol.MalformedEnvelope},
		"status number":   {`{"id":"7","status":200}`, "status", protocol.MalformedEnvelope},
		"duplicate key":   {`{"id":"7","result":{"a":1,"a":2}}`, "result.a", protocol.MalformedEnvelope},
		"another version": {`{"id":"7","version":"2.0.0","status":"success"}`, "version", protocol.UnsupportedVersion},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := protocol.DecodeResponse([]byte(tt.data), protocol.Limits{})
			if e := failure(t, err, tt.code); detail(e, "param_name") != tt.param {
				t.Errorf("param_name %v, want %s", e.Details["param_name"], tt.param)
			}
		})
	}
}

func TestFailureMayAnswerWhatHadNoReadableID(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"empty id": `{"id":"","status":"failed","error":{"code":"1000","message":"malformed"}}`,
		"no id":    `{"status":"failed","error":{"code":"1000","message":"malformed"}}`,
		"long id":  `{"id":"` + strings.Repeat("i", 65) + `","status":"failed","error":{"code":"1000","message":"malformed"}}`,
	} {
		r, err := protocol.DecodeResponse([]byte(data), protocol.Limits{})
		if err != nil || r.Err == nil || r.Err.Code != protocol.MalformedEnvelope {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

func TestMalformedRequestsAreNotCalledDeprecated(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "hello", `{"version":"0.6.3"}`} {
		if r, err := protocol.DecodeRequest([]byte(data), protocol.Limits{}); err == nil || len(r.Deprecations) > 0 {
			t.Errorf("%q: deprecations %q, error %v", data, r.Deprecations, err)
		}
	}
}

func TestEventNeedsOnlyItsIDAndName(t *testing.T) {
	t.Parallel()
	e, err := protocol.DecodeEvent([]byte(`{"id":"7","event":"task.accepted"}`), protocol.Limits{})
	if err != nil || e.ID != "7" || e.Name != "task.accepted" || string(e.Data) != "{}" || e.Seq != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	for param, data := range map[string]string{
		"id":    `{"event":"a"}`,
		"event": `{"id":"7"}`,
		"seq":   `{"id":"7","event":"a","seq":-1}`,
		"type":  `{"id":"7","event":"a","type":"response"}`,
	} {
		_, err := protocol.DecodeEvent([]byte(data), protocol.Limits{})
		if e := failure(t, err, protocol.MalformedEnvelope); detail(e, "param_name") != param {
			t.Errorf("param_name %v, want %s", e.Details["param_name"], param)
		}
	}
}

func TestMessageIsSniffedWithoutAType(t *testing.T) {
	t.Parallel()
	for want, data := range map[string]string{
		"request":  `{"version":"0.6.0","id":"7","command":"a.b","params":{},"metadata":{}}`,
		"response": `{"id":"7","result":{}}`,
		"event":    `{"id":"7","event":"a"}`,
	} {
		m, err := protocol.DecodeEnvelope([]byte(data), protocol.Limits{})
		if err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if (m.Request != nil) != (want == "request") || (m.Response != nil) != (want == "response") || (m.Event != nil) != (want == "event") {
			t.Errorf("%s: got %+v", want, m)
		}
	}
	if m, err := protocol.DecodeEnvelope([]byte(`{"type":"gossip"}`), protocol.Limits{}); err == nil || m.Request == nil {
		t.Errorf("unknown type: got %+v, %v", m, err)
	}
}

func TestErrorSurvivesTheWire(t *testing.T) {
	t.Parallel()
	sent := protocol.BusyFor(1500*time.Millisecond, "busy").With("note", "a\nb").With("ratio", 0.25).
		With("list", []string{"x"}).With("never", make(chan int)).With("nothing", nil).With("yes", true)
	data, err := sent.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got protocol.Error
	if err := got.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"retry_after_ms": int64(1500), "note": "a\nb", "ratio": 0.25, "list": []any{"x"}, "never": nil, "nothing": nil, "yes": true}
	if got.Code != protocol.Busy || got.Message != "busy" || !reflect.DeepEqual(got.Details, want) {
		t.Errorf("got %+v", got)
	}
	if got.RetryAfter() != 1500*time.Millisecond || sent.RetryAfter() != got.RetryAfter() {
		t.Errorf("retry after %v", got.RetryAfter())
	}
	if !errors.Is(&got, &protocol.Error{Code: protocol.Busy}) {
		t.Error("the code is lost")
	}
}

func TestRepliesNameTheRequestEvenIfTheyCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		id   string
		fine bool
	}{
		"an id alone":           {`{"id":"x"}`, "x", true},
		"an id and a version":   {`{"version":"0.6.3","id":"x","metadata":{}}`, "x", true},
		"a number":              {`{"id":7}`, "7", true},
		"response_to alone":     {`{"response_to":"x"}`, "x", true},
		"a status of its own":   {`{"id":"x","status":"maybe"}`, "x", false},
		"a type of its own":     {`{"id":"x","type":"reply","status":"success"}`, "x", false},
		"another version":       {`{"version":"9.0","id":"x","status":"success"}`, "x", false},
		"the result twice":      {`{"id":"x","result":{},"result":{}}`, "x", false},
		"a result that ends":    {`{"id":"x","status":"success","result":{"on":`, "x", false},
		"NaN":                   {`{"id":"x","result":{"celsius":NaN}}`, "x", false},
		"bytes that are not":    {"{\"id\":\"x\",\"result\":\"\xff\"}", "x", false},
		"a request":             {`{"id":"x","type":"request","command":"skill.invoke"}`, "x", false},
		"a request without end": {`{"id":"x","command":"`, "x", false},
		"words":                 {`done`, "", false},
		"an id of no use":       {`{"id":{}}`, "", false},
		"too much":              {`{"id":"x","status":"success","result":"` + strings.Repeat("r", 5000) + `"}`, "x", false},
	} {
		m, err := protocol.ViewReply([]byte(test.data), protocol.Limits{MaxBytes: 5000})
		if fine := err == nil && m.Response != nil && m.Response.Err == nil; m.ID() != test.id || fine != test.fine {
			t.Errorf("%s: the id is %q, want %q; %v", name, m.ID(), test.id, err)
		}
	}
}
