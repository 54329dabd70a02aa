package servers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/eventually"
)

// bridge is a server that is a bridge, as far as one can see.
func bridge(instance string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "aibridge"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{
		Tools: &sdk.ToolCapabilities{}, Experimental: map[string]any{"aibridge": map[string]any{"instance": instance}},
	}})
	add := func(name, source string) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Meta: sdk.Meta{"aibridge/source": source}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				text, err := json.Marshal(r.Params.Meta["aibridge/depth"])
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}, err
			})
	}
	add("lamp.switch", "skill")
	add("mcp.notes.read", "mcp:notes")
	return s
}

func TestABridgeDoesNotUseItself(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "hush")
	headers := map[string]string{"Authorization": "Bearer env:NOTES_TOKEN"}
	w := start(t, Config{Name: "self", URL: serve(t, bridge("bridge-1")), Headers: headers})
	eventually.Holds(t, "the server is given up", func() bool { return w.view(t).State == Down })
	if v := w.view(t); !strings.Contains(v.Problem, "this bridge itself") || len(v.Tools) > 0 || w.offers(t) != "" {
		t.Errorf("the bridge as its own server: %+v", v)
	}
}

func TestAnotherBridgeIsTakenForItsOwnToolsAndToldTheDepth(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "hush")
	headers := map[string]string{"Authorization": "Bearer env:NOTES_TOKEN"}
	w := start(t, Config{Name: "other", URL: serve(t, bridge("bridge-2")), Headers: headers})
	eventually.Holds(t, "its tools are there", func() bool { return w.offers(t) != "" })
	if got := w.offers(t); got != "mcp.other.lamp.switch" {
		t.Errorf("offered: %s", got)
	}
	w.env.Depth = 2
	env := w.env
	env.Depth++ // as in a call of a tool
	answer, err := w.invoke(t.Context(), env, "mcp.tool.call", json.RawMessage(`{"server":"other","tool":"lamp.switch"}`))
	var r CallResult
	if err != nil || json.Unmarshal(answer, &r) != nil || r.Text != "3" {
		t.Errorf("the depth that it is told: %v %s", err, answer)
	}
}
