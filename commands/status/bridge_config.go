package status

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

var bridgeConfig = commands.Spec{
	Name:    "bridge.config",
	Summary: "Show the configuration that the bridge runs with, without secrets.",
	Effect:  commands.Read,
	Action:  "bridge:config",
	Example: `{}`,
}

// ConfigParams are the params of bridge.config: none.
type ConfigParams struct{}

// ConfigResult is the result of bridge.config.
type ConfigResult struct {
	Settings []Setting `json:"settings" doc:"all settings, in the order of the documentation"`
}

// A Setting is one setting of a bridge.
type Setting struct {
	Name    string `json:"name" doc:"path of the setting in the file, such as log.level"`
	Value   any    `json:"value" doc:"setting; of addresses without passwords, of issuers and MCP servers their names only"`
	Changed bool   `json:"changed,omitempty" doc:"true if that is not the default"`
	Flag    string `json:"flag,omitempty" doc:"flag of aibridge serve; absent if it is set in the file only"`
	Env     string `json:"env,omitempty" doc:"environment variable; absent if it is set in the file only"`
	About   string `json:"about,omitempty" doc:"meaning"`
}

// Config shows the configuration.
func (s *Service) Config(context.Context, *commands.Call, ConfigParams) (ConfigResult, error) {
	return ConfigResult{Settings: append([]Setting{}, s.Settings...)}, nil
}
