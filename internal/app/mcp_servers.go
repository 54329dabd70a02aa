package app

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// check says what is wrong with the settings.
func (m *MCP) check(fail func(format string, args ...any)) {
	seen := make(map[string]bool)
	for i := range m.Servers {
		s := &m.Servers[i]
		if err := s.Check(); err != nil {
			fail("mcp.servers: %s: %w", s.Name, err)
		}
		if seen[s.Name] {
			fail("mcp.servers: there are two of the name %s", s.Name)
		}
		seen[s.Name] = true
	}
}

// newMCPServers makes the part that uses external MCP servers. Its table is
// loaded afterwards.
func (a *App) newMCPServers() *servers.Service {
	a.mcp.instance = protocol.NewID()
	a.mcp.servers = servers.New(servers.Options{
		Servers: a.config.MCP.Servers,
		Table:   store.NewTable[servers.Approved](a.store, "mcpserver"),
		Invoke:  a.invokeForTool,
		May: func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error {
			on.Space = who.Home()
			return a.authorizer.Authorize(ctx, who, action, on)
		},
		Version:  a.version,
		Instance: a.mcp.instance,
		Log:      a.log,
	})
	return a.mcp.servers
}
