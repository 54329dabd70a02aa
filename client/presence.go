package client

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A Card is the bridge's description of an agent (docs/protocol.md#presence).
type Card struct {
	AgentID protocol.AgentID `json:"agent_id"`
	Space   protocol.SpaceID `json:"space_id"`
	Type    AgentType        `json:"type"`
	Name    string           `json:"name"`
	Status  string           `json:"status"` // online or offline
	Skills  []CardSkill      `json:"skills"`
}

// A CardSkill is a skill on a card.
type CardSkill struct {
	ID           protocol.SkillID        `json:"skill_id"`
	Name         string                  `json:"name"`
	Version      string                  `json:"version"`
	Capabilities []protocol.CapabilityID `json:"capabilities"`
}

// Online reports whether the agent is there.
func (c *Card) Online() bool { return c.Status == "online" }

// WatchAgent follows an agent: handle gets its card as it is now, and again
// whenever the agent, its skills or its presence change. "+" watches all
// agents. An agent that was unregistered is shown once more, offline and
// without anything else.
func (c *Client) WatchAgent(ctx context.Context, id protocol.AgentID, handle func(context.Context, Card)) (*Subscription, error) {
	return c.Subscribe(ctx, c.Topics().AgentCard(id), func(ctx context.Context, m Message) {
		agent, _, _ := c.Topics().Agent(m.Topic)
		card := Card{AgentID: agent, Status: "offline"}
		if len(m.Payload) > 0 {
			if err := json.Unmarshal(m.Payload, &card); err != nil {
				c.log.Warn("agent card not understood", "agent", agent, "error", err)
				return
			}
		}
		handle(ctx, card)
	})
}
