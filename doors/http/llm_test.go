package http

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/commands"
)

func TestOpenAPIDescribesTheLLMProtocol(t *testing.T) {
	t.Parallel()
	declare := func(name string) commands.Command {
		return commands.New(commands.Spec{Name: name, Summary: "Ask.", Action: "llm:ask", Effect: commands.Read, Example: `{"text":"hi"}`},
			func(context.Context, *commands.Call, echoParams) (echoResult, error) { return echoResult{}, nil })
	}
	set, err := commands.NewSet(declare("llm.query"), declare("llm.status"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := OpenAPI(set)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						AnyOf []struct {
							Title      string
							Properties map[string]any
						} `json:"anyOf"`
					}
				}
			} `json:"requestBody"`
		}
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	post := document.Paths["/api/mcp-agent/llm/query"]["post"]
	forms := post.RequestBody.Content["application/json"].Schema.AnyOf
	if post.OperationID != "execute-llm-query" || len(forms) != 2 || forms[0].Properties["text"] == nil || forms[1].Title != "southbound" || forms[1].Properties["payload"] == nil {
		t.Errorf("got %+v", post)
	}
	if get := document.Paths["/api/mcp-agent/llm/status"]["get"]; get.OperationID != "get-llm-status-get" {
		t.Errorf("got %+v", get)
	}
	if _, described := document.Paths["/api/mcp-agent/llm/models"]; described {
		t.Error("a path is described whose command there is not")
	}
	if _, get := document.Paths["/api/mcp-agent/llm/query"]["get"]; get {
		t.Error("queries are described as GET")
	}
}
