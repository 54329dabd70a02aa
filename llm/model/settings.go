package model

import (
	"os"

	"github.com/aibridge/aibridge/protocol"
)

// Settings configure the language models: one at an OpenAI-compatible service, or those
// of a file.
type Settings struct {
	BaseURL string `yaml:"base_url" doc:"OpenAI-compatible service that runs the model, as http://127.0.0.1:11434/v1; its key is in AIBRIDGE_LLM_API_KEY"`
	Model   string `yaml:"model" doc:"name of the model at that service"`
	File    string `yaml:"file" doc:"YAML file with providers, models, budgets and more, instead; changes are followed"`
	Agent   string `yaml:"agent" doc:"id of the mcpAgent, the agent that answers for the models"`
}

// DefaultSettings name no models.
func DefaultSettings() Settings { return Settings{Agent: "mcp-agent-1"} }

// KeyEnv is the environment variable with the key of the service at
// llm.base_url.
const KeyEnv = "AIBRIDGE_LLM_API_KEY"

// Check reports the faults of the settings to fail.
func (l *Settings) Check(fail func(format string, args ...any)) {
	if reason := protocol.AgentID("").Rule().Check(l.Agent); reason != "" {
		fail("llm.agent: %q %s", l.Agent, reason)
	}
	switch {
	case (l.BaseURL == "") != (l.Model == ""):
		fail("llm: base_url and model go together")
	case l.BaseURL != "" && l.File != "":
		fail("llm: base_url and file exclude each other")
	case l.BaseURL != "":
		c := l.Simple()
		if err := c.Check(); err != nil {
			fail("llm: %w", err)
		}
	}
}

// Simple is the configuration of base_url and model.
func (l *Settings) Simple() Config {
	env := KeyEnv
	if os.Getenv(env) == "" { // a local service often needs no key
		env = ""
	}
	return Simple(l.BaseURL, l.Model, env)
}
