package bridge

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// forPeople are the commands that people may run through the model of their MCP client,
// and that no model of the bridge may.
var forPeople = map[string]string{"approvals.list": "approval.list", "approvals.decide": "approval.decide"}

// People is a source of tools for people with MCP clients: one lists the calls that
// wait for their approval, one decides about them. Other principals do not see the
// tools, nor do models that the bridge asks itself.
type People struct {
	may   May
	tools map[string]command // by name
}

var _ tools.Finder = (*People)(nil)

// NewPeople returns the source.
func NewPeople(set *commands.Set, invoke Invoke, may May) (*People, error) {
	p := &People{may: may, tools: make(map[string]command, len(forPeople))}
	for name, of := range forPeople {
		c, known := set.Find(of)
		if !known {
			return nil, fmt.Errorf("there is no command %s", of)
		}
		tool := commandTool(c, invoke)
		tool.Name = name
		if c.Effect != commands.Read {
			tool.Effect = commands.Act // an approved call acts, so clients must ask the person
			tool.Description += " Ask the person who works with you first, and show exactly what is approved."
		}
		p.tools[name] = command{tool, c.Action}
	}
	return p, nil
}

// Revision implements [tools.Source].
func (*People) Revision() string { return "1" }

// Tools implements [tools.Source].
func (p *People) Tools(ctx context.Context, env tools.Environment) (list []*tools.Tool, err error) {
	for name := range forPeople {
		if t, ok := p.Find(ctx, env, name); ok {
			list = append(list, t)
		}
	}
	return list, ctx.Err()
}

// Find implements [tools.Finder].
func (p *People) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	c, ok := p.tools[name]
	if !ok || env.Depth > 0 || !isPerson(env.Principal) || p.may(ctx, env.Principal, c.action) != nil {
		return nil, false
	}
	return c.tool, true
}

// isPerson reports whether a principal has authenticated with the credential of a
// person.
func isPerson(who *protocol.Principal) bool {
	return who.Kind == protocol.KindOperator && who.Method != protocol.MethodAnonymous && !who.HasRole(protocol.RoleAnonymous)
}
