package conversation

// Settings are the limits of stored conversations with models.
type Settings struct {
	Hours         int `yaml:"hours" doc:"hours of quiet after which a conversation is forgotten"`
	Turns         int `yaml:"turns" doc:"turns of a conversation that a model is shown"`
	KiB           int `yaml:"kib" doc:"size of these in KiB"`
	Conversations int `yaml:"sessions" doc:"conversations of one principal; the one that was quiet for longest makes room"`
}

// DefaultSettings keep conversations for a day.
func DefaultSettings() Settings {
	return Settings{Hours: 24, Turns: 40, KiB: 256, Conversations: 100}
}

// Check reports the faults of the settings to fail.
func (c *Settings) Check(fail func(format string, args ...any)) {
	within := func(name string, value, most int) {
		if value < 1 || value > most {
			fail("chat.%s: %d is not within 1 and %d", name, value, most)
		}
	}
	within("hours", c.Hours, 24*365)
	within("turns", c.Turns, 1000)
	within("kib", c.KiB, 4096)
	within("sessions", c.Conversations, 10_000)
}
