package offer

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// documentCapability is the capability by which agents show the SKILL.md of a
// skill.
const documentCapability = "skill.document"

// readingTool is the tool that reads it.
const readingTool = "skill.read"

// maxPrompts bounds how many there are.
const maxPrompts = 5000

// prompts are the skills with a SKILL.md: their names and descriptions in the
// list, and the whole text for those who ask for one.
type prompts struct{ *Options }

// A documented is what is to be known of a skill.
type documented struct {
	ID           string            `json:"skill_id"`
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Capabilities []json.RawMessage `json:"capabilities"`
}

// has reports whether the skill has a SKILL.md.
func (d *documented) has() bool {
	return slices.ContainsFunc(d.Capabilities, func(text json.RawMessage) bool {
		var full struct {
			ID string `json:"capability_id"`
		}
		var id string
		return json.Unmarshal(text, &id) == nil && id == documentCapability || json.Unmarshal(text, &full) == nil && full.ID == documentCapability
	})
}

func (d *documented) prompt() mcpdoor.Prompt {
	return mcpdoor.Prompt{Name: d.ID, Title: d.Name, Description: d.Description}
}

// List implements [mcpdoor.Prompts].
func (m prompts) List(ctx context.Context, env tools.Environment) ([]mcpdoor.Prompt, error) {
	var all []mcpdoor.Prompt
	for cursor := ""; len(all) < maxPrompts; {
		params := map[string]any{"limit": 1000, "capability": documentCapability}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Skills []documented `json:"skills"`
			Next   string       `json:"next_cursor"`
		}
		err := m.ask(ctx, env, "skill.discover", params, &page)
		if protocol.CodeOf(err) == protocol.PermissionDenied { // then there are none to see
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Skills {
			if page.Skills[i].has() {
				all = append(all, page.Skills[i].prompt())
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.SortFunc(all, func(x, y mcpdoor.Prompt) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

// Text implements [mcpdoor.Prompts]. A client that gets a prompt reads as a
// model does, and needs the same approvals.
func (m prompts) Text(ctx context.Context, env tools.Environment, name string) (mcpdoor.Prompt, string, error) {
	arguments, err := json.Marshal(map[string]string{"skill_id": name})
	if err != nil {
		return mcpdoor.Prompt{}, "", err
	}
	box, err := m.Catalogue.Select(ctx, env, []string{readingTool})
	if err != nil {
		return mcpdoor.Prompt{}, "", err
	}
	r := m.Executor.Execute(ctx, box, env, []*chat.ToolCall{{ID: protocol.NewID(), Name: readingTool, Args: arguments}})[0]
	if r.Err != nil {
		return mcpdoor.Prompt{}, "", r.Err
	}
	var document struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(r.Output.Content, &document); err != nil {
		return mcpdoor.Prompt{}, "", err
	}
	return mcpdoor.Prompt{Name: name, Description: "How to use the skill " + name}, document.Text, nil
}
