package backup

// Settings hold the schedule of a bridge's own backups, and how many are kept.
type Settings struct {
	EveryHours      int    `yaml:"every_hours" doc:"hours between two backups that the bridge makes by itself; 0 for none"`
	Dir             string `yaml:"dir" doc:"folder that they are written to, on another disk at best; backups in the data folder when empty"`
	Keep            int    `yaml:"keep" doc:"number of them that are kept, the newest ones"`
	KeepDays        int    `yaml:"keep_days" doc:"days after which one is removed even so, but for the newest; 0 never"`
	WithoutContents bool   `yaml:"without_contents" doc:"leave out the contents of files, which may be many"`
}

// DefaultSettings make no backups.
func DefaultSettings() Settings { return Settings{Keep: 7} }

// Check passes the faults of the settings to fail.
func (s *Settings) Check(fail func(format string, args ...any)) {
	for _, setting := range []struct {
		name             string
		value, low, high int
	}{
		{"every_hours", s.EveryHours, 0, 24 * 366}, {"keep", s.Keep, 1, 100_000}, {"keep_days", s.KeepDays, 0, 36500},
	} {
		if setting.value < setting.low || setting.value > setting.high {
			fail("backup.%s: %d is not within %d and %d", setting.name, setting.value, setting.low, setting.high)
		}
	}
}
