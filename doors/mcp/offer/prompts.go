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

// maxPrompts is the greatest number of prompts.
const maxPrompts = 5000

// prompts are the skills with a SKILL.md: their names and descriptions in the list, and
// the whole text in a prompt.
type prompts struct{ *Options }

// A documented is the part of a skill's description for prompts.
type documented struct {
	ID           string            `json:"skill_id"`
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Capabilities []json.RawMessage `json:"capabilities"`
}

// manual is the schema of the params by which the SKILL.md of the skill is read, and
// whether it has one.
func (d *documented) manual() (params json.RawMessage, has bool) {
	for _, text := range d.Capabilities {
		var full struct {
			ID     string          `json:"capability_id"`
			Params json.RawMessage `json:"params_schema"`
		}
		var id string
		if json.Unmarshal(text, &id) == nil && id == documentCapability || json.Unmarshal(text, &full) == nil && full.ID == documentCapability {
			return full.Params, true
		}
	}
	return nil, false
}

// form declares the arguments of the prompt, nil if it takes none.
func (d *documented) form() *form {
	params, _ := d.manual()
	return formOf(params)
}

func (d *documented) prompt() mcpdoor.Prompt {
	return mcpdoor.Prompt{Name: d.ID, Title: d.Name, Description: d.Description, Arguments: d.form().arguments()}
}

// List implements [mcpdoor.Prompts].
func (m prompts) List(ctx context.Context, env tools.Environment) ([]mcpdoor.Prompt, error) {
	var all []mcpdoor.Prompt
	err := m.each(ctx, env, "", func(skill *documented) bool {
		all = append(all, skill.prompt())
		return len(all) < maxPrompts
	})
	if protocol.CodeOf(err) == protocol.PermissionDenied { // then there are none to see
		return nil, nil
	}
	slices.SortFunc(all, func(x, y mcpdoor.Prompt) int { return strings.Compare(x.Name, y.Name) })
	return all, err
}

// find returns the skill of a prompt's name; 3001 if there is none.
func (m prompts) find(ctx context.Context, env tools.Environment, name string) (found *documented, err error) {
	if name == "" || len(name) > 128 {
		return nil, protocol.Errorf(protocol.NotFound, "there is no such prompt")
	}
	err = m.each(ctx, env, name, func(skill *documented) bool {
		if skill.ID == name {
			found = skill
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = protocol.Errorf(protocol.NotFound, "there is no such prompt")
	}
	return found, err
}

// each yields the skills that have a SKILL.md and match a text, "" for all.
func (m prompts) each(ctx context.Context, env tools.Environment, text string, yield func(*documented) bool) error {
	for cursor := ""; ; {
		params := map[string]any{"limit": 1000, "capability": documentCapability}
		if text != "" {
			params["text"] = text
		}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Skills []documented `json:"skills"`
			Next   string       `json:"next_cursor"`
		}
		if err := m.ask(ctx, env, "skill.discover", params, &page); err != nil {
			return err
		}
		for i := range page.Skills {
			if _, has := page.Skills[i].manual(); has && !yield(&page.Skills[i]) {
				return nil
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// formOf declares the arguments of a prompt. It is nil for one that takes none, and for a
// skill that the caller does not find: whether it may read of that is judged when it does.
func (m prompts) formOf(ctx context.Context, env tools.Environment, name string) (*form, error) {
	skill, err := m.find(ctx, env, name)
	switch protocol.CodeOf(err) {
	case protocol.NotFound, protocol.PermissionDenied:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return skill.form(), nil
}

// Text implements [mcpdoor.Prompts]. A client that gets a prompt reads the document
// like a model, with the same approvals.
func (m prompts) Text(ctx context.Context, env tools.Environment, name string, given map[string]string) (mcpdoor.Prompt, string, error) {
	form, err := m.formOf(ctx, env, name)
	if err != nil {
		return mcpdoor.Prompt{}, "", err
	}
	if err := form.check(given); err != nil {
		return mcpdoor.Prompt{}, "", err
	}
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
	text, err := form.fill(document.Text, given)
	return mcpdoor.Prompt{Name: name, Description: "How to use the skill " + name}, text, err
}
