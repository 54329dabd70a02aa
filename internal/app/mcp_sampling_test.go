package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// summarizer is an MCP server whose tool has a model do its work.
func summarizer(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "summarizer", Version: "1"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "sum"}, func(_ context.Context, r *sdk.CallToolRequest, a text) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["sum"].(*sdk.CreateMessageWithToolsResult); ok {
			return &sdk.CallToolResult{Content: answer.Content}, nil, nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"sum": &sdk.CreateMessageParams{
			MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "Summarize: " + a.Text}}},
		}}}, nil, nil
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func TestAServerAsksTheBridgesModelsWithTheRightsOfItsCaller(t *testing.T) {
	t.Parallel()
	model := scripted.ForBridge(t, says("It is short."))
	url := summarizer(t)
	n, admin, _ := guarded(t, withModel(model), func(c *app.Config) {
		c.MCP.Servers = []servers.Config{{Name: "paper", URL: url, Spaces: []string{"*"}, Sampling: servers.Sampling{On: true}}}
	})
	keys := map[string]string{
		"ada": keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`),
		"bob": keyFor(t, admin, `{"principal_id":"bob","kind":"operator","roles":["operator"],"space_id":"acme"}`),
		"eve": keyFor(t, admin, `{"principal_id":"eve","kind":"operator","roles":["operator"],"scopes":["mcp:tool.call"]}`),
	}
	for _, who := range []string{"ada", "bob", "eve"} {
		c := mcpClient(t, n, keys[who], "2025-11-25", nil)
		params := &sdk.CallToolParams{Name: "mcp.paper.sum", Arguments: map[string]string{"text": "the story of " + who}}
		var said string
		eventually.Holds(t, "the server is there", func() bool {
			r, err := c.CallTool(t.Context(), params)
			if err != nil {
				said = err.Error()
				return !strings.Contains(said, "Unknown tool")
			}
			said = r.Content[0].(*sdk.TextContent).Text
			return true
		}, &said)
		if short := strings.Contains(said, "It is short."); short != (who != "eve") {
			t.Errorf("%s is told %s", who, said)
		}
	}
	asked := model.Requests()
	if len(asked) != 2 || !strings.Contains(string(asked[0].Body), "the story of ada") || !strings.Contains(string(asked[1].Body), "the story of bob") || strings.Contains(string(asked[1].Body), "ada") {
		t.Errorf("the model was asked %d times", len(asked))
	}
	spent := string(must(t, admin, "llm.spend", `{"by":["principal"]}`))
	if !strings.Contains(spent, "ada") || !strings.Contains(spent, "bob") || strings.Contains(spent, "eve") {
		t.Errorf("spent: %s", spent)
	}
	queries := audited(t, admin, `{"principal":"ada","event":"llm.advanced-query"}`).Entries
	calls := audited(t, admin, `{"principal":"ada","event":"mcp.tool.call"}`).Entries
	if len(queries) != 1 || len(calls) != 1 || queries[0].TraceID == "" || queries[0].TraceID != calls[0].TraceID {
		t.Errorf("the trail of ada: %+v, %+v", queries, calls)
	}
	if denied := audited(t, admin, `{"principal":"eve","event":"llm.advanced-query"}`).Entries; len(denied) != 1 || denied[0].Code != string(protocol.PermissionDenied) {
		t.Errorf("the trail of eve: %+v", denied)
	}
}
