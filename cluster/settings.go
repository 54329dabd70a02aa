package cluster

// Settings say how a bridge works beside others that share its NATS and root.
type Settings struct {
	Working string `yaml:"working" doc:"how many bridges of one NATS and root work at a time: one, with the others standing by, or all (a preview)"`
}

// DefaultSettings are those of a bridge that works by itself, beside standbys.
func DefaultSettings() Settings { return Settings{Working: string(One)} }

// Check tells fail what is wrong with the settings. Shared says whether the
// state is where other bridges reach it, files whether contents of files are
// there too.
func (s *Settings) Check(shared, files bool, fail func(format string, args ...any)) {
	switch Working(s.Working) {
	case One:
	case All:
		if !shared {
			fail("cluster.working: all needs a NATS that the bridges share; set nats.url")
		}
		if shared && !files {
			fail("cluster.working: all needs contents of files where all bridges reach them; set vfs.store to nats")
		}
	default:
		fail("cluster.working: %q is neither one nor all", s.Working)
	}
}
