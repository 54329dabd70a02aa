package vfs

// Settings hold the place of contents and the limits of files.
type Settings struct {
	Store    string       `yaml:"store" doc:"place in which contents of files are kept: folder, nats, or auto, which is nats if other bridges reach it and else folder"`
	Dir      string       `yaml:"dir" doc:"folder for contents of files; vfs in the data folder when empty"`
	MaxFile  int64        `yaml:"max_file" doc:"largest file, in bytes"`
	Quota    int64        `yaml:"quota" doc:"room that all kept versions of a group's files may take together, in bytes"`
	Versions int          `yaml:"versions" doc:"versions kept of a file"`
	Remember int          `yaml:"remember" doc:"days for which a deleted file is remembered"`
	Sync     SyncSettings `yaml:"sync"`
	Private  bool         `yaml:"allow_private" doc:"call registered VFSs at loopback and private addresses; under --dev that is so anyway"`
}

// SyncSettings bound the cost of the mirrors of Caps.
type SyncSettings struct {
	Mirrors int `yaml:"mirrors" doc:"Caps that are mirrored at most"`
	Open    int `yaml:"open" doc:"of them, how many keep their folder open for what comes next; three descriptors each"`
	Turns   int `yaml:"turns" doc:"of them, for how many something is done at a time"`
	Watches int `yaml:"watches" doc:"folders that the system tells about at most; 0 for as many as it does"`
	Scan    int `yaml:"scan_seconds" doc:"interval at which folders are scanned that should be mirrored in real time, but cannot be watched"`

	KeepDays  int   `yaml:"keep_days" doc:"days for which a copy is kept that lost a conflict in a Cap's folder"`
	KeepBytes int64 `yaml:"keep_bytes" doc:"room that such copies of one Cap may take together, in bytes; the oldest go first"`
}

// DefaultSettings keep contents where the state is, and ten versions of a file.
func DefaultSettings() Settings {
	return Settings{Store: "auto", MaxFile: 4 << 30, Quota: 16 << 30, Versions: 10, Remember: 30,
		Sync: SyncSettings{Mirrors: 100_000, Open: 64, Turns: 8, Scan: 10, KeepDays: 90, KeepBytes: 1 << 30}}
}

// Check passes the faults of the settings to fail.
func (s *Settings) Check(fail func(format string, args ...any)) {
	switch s.Store {
	case "auto", "folder", "nats":
	default:
		fail("vfs.store: %q is none of auto, folder and nats", s.Store)
	}
	for _, setting := range []struct {
		name        string
		value, high int64
	}{
		{"max_file", s.MaxFile, 1 << 50}, {"quota", s.Quota, 1 << 60}, {"versions", int64(s.Versions), 1000}, {"remember", int64(s.Remember), 36500},
		{"sync.mirrors", int64(s.Sync.Mirrors), 1 << 24}, {"sync.open", int64(s.Sync.Open), 1 << 16}, {"sync.turns", int64(s.Sync.Turns), 1024},
		{"sync.scan_seconds", int64(s.Sync.Scan), 3600}, {"sync.keep_days", int64(s.Sync.KeepDays), 36500}, {"sync.keep_bytes", s.Sync.KeepBytes, 1 << 60},
	} {
		if setting.value < 1 || setting.value > setting.high {
			fail("vfs.%s: %d is not within 1 and %d", setting.name, setting.value, setting.high)
		}
	}
	if s.Sync.Watches < 0 {
		fail("vfs.sync.watches: %d is below 0", s.Sync.Watches)
	}
}
