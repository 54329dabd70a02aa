package quota

// Settings bound the use of principals and spaces (docs/security.md).
type Settings struct {
	Principal Bounds `yaml:"principal"`
	Space     Bounds `yaml:"space"`
}

// Bounds are the configured limits of one party. A field that is not set has
// its default, which for administrators, and under dev, is no limit.
type Bounds struct {
	Requests    int `yaml:"requests" doc:"commands a second; -1 any number, 0 the default (10000 for a principal)"`
	Refusals    int `yaml:"refusals" doc:"commands a second that are refused for what they say or who says it, before none is listened to for a moment; -1 any number, 0 the default (200 for a principal)"`
	Messages    int `yaml:"messages" doc:"MQTT messages a second that are no commands; -1 any number, 0 the default (100000 for a principal)"`
	Bytes       int `yaml:"bytes" doc:"bytes of commands and messages a second; -1 any number, 0 the default (256 MiB for a principal)"`
	Connections int `yaml:"connections" doc:"MQTT and WebSocket connections at a time; -1 any number, 0 the default (10000 for a principal)"`
	Retained    int `yaml:"retained" doc:"retained messages; -1 any number, 0 the default (200000 for a principal)"`

	RetainedBytes int `yaml:"retained_bytes" doc:"bytes of retained messages; -1 any number, 0 the default (128 MiB for a principal, 512 MiB for a space)"`
	Records       int `yaml:"records" doc:"number of registered things: agents, skills, resources, commands, Caps, groups, VFSs, scenes; -1 any number, 0 the default (10000 for an agent or a skill, 250000 for an operator, 1000000 for a space)"`
	Sessions      int `yaml:"sessions" doc:"MQTT sessions that outlive their connections; -1 any number, 0 the default (1000 for a principal, 50000 for a space)"`
}

// defaultBounds bound a principal that the configuration does not mention: far
// more than devices and people do, and less than would stop a small machine.
var defaultBounds = Bounds{
	Requests: 10_000, Refusals: 200, Messages: 100_000, Bytes: 256 << 20, Connections: 10_000, Retained: 200_000,
	RetainedBytes: 128 << 20, Sessions: 1000, Records: 10_000,
}

// defaultOperatorRecords bounds the records of an operator, who registers
// things for others.
const defaultOperatorRecords = 250_000

// defaultSpaceBounds are for things that stay until they are removed: one space
// must not fill the memory, however many principals it has.
var defaultSpaceBounds = Bounds{RetainedBytes: 512 << 20, Sessions: 50_000, Records: 1_000_000}

// maxBound is the largest bound that can be set; above it, say -1.
const maxBound = 1 << 30

// Check tells fail the faults of the settings, by the names of settings.
func (c *Settings) Check(fail func(format string, args ...any)) {
	for whose, q := range map[string]*Bounds{"principal": &c.Principal, "space": &c.Space} {
		for name, n := range map[string]int{
			"requests": q.Requests, "refusals": q.Refusals, "messages": q.Messages, "bytes": q.Bytes, "connections": q.Connections, "retained": q.Retained,
			"retained_bytes": q.RetainedBytes, "sessions": q.Sessions, "records": q.Records,
		} {
			if n < -1 || n > maxBound {
				fail("quotas.%s.%s: %d is not within -1 and %d", whose, name, n, maxBound)
			}
		}
	}
}

// of returns the configured bound, or its default; 0 for no bound.
func of(set, otherwise int) int {
	switch {
	case set == 0:
		return otherwise
	case set < 0:
		return 0
	}
	return set
}

// limits returns the bounds, with defaults for those that are not set.
func (q Bounds) limits(defaults Bounds) Limits {
	return Limits{
		Requests:    of(q.Requests, defaults.Requests),
		Refusals:    of(q.Refusals, defaults.Refusals),
		Messages:    of(q.Messages, defaults.Messages),
		Bytes:       of(q.Bytes, defaults.Bytes),
		Connections: of(q.Connections, defaults.Connections),
		Retained:    of(q.Retained, defaults.Retained),

		RetainedBytes: of(q.RetainedBytes, defaults.RetainedBytes),
		Sessions:      of(q.Sessions, defaults.Sessions),
	}
}

// Options are the options of a keeper with these settings. Under dev, unset limits are
// off.
func (c *Settings) Options(dev bool) Options {
	ofSpaces, devices, operators := defaultSpaceBounds, defaultBounds.Records, defaultOperatorRecords
	if dev {
		ofSpaces, devices, operators = Bounds{}, 0, 0
	}
	return Options{
		Principal:  c.Principal.limits(defaultBounds),
		Privileged: c.Principal.limits(Bounds{}),
		Space:      c.Space.limits(ofSpaces),
		Records: RecordLimits{
			Device:   of(c.Principal.Records, devices),
			Operator: of(c.Principal.Records, operators),
			Space:    of(c.Space.Records, ofSpaces.Records),
		},
	}
}
