package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// bookshelf is an MCP server with things to read.
func bookshelf(t *testing.T) (*sdk.Server, string) {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, nil)
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if r.Params.URI == "book:///lost" {
			return nil, sdk.ResourceNotFoundError(r.Params.URI)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "It was a dark night"}}}, nil
	}
	s.AddResource(&sdk.Resource{URI: "book:///1?page=2", Name: "one"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "book:///{title}", Name: "book", Description: "Any book"}, read)
	s.AddPrompt(&sdk.Prompt{Name: "review", Description: "Reviews a book", Arguments: []*sdk.PromptArgument{{Name: "title"}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Review " + r.Params.Arguments["title"]}}}}, nil
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
		server.CloseClientConnections()
		server.Close()
	})
	return s, server.URL
}

// foreignTo is the part of other servers that a client is shown, as one text.
func foreignTo(t *testing.T, c *sdk.ClientSession) string {
	t.Helper()
	var seen []string
	for r, err := range c.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.URI, "mcp:") {
			seen = append(seen, r.URI)
		}
	}
	for r, err := range c.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.URITemplate, "mcp:") {
			seen = append(seen, r.URITemplate)
		}
	}
	for p, err := range c.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(p.Name, "mcp.") {
			seen = append(seen, p.Name)
		}
	}
	return strings.Join(seen, " ")
}

func TestClientsReadWhatOtherServersHave(t *testing.T) {
	theirs, url := bookshelf(t)
	n, admin, _ := guarded(t, func(c *app.Config) { c.MCP.Servers = []servers.Config{{Name: "library", URL: url}} })
	heard := make(chan struct{}, 16)
	c := mcpClient(t, n, keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`), "2025-11-25", &sdk.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { heard <- struct{}{} },
	})
	const all = "mcp:///library/book:///1?page=2 mcp:///library/book:///{title} mcp.library.review"
	eventually.Holds(t, "the library is there", func() bool { return foreignTo(t, c) == all })

	read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "mcp:///library/book:///2"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "It was a dark night" || read.Contents[0].URI != "mcp:///library/book:///2" || read.Contents[0].Meta["aibridge/untrusted"] != true {
		t.Errorf("read: %v %+v", err, read)
	}
	prompt, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "mcp.library.review", Arguments: map[string]string{"title": "Emma"}})
	if err != nil || len(prompt.Messages) != 1 || prompt.Messages[0].Content.(*sdk.TextContent).Text != "Review Emma" || prompt.Meta["aibridge/untrusted"] != true {
		t.Errorf("prompt: %v %+v", err, prompt)
	}
	for _, uri := range []string{"mcp:///library/book:///lost", "mcp:///library/", "mcp:///", "mcp:///never/book:///2"} {
		if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for who, key := range map[string]string{
		"a device":       `{"principal_id":"lamp"}`,
		"another tenant": `{"principal_id":"bob","kind":"operator","roles":["operator"],"space_id":"acme"}`,
		"an observer":    `{"principal_id":"eve","kind":"operator","roles":["observer"]}`,
	} {
		other := mcpClient(t, n, keyFor(t, admin, key), "", nil)
		if seen := foreignTo(t, other); seen != "" {
			t.Errorf("%s is shown %s", who, seen)
		}
		if r, err := other.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "mcp:///library/book:///2"}); err == nil {
			t.Errorf("%s reads %+v", who, r)
		}
		if p, err := other.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "mcp.library.review"}); err == nil {
			t.Errorf("%s gets %+v", who, p)
		}
	}
	if _, err := c.ListTools(t.Context(), nil); err != nil { // from then on it hears of changes
		t.Fatal(err)
	}
	theirs.RemoveResources("book:///1?page=2")
	select {
	case <-heard:
	case <-time.After(bridgetest.Patience):
		t.Fatal("word of a resource that is gone does not arrive")
	}
	eventually.Holds(t, "the resource is gone", func() bool { return !strings.Contains(foreignTo(t, c), "page=2") })
	eventually.Holds(t, "the audit trail has the reading", func() bool {
		return strings.Contains(string(must(t, admin, "audit.query", `{"event":"mcp.resource.read","principal":"ada"}`)), "mcp/library")
	})
	if answer := admin.Ask(t, bridgetest.Request("r1", "mcp.resource.read", `{"server":"library","uri":"mcp:///other/x:1"}`)); protocol.CodeOf(answer.Err) != protocol.NotFound {
		t.Errorf("a resource of a server of the server: %v", answer.Err)
	}
}
