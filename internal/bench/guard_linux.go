package bench

import (
	"context"
	"fmt"
)

// Guard compares the processor time of two bridges: load by load, in pairs of runs, of
// which every other begins with the second bridge. If the first pairs are not clear,
// more follow. An error means that the comparison could not be made.
func Guard(ctx context.Context, o GuardOptions) ([]Comparison, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	scenarios, err := o.measures()
	if err != nil {
		return nil, err
	}
	comparisons := make([]Comparison, len(scenarios))
	for i, s := range scenarios {
		comparisons[i].Scenario = s.Name
		if err := o.compare(ctx, s, &comparisons[i]); err != nil {
			return comparisons[:i+1], err
		}
	}
	return comparisons, nil
}

// compare makes pairs of runs until their result is clear, or their number reaches the
// limit.
func (o *GuardOptions) compare(ctx context.Context, s Scenario, c *Comparison) error {
	run := Options{Duration: o.Duration, Messages: o.Messages, Patience: o.Patience, Scenarios: []Scenario{s}, Model: o.Model}
	run.Peers = []Peer{bridgePeer("before", o.Before), bridgePeer("after", o.After)}
	for i := range run.Peers {
		run.Peers[i].bridge = s.isInvoke() || s.Over == OverLLM
	}
	if err := run.setDefaults(); err != nil {
		return err
	}
	for pair := 0; pair < o.Most && (pair < o.Pairs || c.Judge(o.Limit) == Unclear); pair++ {
		var got [2]Result
		for i := range got {
			which := (i + pair) % 2
			var err error
			if got[which], err = runOnce(ctx, run.Peers[which], s, run); err != nil {
				return err
			}
		}
		if c.add(got[0], got[1]); c.Broken != "" {
			return nil
		}
		_, ratio, _ := c.Quartiles()
		o.Progress(fmt.Sprintf("%s: pair %d, %.2f and %.2f s/M, median ratio %.3f", s.Name, pair+1, got[0].ProcessorPerMillion, got[1].ProcessorPerMillion, ratio))
	}
	return nil
}
