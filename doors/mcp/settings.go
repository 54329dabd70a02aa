package mcp

import (
	"regexp"

	"github.com/aibridge/aibridge/llm/tools/servers"
)

// serverNameForm is the form of the bridge's server-name in topics of MCP over MQTT.
var serverNameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,32}){0,2}$`)

// Settings configure the bridge as a server of the Model Context Protocol.
type Settings struct {
	Off         bool         `yaml:"off" doc:"serve no MCP, neither at /mcp nor over MQTT"`
	URL         string       `yaml:"url" doc:"address of /mcp as clients know it, for OAuth metadata; as they call it when empty"`
	TaskMS      int          `yaml:"task_after_ms" doc:"after how many milliseconds a call goes on as a task, if its client takes tasks; 0 is 3000"`
	HoldMS      int          `yaml:"hold_ms" doc:"after how many milliseconds a call of a client that takes no tasks and asks for no progress goes on as a task, and its model is told so; 0 is 45000, -1 never"`
	MQTT        string       `yaml:"mqtt" doc:"serve MCP over MQTT as EMQX specifies it: server-name of the bridge there, such as aibridge; off when empty"`
	Suggestions []Suggestion `yaml:"suggestions" doc:"server-names, filters and roles that clients of MCP over MQTT are told when they connect; in the file only"`

	Devices servers.DeviceSettings `yaml:"devices"`
	Servers []servers.Config       `yaml:"servers" doc:"external MCP servers whose tools are offered; in the file only"`
}

// OverMQTT reports whether there are the topics of the MQTT transport.
func (s *Settings) OverMQTT() bool { return s.Devices.On || s.Serves() }

// Serves reports whether the bridge is a server there.
func (s *Settings) Serves() bool { return s.MQTT != "" && !s.Off }

// Check reports faults of the settings.
func (s *Settings) Check(fail func(format string, args ...any)) {
	if s.TaskMS < 0 || s.TaskMS > 600_000 {
		fail("mcp.task_after_ms: %d is not within 0 and 600000", s.TaskMS)
	}
	if s.HoldMS < -1 || s.HoldMS > 600_000 {
		fail("mcp.hold_ms: %d is not within -1 and 600000", s.HoldMS)
	}
	if s.MQTT != "" && !serverNameForm.MatchString(s.MQTT) {
		fail("mcp.mqtt: %q is no server-name: up to 128 letters, digits, . _ and -, with / between levels", s.MQTT)
	}
	checkSuggestions(s.Suggestions, fail)
	if err := s.Devices.Check(); err != nil {
		fail("mcp.devices.%w", err)
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
