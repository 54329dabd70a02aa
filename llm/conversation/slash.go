package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An order is a slash command of the user.
type order struct {
	word string // behind the slash
	rest string
}

// help is the answer to /help.
const help = `/help                      this list
/reset                     forget what was said, and unlock the tools
/tools [PATTERN]           the tools you may call; * marks those that the model may use
/tool NAME {json}          run a tool yourself
/SKILL.CAPABILITY {json}   the same
/model [NAME]              the model that answers, or another one from now on
/quit                      end the conversation and forget it
Anything else is for the model.`

// parseOrder reads a message as a slash command.
func parseOrder(message string) (o order, ok bool) {
	text := strings.TrimSpace(message)
	if !strings.HasPrefix(text, "/") {
		return o, false
	}
	at := strings.IndexAny(text, " \t\n{")
	if at < 0 {
		at = len(text)
	}
	o = order{text[1:at], strings.TrimSpace(text[at:])}
	return o, o.word != ""
}

// obey executes an order. It reports false for an unknown name: then the message is for
// the model.
func (s *Service) obey(ctx context.Context, call *commands.Call, c *Conversation, known bool, o order) (r ChatResult, done bool, err error) {
	switch o.word {
	case "help":
		r = said(c, help)
	case "reset":
		c.Turns, c.Health.Recent, c.Health.Locked = nil, nil, ""
		c.Resets++
		if err = s.cancelWaiting(ctx, call, c); err == nil {
			r, err = said(c, "What was said is forgotten."), s.keep(ctx, call.Principal, c, known)
		}
	case "model":
		r, err = s.chooseModel(ctx, call, c, known, o.rest)
	case "quit":
		if known {
			if err = s.cancelWaiting(ctx, call, c); err != nil {
				return r, true, err
			}
			s.forget(ctx, keyOf(call.Principal, c.ID))
		}
		r = said(c, "Good bye.")
		r.Ended = true
	case "tools":
		r, err = s.listTools(ctx, call, c, cmp.Or(o.rest, "*"))
	case "tool":
		name, arguments := o.rest, ""
		if at := strings.IndexAny(o.rest, " \t\n{"); at >= 0 {
			name, arguments = o.rest[:at], strings.TrimSpace(o.rest[at:])
		}
		if name == "" {
			return said(c, "Which tool? /tools lists them."), true, nil
		}
		r, err = s.runTool(ctx, call, c, name, arguments)
	default:
		if !strings.Contains(o.word, ".") {
			return r, false, nil
		}
		r, err = s.runTool(ctx, call, c, o.word, o.rest)
		if protocol.CodeOf(err) == protocol.NotFound {
			return r, false, nil
		}
	}
	return r, true, err
}

func said(c *Conversation, text string) ChatResult {
	return ChatResult{Session: c.ID, By: "command", Result: text, Turns: c.Count}
}

func (s *Service) chooseModel(ctx context.Context, call *commands.Call, c *Conversation, known bool, name string) (ChatResult, error) {
	var names []string
	if s.opts.Models != nil {
		names = s.opts.Models(c.Space)
	}
	switch {
	case name == "":
		return said(c, fmt.Sprintf("The model is %s. There are: %s.", cmp.Or(c.Model, "the default one"), cmp.Or(strings.Join(names, ", "), "none"))), nil
	case !slices.Contains(names, name):
		return said(c, fmt.Sprintf("There is no model %.100q. There are: %s.", name, cmp.Or(strings.Join(names, ", "), "none"))), nil
	}
	c.Model = name
	return said(c, "From now on "+name+" answers."), s.keep(ctx, call.Principal, c, known)
}

// maxListed is the greatest number of tools that /tools lists.
const maxListed = 200

func (s *Service) listTools(ctx context.Context, call *commands.Call, c *Conversation, pattern string) (ChatResult, error) {
	env := environment(call, c)
	box, err := s.opts.Tools.Select(ctx, byHand(env), []string{pattern})
	if err != nil {
		return ChatResult{}, err
	}
	usable := make(map[string]bool)
	if len(c.Tools) > 0 {
		if own, err := s.opts.Tools.Select(ctx, env, c.Tools); err == nil {
			for _, t := range own.Tools() {
				usable[t.Name] = true
			}
		}
	}
	var b strings.Builder
	list := box.Tools()
	for _, t := range list[:min(len(list), maxListed)] {
		mark := " "
		if usable[t.Name] {
			mark = "*"
		}
		first, _, _ := strings.Cut(t.Description, "\n")
		fmt.Fprintf(&b, "%s %s  %.120s%s\n", mark, t.Name, first, keptFrom(t))
	}
	switch more := len(list) - maxListed; {
	case len(list) == 0:
		b.WriteString("There are none.")
	case more > 0:
		fmt.Fprintf(&b, "and %d more; /tools PATTERN shows some of them", more)
	}
	return said(c, strings.TrimRight(b.String(), "\n")), nil
}

// keptFrom is the mark of a tool that no model may call.
func keptFrom(t *tools.Tool) string {
	if t.Risk == tools.RiskDeny {
		return " (no model may call it)"
	}
	return ""
}

// byHand returns an environment for calls by the user instead of a model.
func byHand(env tools.Environment) tools.Environment {
	env.ByHand = true
	return env
}

// runTool runs a tool as the user. Its result does not go to the model.
func (s *Service) runTool(ctx context.Context, call *commands.Call, c *Conversation, name, arguments string) (ChatResult, error) {
	env := byHand(environment(call, c))
	box, err := s.opts.Tools.Select(ctx, env, []string{name})
	if err != nil {
		return ChatResult{}, err
	}
	results := s.opts.Direct.Execute(ctx, box, env, []*chat.ToolCall{{ID: protocol.NewID(), Name: name, Args: json.RawMessage("{}"), Raw: arguments}})
	use := &loop.ToolUse{Calls: []loop.ToolReport{}}
	r := said(c, "")
	for i := range results {
		use.Add(loop.Report(&results[i]))
		r.Result = results[i].Text
	}
	r.Tools = use
	return r, nil
}
