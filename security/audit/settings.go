package audit

// Settings say which calls are recorded and for how long.
type Settings struct {
	Level    string `yaml:"level" doc:"degree of recording: off, changes (and refusals), all (reads too)"`
	KeepDays int    `yaml:"keep_days" doc:"days after which entries are forgotten; 0 never"`
	KeepMiB  int    `yaml:"keep_mib" doc:"size of the trail in MiB above which the oldest entries are forgotten; 0 any"`
	// Arguments says how those of tools are recorded.
	Arguments string `yaml:"arguments" doc:"form in which the arguments of tools are recorded that models call: sealed (opened for who may query the trail), shown, none"`
}

// The forms in which the arguments of tools are recorded.
const (
	ArgumentsSealed = "sealed"
	ArgumentsShown  = "shown"
	ArgumentsNone   = "none"
)

// DefaultSettings are the settings of a bridge without any configured.
func DefaultSettings() Settings {
	return Settings{Level: string(Changes), KeepDays: 400, KeepMiB: 4096, Arguments: ArgumentsSealed}
}

// Check tells fail the faults of the settings, by the names of settings.
func (c *Settings) Check(fail func(format string, args ...any)) {
	switch Level(c.Level) {
	case Off, Changes, All:
	default:
		fail("audit.level: %q is not off, changes or all", c.Level)
	}
	switch c.Arguments {
	case ArgumentsSealed, ArgumentsShown, ArgumentsNone:
	default:
		fail("audit.arguments: %q is not sealed, shown or none", c.Arguments)
	}
	if c.KeepDays < 0 || c.KeepMiB < 0 {
		fail("audit: keep_days and keep_mib must not be negative")
	}
}
