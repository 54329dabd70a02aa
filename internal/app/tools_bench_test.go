package app_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/quota"
)

// BenchmarkSelectOnABridge selects tools on a bridge with a thousand skills,
// each of which has to be asked about: all of them, and one by its name.
func BenchmarkSelectOnABridge(b *testing.B) {
	n := bridgetest.Start(b, func(c *app.Config) { c.Quotas = quota.Settings{} })
	c := n.Dial(b, client.WithAgent(client.Agent{ID: "many"}))
	if err := register(b, c, 1000); err != nil {
		b.Fatal(err)
	}
	env := tools.Environment{Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}}
	for name, patterns := range map[string][]string{"all": {"*"}, "one": {"skill-500.act"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.Bridge.Tools().Select(b.Context(), env, patterns); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func register(b *testing.B, c *client.Client, skills int) error {
	if _, err := client.Call[json.RawMessage](b.Context(), c, "agent.register", map[string]any{"agent_id": "many", "type": "end_agent"}); err != nil {
		return err
	}
	for i := range skills {
		_, err := client.Call[json.RawMessage](b.Context(), c, "skill.register", map[string]any{
			"agent_id": "many", "skill": map[string]any{"skill_id": fmt.Sprint("skill-", i), "name": "Skill", "capabilities": []string{"act"}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
