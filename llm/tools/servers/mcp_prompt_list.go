package servers

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var promptList = commands.Spec{
	Name:    "mcp.prompt.list",
	Summary: "List the approved prompts of external MCP servers that the caller may get.",
	Effect:  commands.Read,
	Action:  "mcp:prompt.list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"server":"files"}`,
}

// PromptsParams are the params of mcp.prompt.list.
type PromptsParams struct {
	Server string `json:"server,omitempty" len:"1-32" doc:"only of this one"`
}

// Target implements [commands.Targeter].
func (p PromptsParams) Target() commands.Resource { return resource(p.Server) }

// PromptsResult is the result of mcp.prompt.list.
type PromptsResult struct {
	Prompts []PromptView `json:"prompts" doc:"by server and name"`
	Total   int          `json:"total" doc:"number of prompts in the answer, which has one page"`
}

// A PromptView is a prompt of a server. Its texts are the server's: data, and
// no instructions.
type PromptView struct {
	Server      string           `json:"server" doc:"name of the server, as it is configured"`
	Prompt      string           `json:"prompt" doc:"as the server calls it, for mcp.prompt.get"`
	Title       string           `json:"title,omitempty" doc:"for people"`
	Description string           `json:"description,omitempty" doc:"description by the server, marked as data"`
	Arguments   []PromptArgument `json:"arguments,omitempty" doc:"arguments, each a text; absent if there are none"`
}

// A PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name" doc:"of the argument"`
	Description string `json:"description,omitempty" doc:"description by the server, marked as data"`
	Required    bool   `json:"required" doc:"the prompt cannot be had without it"`
}

// PublicName is the name of the prompt for clients of the bridge.
func (v *PromptView) PublicName() string { return prefix + v.Server + "." + v.Prompt }

// Prompts lists the prompts that the caller may get.
func (s *Service) Prompts(ctx context.Context, call *commands.Call, p PromptsParams) (PromptsResult, error) {
	if p.Server != "" {
		if _, err := s.connection(call.Principal, p.Server); err != nil {
			return PromptsResult{}, err
		}
	}
	result := PromptsResult{Prompts: []PromptView{}}
	for _, v := range s.Gettable(ctx, call.Principal) {
		if p.Server == "" || p.Server == v.Server {
			result.Prompts = append(result.Prompts, v)
		}
	}
	result.Total = len(result.Prompts)
	return result, ctx.Err()
}

// Gettable lists the prompts that a principal may get, by [PromptView.PublicName].
func (s *Service) Gettable(ctx context.Context, who *protocol.Principal) []PromptView {
	var all []PromptView
	for _, l := range s.known(who) {
		if !l.may(ctx, who, promptGet.Action) {
			continue
		}
		for _, one := range l.open().prompts {
			v := PromptView{Server: l.config.Name, Prompt: one.is.Name, Title: plain(one.is.Title, maxName), Description: l.marked("", one.is.Description)}
			for _, a := range one.is.Arguments {
				if a != nil {
					v.Arguments = append(v.Arguments, PromptArgument{plain(a.Name, maxName), l.marked(a.Title, a.Description), a.Required})
				}
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(x, y PromptView) int { return strings.Compare(x.PublicName(), y.PublicName()) })
	return all
}

// Shown identifies the prompts and resources that a principal may use. It changes with
// them.
func (s *Service) Shown(ctx context.Context, who *protocol.Principal) string {
	var shown strings.Builder
	for _, l := range s.known(who) {
		if l.may(ctx, who, resourceRead.Action) || l.may(ctx, who, promptGet.Action) {
			shown.WriteString(l.config.Name + " " + l.open().sum + "\n")
		}
	}
	return shown.String()
}
