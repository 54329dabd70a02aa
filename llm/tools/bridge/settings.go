package bridge

import "github.com/aibridge/aibridge/commands"

// Settings say what models may call, besides the skills that whoever asks them
// may invoke.
type Settings struct {
	Commands []string `yaml:"commands" doc:"commands of the bridge that models may run for those who may; none of cert, key, token, policy, audit, approval or session, nor those that show how the bridge is built"`
}

// DefaultSettings name commands that only read, and that a model needs to find its
// way.
func DefaultSettings() Settings {
	return Settings{Commands: []string{
		"agent.list", "cap.query", "group.data.get", "group.query", "resource.get", "resource.list", "scene.query", "skill.discover", "task.get",
	}}
}

// Check tells fail the faults of the settings; all are the commands that
// there are.
func (t *Settings) Check(all *commands.Set, fail func(format string, args ...any)) {
	if err := CheckAllowed(all, t.Commands); err != nil {
		fail("tools.commands: %w", err)
	}
}
