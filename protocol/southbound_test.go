package protocol_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

const southboundQuery = `{"protocol_version":"0.6.3","command_id":"cmd-123","timestamp":"2026-01-23T12:00:00Z",
	"source":{"component":"Skills","id":"a2ui"},"destination":{"component":"mcpAgent","id":"mcp-agent-1"},
	"operation":"execute-llm-query","payload":{"skill_id":"a2ui","query":"如何优化表单组件","parameters":{"context":"A2UI"}},
	"metadata":{"priority":"high","timeout":60,"retry_count":2,"vendor":1},"more":null}`

func TestSouthboundRequestsAreReadAsTheirSourceWritesThem(t *testing.T) {
	t.Parallel()
	r, err := protocol.DecodeSouthbound([]byte(southboundQuery), protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if r.CommandID != "cmd-123" || r.Operation != "execute-llm-query" || r.Source != (protocol.SouthboundPeer{Component: "Skills", ID: "a2ui"}) ||
		r.Destination.ID != "mcp-agent-1" || r.Timeout != time.Minute || r.RetryCount != 2 || r.Priority != protocol.High ||
		r.Timestamp.UnixMilli() != 1769169600000 || !strings.Contains(string(r.Payload), `"如何优化表单组件"`) {
		t.Errorf("got %+v", r)
	}
	r, err = protocol.DecodeSouthbound([]byte(`{"protocol_version":"0.6.0","command_id":"1","operation":"get-llm-status"}`), protocol.Limits{})
	if err != nil || r.Timeout != 30*time.Second || r.RetryCount != 3 || r.Priority != protocol.Medium || !r.Timestamp.IsZero() || string(r.Payload) != "{}" {
		t.Errorf("with the least: %+v, %v", r, err)
	}
	r, err = protocol.DecodeSouthbound([]byte(strings.Replace(southboundQuery, `"timeout":60`, `"timeout":0.25`, 1)), protocol.Limits{})
	if err != nil || r.Timeout != 250*time.Millisecond {
		t.Errorf("a quarter of a second: %+v, %v", r, err)
	}
}

func TestWhatIsWrongWithASouthboundRequestIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, new, field string
		code            protocol.Code
	}{
		"another version":      {`"0.6.3"`, `"0.7.0"`, "protocol_version", protocol.UnsupportedVersion},
		"no version":           {`"protocol_version":"0.6.3",`, ``, "protocol_version", protocol.MalformedEnvelope},
		"no id":                {`"command_id":"cmd-123",`, ``, "command_id", protocol.MalformedEnvelope},
		"a number for an id":   {`"cmd-123"`, `123`, "command_id", protocol.MalformedEnvelope},
		"too long an id":       {`cmd-123`, strings.Repeat("x", 65), "command_id", protocol.MalformedEnvelope},
		"an id of two lines":   {`cmd-123`, `cmd\n123`, "command_id", protocol.MalformedEnvelope},
		"no operation":         {`"operation":"execute-llm-query",`, ``, "operation", protocol.MalformedEnvelope},
		"a payload that is []": {`"payload":{"skill_id":"a2ui","query":"如何优化表单组件","parameters":{"context":"A2UI"}}`, `"payload":[]`, "payload", protocol.MalformedEnvelope},
		"no time":              {`2026-01-23T12:00:00Z`, `yesterday`, "timestamp", protocol.MalformedEnvelope},
		"milliseconds":         {`"timeout":60`, `"timeout":30000`, "metadata.timeout", protocol.MalformedEnvelope},
		"no timeout at all":    {`"timeout":60`, `"timeout":0`, "metadata.timeout", protocol.MalformedEnvelope},
		"half a retry":         {`"retry_count":2`, `"retry_count":1.5`, "metadata.retry_count", protocol.MalformedEnvelope},
		"too many retries":     {`"retry_count":2`, `"retry_count":11`, "metadata.retry_count", protocol.MalformedEnvelope},
		"a priority":           {`"high"`, `"urgent"`, "metadata.priority", protocol.MalformedEnvelope},
		"a source":             {`{"component":"Skills","id":"a2ui"}`, `{"id":7}`, "source", protocol.MalformedEnvelope},
	} {
		text := strings.Replace(southboundQuery, test.old, test.new, 1)
		r, err := protocol.DecodeSouthbound([]byte(text), protocol.Limits{})
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code != test.code || e.Details["param_name"] != test.field {
			t.Errorf("%s: %v", name, err)
		}
		if r == nil || r.Source.ID != "a2ui" && test.field != "source" {
			t.Errorf("%s: nobody can be answered", name)
		}
	}
}

