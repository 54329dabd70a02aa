package bridge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
)

// never are the families of commands that no operator can allow to models: those about
// rights and about the audit trail.
var never = []string{"cert", "key", "token", "policy", "audit", "approval", "session"}

// besides are further commands that are no tools. They show the structure of the
// bridge, its stores and neighbours, or the events of all principals; drain or remove a bridge;
// register names for others; run other commands; run or list tools as a person, without
// approval; or show a person's conversations with models. The last ones have tools of
// their own, which know the risk of their calls.
var besides = []string{
	"bridge.config", "bridge.cluster", "bridge.drain", "bridge.remove", "event.follow",
	"command.register", "command.unregister", "batch.execute", "llm.chat", "llm.conversation.get", "llm.conversation.list", "mcp.server.approve",
	"skill.invoke", "skill.effect.settle", "group.dispatch", "mcp.tool.call",
}

// CheckAllowed returns the error of the first name that cannot be allowed to models.
func CheckAllowed(set *commands.Set, names []string) error {
	for _, name := range names {
		family, _, _ := strings.Cut(name, ".")
		c, known := set.Find(name)
		switch {
		case slices.Contains(never, family):
			return fmt.Errorf("%s: models may never run commands of the family %s", name, family)
		case slices.Contains(besides, name):
			return fmt.Errorf("%s: models may not run it", name)
		case !known:
			if meant, ok := set.Nearest(name); ok {
				return fmt.Errorf("%s: there is no such command, did you mean %s?", name, meant)
			}
			return fmt.Errorf("%s: there is no such command", name)
		case c.Name != name:
			return fmt.Errorf("%s: is an old name of %s", name, c.Name)
		}
	}
	return nil
}

// Commands are a source of tools: commands of the bridge that the operator has allowed.
// Each principal sees those that it may run.
type Commands struct {
	may  May
	list []command
}

type command struct {
	tool   *tools.Tool
	action string
}

var _ tools.Finder = (*Commands)(nil)

// NewCommands returns the source. Its error is that of [CheckAllowed].
func NewCommands(set *commands.Set, allowed []string, invoke Invoke, may May) (*Commands, error) {
	if err := CheckAllowed(set, allowed); err != nil {
		return nil, err
	}
	s := &Commands{may: may}
	for c := range set.All() {
		if slices.Contains(allowed, c.Name) {
			s.list = append(s.list, command{commandTool(c, invoke), c.Action})
		}
	}
	return s, nil
}

func commandTool(c *commands.Command, invoke Invoke) *tools.Tool {
	return &tools.Tool{
		Declaration: tools.Declaration{
			Name:        c.Name,
			Description: c.Summary,
			Schema:      c.ParamsSchema(),
			Output:      c.ResultSchema(),
			Effect:      c.Effect,
			Idempotent:  c.Effect == commands.Read,
			Source:      "command",
		},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
			result, err := invoke(ctx, x.Environment, c.Name, x.ArgumentsJSON)
			return tools.Output{Content: result}, err
		},
	}
}

// Revision implements [tools.Source].
func (*Commands) Revision() string { return "1" }

// Tools implements [tools.Source].
func (s *Commands) Tools(ctx context.Context, env tools.Environment) ([]*tools.Tool, error) {
	var list []*tools.Tool
	for _, c := range s.list {
		if s.may(ctx, env.Principal, c.action) == nil {
			list = append(list, c.tool)
		}
	}
	return list, ctx.Err()
}

// Find implements [tools.Finder].
func (s *Commands) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	at, ok := slices.BinarySearchFunc(s.list, name, func(c command, name string) int { return cmp.Compare(c.tool.Name, name) })
	if !ok || s.may(ctx, env.Principal, s.list[at].action) != nil {
		return nil, false
	}
	return s.list[at].tool, true
}
