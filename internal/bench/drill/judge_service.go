package drill

import (
	"slices"
	"strings"
	"time"
)

// service measures the waits of publishers for acknowledgements.
func (j *judge) service() {
	for n, r := range j.rounds {
		gaps := make(map[string]time.Duration)
		last := make(map[string]time.Duration)
		for i := r.begun; i < len(j.history) && j.roundOf[i] == n; i++ {
			e := j.history[i]
			switch e.Kind {
			case Acked:
				if i < r.fault || !followsService(e.Stream) {
					continue
				}
				before, ok := last[e.Stream]
				if !ok {
					before = j.history[r.fault].At
				}
				gaps[e.Stream], last[e.Stream] = max(gaps[e.Stream], e.At-before), e.At
			case GaveUp:
				r.tally.GaveUp++
			case Settled:
				r.tally.Recovery = e.At - j.history[min(r.healed, i)].At
			case Unsettled:
				j.breach(ServiceBack, i, "%s", e.Code)
			}
		}
		var all []time.Duration
		for _, gap := range gaps {
			all = append(all, gap)
		}
		if slices.Sort(all); len(all) > 0 {
			r.tally.Silence, r.tally.SilenceTypical = all[len(all)-1], all[len(all)/2]
		}
	}
}

// followsService reports whether the publisher of a stream goes where it is
// served: some stay on purpose, and some belong to one node.
func followsService(stream string) bool {
	return !strings.HasPrefix(stream, "stubborn-") && !strings.HasPrefix(stream, streamProbe)
}

// falseProbes is the number of failed probes in a row, of a node that reports readiness
// before and after each, that count as a breach. Fewer may be under way when the node
// detects a failure.
const falseProbes = 10

// readiness finds nodes that reported readiness without being ready.
func (j *judge) readiness() {
	failed := make(map[string]int) // in a row, by node
	why := make(map[string]string)
	for i, e := range j.history {
		if e.Kind != Probed {
			continue
		}
		if e.Code == "" || e.Code == probeUnready {
			failed[e.Node] = 0
			continue
		}
		if why[e.Node] = e.Code; failed[e.Node]+1 == falseProbes {
			j.at(i).tally.FalseReadiness++
			j.breach(TrueReadiness, i, "%s said that it is ready while %d probes in a row failed: %s", e.Node, falseProbes, why[e.Node])
		}
		failed[e.Node]++
	}
}

// probeUnready is the code of a probe of a node that reports to be not ready.
const probeUnready = "unready"
