package app_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/telemetry/collectortest"
)

// attributesOf are the attributes of a span, as texts.
func attributesOf(s *tracepb.Span) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		switch v := a.Value; {
		case v.GetArrayValue() != nil:
			for _, one := range v.GetArrayValue().Values {
				all[a.Key] += one.GetStringValue()
			}
		case v.GetStringValue() != "":
			all[a.Key] = v.GetStringValue()
		case v.GetDoubleValue() != 0:
			all[a.Key] = fmt.Sprint(v.GetDoubleValue() > 0)
		default:
			all[a.Key] = fmt.Sprint(v.GetIntValue())
		}
	}
	return all
}

// A question that a model answers with the help of a device is one trace by
// OpenTelemetry's conventions, from the caller's own span to the message that the
// device gets. No content is told.
func TestAQuestionIsOneTrace(t *testing.T) {
	t.Parallel()
	collector := collectortest.New(t)
	f := newFlat(t, func(c *app.Config) { c.Telemetry.OTLP = collector.URL })
	f.model.Play(calls("north.read", "{}"), says("It is 15 degrees."))
	f.north.reset(15)
	f.trace = "story-tracing"
	const trace = "0af7651916cd43dd8448eb211c80319c"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.HTTPURL("/api/v1/commands/llm.query"),
		strings.NewReader(`{"query":"How warm is it, secretly?","tools":["north.read"]}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+f.key("operator", "carol", "operator"))
	request.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", answer.Status, body)
	}
	_, metrics := ask(t, http.MethodGet, f.HTTPURL("/metrics"), "Authorization", "Bearer "+f.admin)
	f.Stop(t) // tells the rest

	spans := make(map[string]*tracepb.Span)
	names := make(map[string]string)
	for _, s := range collector.Spans() {
		if hex.EncodeToString(s.TraceId) != trace {
			continue
		}
		if strings.HasPrefix(s.Name, "chat ") && spans["chat small"] != nil {
			s.Name += " again"
		}
		spans[s.Name], names[hex.EncodeToString(s.SpanId)] = s, s.Name
	}
	for name, want := range map[string]struct {
		parent string
		said   map[string]string
	}{
		"llm.query":                {"", nil},
		"invoke_agent mcp-agent-1": {"llm.query", map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "mcp-agent-1", "gen_ai.usage.input_tokens": "30"}},
		"chat small":               {"invoke_agent mcp-agent-1", map[string]string{"gen_ai.response.finish_reasons": "tool_use", "gen_ai.provider.name": "openai", "server.address": "127.0.0.1"}},
		"chat small again":         {"invoke_agent mcp-agent-1", map[string]string{"gen_ai.response.finish_reasons": "end_turn", "gen_ai.response.time_to_first_chunk": "true"}},
		"execute_tool north.read":  {"invoke_agent mcp-agent-1", map[string]string{"gen_ai.tool.name": "north.read", "gen_ai.tool.call.id": "call_0", "gen_ai.tool.type": "function"}},
		"skill.invoke":             {"execute_tool north.read", map[string]string{"aibridge.door": "tool"}},
		"agent request":            {"skill.invoke", map[string]string{"messaging.system": "mqtt", "messaging.destination.name": "aibridge/agent/north/request", "messaging.operation.type": "send"}},
	} {
		s := spans[name]
		if s == nil {
			t.Errorf("there is no span %q, only %q", name, slices.Sorted(maps.Keys(spans)))
			continue
		}
		if parent := names[hex.EncodeToString(s.ParentSpanId)]; parent != want.parent {
			t.Errorf("%q is within %q", name, parent)
		}
		said := attributesOf(s)
		for key, value := range want.said {
			if said[key] != value {
				t.Errorf("%q has %s %q, not %q", name, key, said[key], value)
			}
		}
		if strings.Contains(fmt.Sprint(said), "secretly") || strings.Contains(fmt.Sprint(said), "degrees") {
			t.Errorf("%q tells contents: %v", name, said)
		}
	}
	for _, want := range []string{
		`gen_ai_client_operation_duration_seconds_count{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="small"} 2`,
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="small",gen_ai_token_type="input"} 30`,
		`gen_ai_invoke_agent_duration_seconds_count{error_type=""} 1`,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
