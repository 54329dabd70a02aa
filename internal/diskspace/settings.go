package diskspace

// Settings hold the room that a bridge leaves.
type Settings struct {
	ReserveMiB int `yaml:"reserve_mib" doc:"room in MiB below which nothing new is stored, but at most a tenth of the disk; 0 for none"`
}

// DefaultSettings leave a quarter of a gibibyte.
func DefaultSettings() Settings { return Settings{ReserveMiB: 256} }

// Check passes the faults of the settings to fail.
func (s Settings) Check(fail func(format string, args ...any)) {
	if s.ReserveMiB < 0 || s.ReserveMiB > 1<<30 {
		fail("disk.reserve_mib: %d is not within 0 and %d", s.ReserveMiB, 1<<30)
	}
}

// Reserve is the room to leave, in bytes.
func (s Settings) Reserve() int64 { return int64(s.ReserveMiB) << 20 }
