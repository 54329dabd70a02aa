package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

func TestTheMCPAgentIsThereAsLongAsThereAreModels(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "llm.yaml")
	write := func(models string) {
		text := "providers: [{name: a, wire: openai, base_url: http://127.0.0.1:1}]\nprobe: -1s\n" + models
		bridgetest.Write(t, file, text)
	}
	write("models: [{name: small, aliases: [tiny], version: '2', routes: [{provider: a}]}, {name: secret, spaces: [lab], routes: [{provider: a}]}]")
	n := bridgetest.Start(t, func(c *app.Config) { c.LLM.File = file })
	c := n.Caller(t, "looker")
	c.Listen(t, "aibridge/agent/mcp-agent-1/card")
	cardIs := func(want string) {
		t.Helper()
		for { // until it says so; the test's time is the limit
			payload := c.Next(t).Payload
			if len(payload) == 0 && want == "" {
				return
			}
			var card struct {
				Type, Status string
				Models       []registry.CardModel
			}
			if err := json.Unmarshal(payload, &card); err == nil && fmt.Sprint(card.Type, card.Status, card.Models) == want {
				return
			}
		}
	}
	cardIs("mcp_agentonline[{small 2 [tiny] true}]")

	write("models: [{name: large, routes: [{provider: a}]}]")
	cardIs("mcp_agentonline[{large  [] true}]")
	list, err := client.Call[struct {
		Agents []registry.AgentView `json:"agents"`
	}](t.Context(), n.Dial(t), "agent.list", map[string]string{"type": "mcp_agent"})
	if err != nil || len(list.Agents) != 1 || list.Agents[0].Status != registry.Online || list.Agents[0].Endpoints[0] != n.HTTPURL("/api/mcp-agent/llm") {
		t.Errorf("got %+v, %v", list, err)
	}

	write("models: []")
	cardIs("")
	eventually.Holds(t, "it is withdrawn", func() bool {
		list, err := client.Call[struct{ Total int }](t.Context(), n.Dial(t), "agent.list", map[string]string{"type": "mcp_agent"})
		return err == nil && list.Total == 0
	})
}

// TestTheMCPAgentIsWhereTheOldestBridgeIs declares the oldest of three bridges dead: the
// agent is at the next one then, for all of them.
func TestTheMCPAgentIsWhereTheOldestBridgeIs(t *testing.T) {
	t.Parallel()
	url, a, b, c := trioWith(t, withModel(scripted.ForBridge(t)))
	looks := c.Caller(t, "looks")
	isAt := func(n *bridgetest.Node) {
		t.Helper()
		var got struct {
			Status    string
			Endpoints []string
		}
		eventually.Holds(t, "the agent is at the bridge", func() bool {
			answer := looks.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", `{"agent_id":"mcp-agent-1"}`))
			if answer.Err != nil {
				return false
			}
			if err := json.Unmarshal(answer.Result, &got); err != nil {
				t.Fatal(err)
			}
			return got.Status == "online" && slices.Equal(got.Endpoints, []string{n.HTTPURL("/api/mcp-agent/llm")})
		}, &got)
	}
	isAt(a)
	verdict(t, url, "a")
	_ = a.Ended(t)
	isAt(b)
}
