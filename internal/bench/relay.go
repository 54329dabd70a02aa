package bench

import "time"

// RelayOptions configure [Relay].
type RelayOptions struct {
	Bridge []string // the command that serves as a bridge
	NATS   []string // the command that serves as NATS by a definition, see package drill
	Rounds int      // of everything; default 3
	// Spread has clients spread evenly over three bridges, against one that is alone, in
	// place of two bridges between which all messages go.
	Spread bool
	// Duration is of each run; default 3 s.
	Duration time.Duration
	// Progress is called with one line for each run. Optional.
	Progress func(line string)
}
