package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools/servers"
)

// A newspaper is an MCP server with a resource that changes, and completions.
func newspaper(t *testing.T) (*sdk.Server, string) {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "news", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{
				r.Params.Ref.Type + " " + r.Params.Argument.Name + " " + r.Params.Argument.Value, "two\nlines",
			}}}, nil
		},
	})
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "It rains"}}}, nil
	}
	s.AddResource(&sdk.Resource{URI: "news:///today", Name: "today"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "news:///{day}", Name: "day"}, read)
	s.AddPrompt(&sdk.Prompt{Name: "sum", Arguments: []*sdk.PromptArgument{{Name: "day"}}}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{}, nil
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

// lampAgent is an agent that comes online.
func lampAgent(t *testing.T, n *bridgetest.Node) *client.Client {
	t.Helper()
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "lamp"}))
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "lamp", Capabilities: []client.Capability{{
		ID: "switch", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) { return struct{}{}, nil }),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func TestClientsFollowAgentsFilesAndOtherServers(t *testing.T) {
	t.Parallel()
	paper, url := newspaper(t)
	n := bridgetest.Start(t, func(c *app.Config) {
		c.MCP.Servers = []servers.Config{{Name: "news", URL: url}}
	})
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			heard := make(chan string, 64)
			c := mcpClient(t, n, "", version, &sdk.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
			})
			follow := func(uri string) {
				t.Helper()
				var err error
				eventually.Holds(t, uri+" is there to follow", func() bool {
					err = c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri})
					return err == nil
				}, &err)
			}
			hears := func(uri string, change func()) {
				t.Helper()
				eventually.Holds(t, "the client hears of "+uri, func() bool {
					change()
					for {
						select {
						case told := <-heard:
							if told == uri {
								return true
							}
						default:
							return false
						}
					}
				})
			}
			lamp := lampAgent(t, n)
			follow("aibridge:///agents/lamp")
			hears("aibridge:///agents/lamp", func() {
				if lamp == nil {
					lamp = lampAgent(t, n)
					return
				}
				_ = lamp.Close()
				lamp = nil
			})
			follow("mcp:///news/news:///today")
			hears("mcp:///news/news:///today", func() {
				if err := paper.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: "news:///today"}); err != nil {
					t.Fatal(err)
				}
			})
			r, err := c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "mcp.news.sum"}, Argument: sdk.CompleteParamsArgument{Name: "day", Value: "mon"},
			})
			if err != nil || len(r.Completion.Values) != 1 || r.Completion.Values[0] != "ref/prompt day mon" {
				t.Errorf("an argument of a prompt: %v %+v", err, r)
			}
			r, err = c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &sdk.CompleteReference{Type: "ref/resource", URI: "mcp:///news/news:///{day}"}, Argument: sdk.CompleteParamsArgument{Name: "day", Value: "tue"},
			})
			if err != nil || len(r.Completion.Values) != 1 || r.Completion.Values[0] != "ref/resource day tue" {
				t.Errorf("an argument of a template: %v %+v", err, r)
			}
		})
	}
}

func TestAPersonIsAskedForWhatACallOfADeviceLacks(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	heater(t, n)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		c := mcpClient(t, n, "", version, &sdk.ClientOptions{
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"celsius": 19.0}}, nil
			},
		})
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "heater.set", Arguments: map[string]any{}})
		if err != nil || r.IsError || textOf(r) != `{"target":19}` {
			t.Errorf("%s: %v %+v", version, err, r)
		}
	}
}
