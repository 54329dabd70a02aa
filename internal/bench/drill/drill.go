package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Mode is the way in which bridges share the work.
type Mode string

// The modes.
const (
	Many    Mode = "many"    // all work
	Standby Mode = "standby" // one bridge works, by a lease, and the others stand by
)

// Options configure [Run].
type Options struct {
	Bridge []string // the command that serves as a bridge, before its flags
	Flags  []string // of every bridge, besides; {n} is its number
	NATS   []string // the command that runs [ServeNATS], before the definition
	Mode   Mode     // default Many

	// Earlier is the command that serves as a bridge of another version, before its
	// flags, none for no other. The drill begins with that version, and each [Rolling]
	// puts the other in its place, one bridge after the other: up, down, and up again.
	Earlier []string

	// Formed is true if the bridges form the cluster with their embedded NATS servers,
	// without others. Key is the command that makes the key of such a cluster, before
	// its path.
	Formed bool
	Key    []string

	Servers int // of NATS, default 3
	Bridges int // default 3

	Faults   []Fault       // default all
	Laps     int           // number of times of each fault, default 1
	Duration time.Duration // if not 0, laps follow each other until it is over
	Seed     uint64        // decides the schedule
	Longest  time.Duration // that a pause or a partition lasts, default 30 s
	Every    time.Duration // between two messages of a publisher, default 200 ms
	Patience time.Duration // longest time without progress before promises count as broken, default 2 min

	Loyal bool // clients with a kept session know one bridge, and wait for its return

	Allow []Promise // that are reported when broken, and no failure
	Dir   string    // where the folders and logs are made

	Progress func(line string) // receives lines about the progress; optional
}

func (o *Options) setDefaults() error {
	o.Mode = cmp.Or(o.Mode, Many)
	o.Servers, o.Bridges, o.Laps = cmp.Or(o.Servers, 3), cmp.Or(o.Bridges, 3), cmp.Or(o.Laps, 1)
	o.Longest, o.Every, o.Patience = cmp.Or(o.Longest, 30*time.Second), cmp.Or(o.Every, 200*time.Millisecond), cmp.Or(o.Patience, 2*time.Minute)
	if len(o.Faults) == 0 {
		o.Faults = Faults()
		if o.Formed {
			o.Faults = slices.DeleteFunc(o.Faults, needsNATS)
		}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	switch {
	case len(o.Bridge) == 0 || len(o.NATS) == 0 || o.Dir == "":
		return fmt.Errorf("drill: a bridge, a NATS server and a folder are needed")
	case o.Mode != Standby && o.Mode != Many:
		return fmt.Errorf("drill: there is no mode %q; there are %s and %s", o.Mode, Many, Standby)
	case o.Servers != 1 && o.Servers != 3 && o.Servers != 5:
		return fmt.Errorf("drill: NATS servers are 1, 3 or 5, not %d", o.Servers)
	case o.Bridges < 1 || o.Bridges > 9:
		return fmt.Errorf("drill: bridges are 1 to 9, not %d", o.Bridges)
	case o.Laps < 1 || o.Laps > 1000 || o.Duration < 0 || o.Longest < time.Second || o.Every < time.Millisecond || o.Patience < time.Second:
		return fmt.Errorf("drill: laps, durations or patience are out of range")
	case o.Servers == 1 && (slices.Contains(o.Faults, Disk) || slices.Contains(o.Faults, Majority)):
		return fmt.Errorf("drill: one NATS server has no majority, and its disk no copy")
	case o.Formed && (o.Bridges < 3 || len(o.Key) == 0):
		return fmt.Errorf("drill: three bridges and a key form a cluster")
	case len(o.Earlier) > 0 && !slices.Contains(o.Faults, Rolling):
		return fmt.Errorf("drill: bridges change their version in rounds of %s only", Rolling)
	case o.Formed && slices.ContainsFunc(o.Faults, needsNATS):
		return fmt.Errorf("drill: %s and %s need NATS servers beside the bridges", Leader, Partition)
	}
	return nil
}

// needsNATS reports whether a fault requires separate NATS servers: the leader of
// embedded ones is not visible from outside, and there is no proxy between them.
func needsNATS(f Fault) bool { return f == Leader || f == Partition }

// A Report is the result of a drill.
type Report struct {
	Mode     Mode          `json:"mode"`
	Seed     uint64        `json:"seed"`
	Formed   bool          `json:"formed,omitempty"`   // the NATS servers are in the bridges
	Upgraded bool          `json:"upgraded,omitempty"` // rolling changes the version of bridges, first to the one under test
	Bridges  int           `json:"bridges"`
	Servers  int           `json:"servers"`
	Took     time.Duration `json:"took"`
	Rounds   []Tally       `json:"rounds"`
	Breaches []Breach      `json:"breaches"`
	Allowed  []Promise     `json:"allowed,omitempty"`
}

// Failures returns the broken promises that are not among the allowed ones.
func (r Report) Failures() []Promise {
	var broken []Promise
	for _, b := range r.Breaches {
		if !slices.Contains(r.Allowed, b.Promise) && !slices.Contains(broken, b.Promise) {
			broken = append(broken, b.Promise)
		}
	}
	return broken
}
