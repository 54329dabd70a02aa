package mcp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestATraceThatCommandsRefuseIsPassedOver(t *testing.T) {
	for id, taken := range map[string]bool{
		"trace-9": true, "": true, strings.Repeat("ü", 128): true,
		strings.Repeat("x", 129): false, "a\u0085b": false, "a\xffb": false,
	} {
		var env tools.Environment
		trace(&env, http.Header{"X-Trace-Id": {id}}, "")
		if (env.TraceID == id) != taken {
			t.Errorf("%q is traced as %q", id, env.TraceID)
		}
		request := protocol.Request{Version: protocol.Version, ID: "1", Command: "bridge.describe", Metadata: protocol.Metadata{TraceID: env.TraceID}}
		if _, err := protocol.DecodeRequest(request.Append(nil), protocol.Limits{}); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}
