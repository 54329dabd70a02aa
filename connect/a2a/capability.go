package a2a

import (
	"encoding/json"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/protocol"
)

// MessageCapability is the capability that sends an agent a message.
const MessageCapability protocol.CapabilityID = "message"

// A capability is the form of a skill of a card here.
type capability struct {
	ID          protocol.CapabilityID `json:"capability_id"`
	Name        string                `json:"name,omitempty"`
	Description string                `json:"description,omitempty"`
	Params      json.RawMessage       `json:"params_schema"`
	Effect      string                `json:"effect"`
	Risk        string                `json:"risk,omitempty"`

	skill string // of the card, "" of a message
	typed bool   // the params are those of the skill itself
}

// saying is the schema of the params of messages in words or with data.
var saying = json.RawMessage(`{"type":"object","additionalProperties":false,"anyOf":[{"required":["text"]},{"required":["data"]}],"properties":{` +
	`"text":{"type":"string","minLength":1,"maxLength":262144,"description":"what the agent is told"},` +
	`"data":{"description":"JSON that the agent is sent"},` +
	`"continue":{"type":"string","minLength":1,"maxLength":2048,"description":"of an earlier answer to the same caller: this goes on with its task, if that waits for an answer, or else with its conversation"}}}`)

// capabilities are the capabilities of an agent with the card; left is the number of
// its skills that are left out.
func (c *Card) capabilities(risk string) (list []capability, left int) {
	list = append(list, capability{
		ID: MessageCapability, Description: "Sends the agent a message, and answers with what comes of it.", Params: saying, Effect: "act", Risk: risk,
	})
	taken := map[protocol.CapabilityID]bool{MessageCapability: true}
	schemas := c.schemas()
	for i := range c.Skills {
		s := &c.Skills[i]
		id := capabilityID(s.ID)
		if id == "" || taken[id] || len(list) > maxSkills {
			left++
			continue
		}
		taken[id] = true
		one := capability{
			ID: id, Name: line(s.Name, 120), Description: line(strings.Join(append([]string{s.Description}, s.Examples...), " · "), 480),
			Params: saying, Effect: "act", Risk: risk, skill: s.ID,
		}
		if schema := schemas[s.ID]; len(schema) > 0 && schema[0] == '{' {
			one.Params, one.typed = schema, true
		}
		list = append(list, one)
	}
	return list, left
}

// capabilityID is the name of a skill as the id of a capability, "" if it can be none.
func capabilityID(name string) protocol.CapabilityID {
	id := protocol.CapabilityID(norm.NFC.String(strings.Map(func(c rune) rune {
		if c == '/' || c == '+' || c == '#' || c == ' ' {
			return '-'
		}
		return c
	}, name)))
	if id.Rule().Check(string(id)) != "" {
		return ""
	}
	return id
}

// registration are the params that register the agent.
func (a *Agent) registration(c *Card) ([]byte, error) {
	type skill struct {
		ID           protocol.SkillID `json:"skill_id"`
		Name         string           `json:"name"`
		Description  string           `json:"description,omitempty"`
		Capabilities []capability     `json:"capabilities"`
	}
	list, _ := c.capabilities(a.Risk)
	name := line(c.Name, 120)
	return json.Marshal(struct {
		ID     protocol.AgentID `json:"agent_id"`
		Type   string           `json:"type"`
		Name   string           `json:"name"`
		Skills []skill          `json:"skills"`
	}{a.ID, "end_agent", name, []skill{{protocol.SkillID(a.ID), name, line(c.Description, 480), list}}})
}
