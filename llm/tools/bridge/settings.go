package bridge

import "github.com/aibridge/aibridge/commands"

// Settings are the commands that models may run, beside the skills that their caller
// may invoke.
type Settings struct {
	Commands []string `yaml:"commands" doc:"commands of the bridge that models may run for those who may; none of cert, key, token, policy, audit, approval or session, nor those that show how the bridge is built"`
}

// DefaultSettings name read-only commands by which a model explores the bridge.
func DefaultSettings() Settings {
	return Settings{Commands: []string{
		"agent.list", "cap.query", "group.data.get", "group.query", "resource.get", "resource.list", "scene.query", "skill.discover", "task.get",
	}}
}

// Check reports the faults of the settings to fail; all is the set of the bridge's
// commands.
func (t *Settings) Check(all *commands.Set, fail func(format string, args ...any)) {
	if err := CheckAllowed(all, t.Commands); err != nil {
		fail("tools.commands: %w", err)
	}
}
