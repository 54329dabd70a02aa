package mcp

import "github.com/aibridge/aibridge/llm/tools/servers"

// Settings say how the bridge takes part in the Model Context Protocol.
type Settings struct {
	Off     bool             `yaml:"off" doc:"serve no MCP, neither at /mcp nor over MQTT"`
	URL     string           `yaml:"url" doc:"address of /mcp as clients know it, for OAuth metadata; as they call it when empty"`
	TaskMS  int              `yaml:"task_after_ms" doc:"after how many milliseconds a call goes on as a task, if its client takes tasks; 0 is 3000"`
	Servers []servers.Config `yaml:"servers" doc:"external MCP servers whose tools are offered; in the file only"`
}

// Check reports faults of the settings.
func (s *Settings) Check(fail func(format string, args ...any)) {
	if s.TaskMS < 0 || s.TaskMS > 600_000 {
		fail("mcp.task_after_ms: %d is not within 0 and 600000", s.TaskMS)
	}
	seen := make(map[string]bool)
	for i := range s.Servers {
		server := &s.Servers[i]
		if err := server.Check(); err != nil {
			fail("mcp.servers: %s: %w", server.Name, err)
		}
		if seen[server.Name] {
			fail("mcp.servers: there are two of the name %s", server.Name)
		}
		seen[server.Name] = true
	}
}
