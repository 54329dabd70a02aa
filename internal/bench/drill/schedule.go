package drill

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Fault is a kind of fault.
type Fault string

// The faults.
const (
	Kill      Fault = "kill"      // a bridge is killed, and started again
	Pause     Fault = "pause"     // a bridge is stopped and continued
	Partition Fault = "partition" // a bridge is cut off from NATS and the other bridges; its clients still reach it
	Leader    Fault = "leader"    // the NATS server that leads is killed, and started again
	Majority  Fault = "majority"  // all but one NATS servers are killed, and started again
	Disk      Fault = "disk"      // a NATS server is killed, its folder removed, and it is started again
	Rolling   Fault = "rolling"   // every bridge in turn is terminated and started again, in another version if there is one
	Move      Fault = "move"      // nothing breaks: kept sessions move to another node while connected
)

// Faults are all faults, in the order of reports.
func Faults() []Fault {
	return []Fault{Kill, Pause, Partition, Leader, Majority, Disk, Rolling, Move}
}

// ParseFaults reads faults by their names.
func ParseFaults(names []string) ([]Fault, error) {
	var faults []Fault
	for _, name := range names {
		if !slices.Contains(Faults(), Fault(name)) {
			return nil, fmt.Errorf("there is no fault %q; there are %s", name, joined(Faults()))
		}
		faults = append(faults, Fault(name))
	}
	return faults, nil
}

// A Round is one fault of a schedule.
type Round struct {
	Number int           `json:"number"` // from 1
	Fault  Fault         `json:"fault"`
	Serves bool          `json:"serves"` // the target is a bridge that serves, if there is a choice
	Target int           `json:"target"` // index among the qualified nodes, modulo their number
	Abrupt bool          `json:"abrupt"` // a partition resets connections instead of leaving them hanging
	Lead   time.Duration `json:"lead"`   // load before the fault, at least
	Hold   time.Duration `json:"hold"`   // duration of the fault
}

// Schedule returns rounds with each fault once in every lap, in an order and with
// parameters that the seed decides. Pauses and partitions last at most longest, other
// faults less. A smaller longest also shortens the load before the faults, for a short
// drill.
func Schedule(seed uint64, faults []Fault, laps int, longest time.Duration) []Round {
	random := rand.New(rand.NewPCG(seed, 0x6d616e79))
	lead := min(longest/5, 3*time.Second)
	var rounds []Round
	for range laps {
		lap := slices.Clone(faults)
		random.Shuffle(len(lap), func(i, j int) { lap[i], lap[j] = lap[j], lap[i] })
		for _, fault := range lap {
			rounds = append(rounds, Round{
				Number: len(rounds) + 1,
				Fault:  fault,
				Serves: random.IntN(4) > 0,
				Target: random.IntN(1 << 16),
				Abrupt: random.IntN(2) == 0,
				Lead:   between(random, lead/3, lead),
				Hold:   hold(random, fault, longest),
			})
		}
	}
	return rounds
}

// hold is the time that a fault lasts: a bridge that stands still does so from just
// over the verdict to long after it.
func hold(random *rand.Rand, fault Fault, longest time.Duration) time.Duration {
	const verdict = 5 * time.Second
	switch fault {
	case Pause, Partition:
		return between(random, min(verdict, longest), longest)
	case Move:
		return 0
	}
	return between(random, 500*time.Millisecond, min(verdict, longest))
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(random.Int64N(int64(most-least)))
}