func TestDialectsAreToldApart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		southboundQuery:                               true,
		`{"protocol_version":"0.6.3"}`:                true,
		`{"protocol_version":"9","operation":"x"}`:    true,
		`{"version":"0.6.3","protocol_version":"x"}`:  false,
		`{"version":"0.6.3","command":"agent.list"}`:  false,
		`{"params":{"protocol_version":"0.6.3"}}`:     false,
		`{"params":"\"protocol_version\":\"0.6.3\""}`: false,
		`["protocol_version"]`:                        false,
		`{"protocol_version":`:                        false,
		``:                                            false,
	} {
		if got := protocol.IsSouthbound([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSouthboundResponsesHaveAllFields(t *testing.T) {
	t.Parallel()
	r, err := protocol.DecodeSouthbound([]byte(southboundQuery), protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	resp := r.Answer(protocol.SouthboundPeer{Component: "mcpAgent", ID: "mcp-agent-1"}, time.UnixMilli(1769169600123))
	resp.Payload, resp.Attempts = []byte(`{"result":"<ok>"}`), 1
	const head = `{"protocol_version":"0.6.3","command_id":"cmd-123","timestamp":"2026-01-23T12:00:00.123Z",` +
		`"source":{"component":"mcpAgent","id":"mcp-agent-1"},"destination":{"component":"Skills","id":"a2ui"},`
	if got, want := string(resp.Append(nil)), head+`"status":"success","payload":{"result":"<ok>"},"error":null,"metadata":{"warnings":[],"attempts":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	resp.Payload, resp.Attempts, resp.TraceID = nil, 3, "t"
	resp.Err = protocol.BusyFor(time.Second, "busy")
	if got, want := string(resp.Append(nil)), head+`"status":"failed","payload":{},"error":{"code":"1006","message":"busy","details":{"retry_after_ms":1000}},"metadata":{"trace_id":"t","warnings":[],"attempts":3}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if resp.Err.Code != protocol.Busy {
		t.Error("the error itself was translated")
	}
}

func TestEveryCodeHasASouthboundOne(t *testing.T) {
	t.Parallel()
	for _, code := range protocol.Codes() {
		got := protocol.SouthboundCodeOf(&protocol.Error{Code: code})
		if got < protocol.SouthboundParameter || got > protocol.SouthboundUnavailable {
			t.Errorf("%s becomes %s", code, got)
		}
		if code[0] == '1' || code[0] == '2' || code[0] == '3' && code != protocol.AgentOffline {
			if got.Retried() {
				t.Errorf("%s becomes %s, which is tried again", code, got)
			}
		}
	}
	for code, want := range map[protocol.Code]protocol.SouthboundCode{
		protocol.InvalidParameter: "1000", protocol.NotAuthenticated: "1001", protocol.PermissionDenied: "1002", protocol.NotFound: "1003",
		protocol.TimedOut: "1004", protocol.TargetUnavailable: "1005", protocol.Busy: "1006", protocol.Internal: "1007",
		protocol.MalformedEnvelope: "1008", protocol.LLMUnavailable: "1009", "9999": "1007",
	} {
		if got := protocol.SouthboundCodeOf(&protocol.Error{Code: code}); got != want {
			t.Errorf("%s becomes %s, not %s", code, got, want)
		}
	}
	for reason, want := range map[string]protocol.SouthboundCode{
		"bad_request": "1000", "context_length": "1000", "unknown_model": "1003", "auth": "1009",
		"rate_limited": "1006", "overloaded": "1006", "network": "1005", "cut_off": "1005",
		"unavailable": "1009", "bad_response": "1009", "unconfigured": "1009",
	} {
		for _, code := range []protocol.Code{protocol.LLMRefused, protocol.LLMUnavailable} {
			if got := protocol.SouthboundCodeOf(protocol.Errorf(code, "no").With("reason", reason)); got != want {
				t.Errorf("%s for %s becomes %s, not %s", code, reason, got, want)
			}
		}
	}
	if got := protocol.SouthboundCodeOf(protocol.InvalidParam("query", "rate_limited")); got != protocol.SouthboundParameter {
		t.Errorf("a reason of another code makes it %s", got)
	}
}

func FuzzSouthbound(f *testing.F) {
	f.Add([]byte(southboundQuery))
	f.Add([]byte(`{"protocol_version":"0.6.3","command_id":"1","operation":"list-llm-models","metadata":{"timeout":1e300,"retry_count":-1}}`))
	f.Add([]byte(`{"protocol_version":null,"source":null,"payload":null,"timestamp":"9999-12-31T23:59:60Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := protocol.DecodeSouthbound(data, protocol.Limits{})
		if r == nil {
			t.Fatal("nobody can be answered")
		}
		if err == nil && (r.CommandID == "" || r.Operation == "" || r.Timeout <= 0 || r.Timeout > protocol.MaxTimeout || r.RetryCount < 0 || r.RetryCount > protocol.MaxRetries || r.Payload[0] != '{') {
			t.Fatalf("accepted %+v", r)
		}
		if err == nil && !protocol.IsSouthbound(data) && !strings.Contains(string(data), `\`) {
			t.Fatal("what can be read is not recognised")
		}
		resp := r.Answer(protocol.SouthboundPeer{}, time.UnixMilli(0))
		if err != nil {
			resp.Err = protocol.AsError(err)
		}
		if answer := resp.Append(nil); !json.Valid(answer) {
			t.Fatalf("the answer is not JSON: %s", answer)
		}
	})
}
