package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Run runs a drill. If ctx ends early, the report holds the results so far.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.setDefaults(); err != nil {
		return Report{}, err
	}
	began := time.Now()
	record := newRecorder()
	cluster, err := newCluster(ctx, &o, record)
	defer cluster.close()
	if err != nil {
		return Report{}, err
	}
	crew, err := newCrew(cluster, record)
	if err != nil {
		return Report{}, err
	}
	defer crew.close()
	d := &drill{Options: &o, cluster: cluster, crew: crew, record: record}
	err = d.rounds(ctx, began)
	judgement := Judge(record.history(), crew.listeners)
	if keepErr := keep(record.history(), o.Dir); err == nil {
		err = keepErr
	}
	return Report{
		Mode: o.Mode, Formed: o.Formed, Upgraded: len(o.Earlier) > 0, Seed: o.Seed, Bridges: o.Bridges, Servers: o.Servers, Took: time.Since(began).Round(time.Second),
		Rounds: judgement.Rounds, Breaches: judgement.Breaches, Allowed: o.Allow,
	}, err
}

// keep writes the history to the folder of the drill.
func keep(h History, dir string) error {
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	return errors.Join(h.WriteJSONL(f), f.Close())
}

// A drill goes through the rounds.
type drill struct {
	*Options
	cluster *cluster
	crew    *crew
	record  *recorder
}

func (d *drill) rounds(ctx context.Context, began time.Time) error {
	if err := d.cluster.until(ctx, "all clients are connected", d.crew.present); err != nil {
		return err
	}
	number := 0
	for lap := uint64(0); ; lap++ {
		laps := d.Laps
		if d.Duration > 0 {
			laps = 1
		}
		for _, r := range Schedule(d.Seed+lap, d.Faults, laps, d.Longest) {
			number++
			r.Number = number
			if err := d.round(ctx, r); err != nil {
				return fmt.Errorf("round %d, %s: %w", r.Number, r.Fault, err)
			}
		}
		if d.Duration == 0 || time.Since(began) > d.Duration {
			return nil
		}
	}
}

// round injects one fault and waits until all promises are kept. After an error no
// further round makes sense.
func (d *drill) round(ctx context.Context, r Round) error {
	d.record.add(Event{Kind: RoundBegun, Number: r.Number, Fault: r.Fault})
	began := time.Now()
	d.crew.prepare()
	d.crew.load.on.Store(true)
	node, err := d.fault(ctx, r)
	d.crew.gather()
	if err == nil {
		err = d.tail(ctx)
	}
	d.crew.load.on.Store(false)
	d.record.add(Event{Kind: LoadEnded})
	if settled := d.settle(ctx, r); err == nil {
		err = settled
	}
	if err == nil {
		d.record.add(Event{Kind: Settled})
	} else {
		d.record.add(Event{Kind: Unsettled, Code: err.Error()})
	}
	d.tell(r, node, time.Since(began))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// A disorder that is left would be blamed on the next fault.
	return d.cluster.until(ctx, "all runs again", d.cluster.whole)
}

// fault has clients work, injects the fault of the round, and waits until the cluster
// is healthy again.
func (d *drill) fault(ctx context.Context, r Round) (node string, err error) {
	pause(ctx, r.Lead)
	if err := d.crew.served(ctx); err != nil {
		return "", err
	}
	err = d.cluster.inflict(ctx, r, func(broken string) {
		node = broken
		d.record.add(Event{Kind: FaultBegun, Fault: r.Fault, Node: broken})
	})
	d.record.add(Event{Kind: FaultEnded, Fault: r.Fault})
	if err == nil {
		err = d.cluster.until(ctx, "all runs again", d.cluster.whole)
	}
	if err == nil && r.Fault == Move {
		d.crew.move(ctx)
	}
	return node, err
}

// tail has clients continue after the recovery, while due Wills are published and the
// absent listener catches up.
func (d *drill) tail(ctx context.Context) error {
	pause(ctx, time.Second)
	return d.crew.served(ctx)
}

// settle waits until all promises are kept, and checks the stored state.
func (d *drill) settle(ctx context.Context, r Round) error {
	last, deadline := -1, time.Now()
	for {
		owed := d.owed(r.Number)
		if len(owed) == 0 {
			break
		}
		if len(owed) != last {
			last, deadline = len(owed), time.Now().Add(d.Patience)
		}
		if time.Now().After(deadline) {
			d.crew.look(ctx)
			return fmt.Errorf("never came, %d of it: %s", len(owed), owed[0])
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	d.crew.look(ctx)
	return nil
}

// mayStillCome are the promises that may still be kept later.
var mayStillCome = []Promise{Acknowledged, SharedOnce, Frozen, AlwaysAnswer, WorkEnds, WillsOnce, WillsOfClean}

// owed lists the promises of a round that are not kept yet and may be later.
func (d *drill) owed(number int) (list []string) {
	list = d.crew.pending()
	for _, b := range Judge(d.record.history().since(number), d.crew.listeners).Breaches {
		if b.Round == number && !slices.Contains(d.Allow, b.Promise) && slices.Contains(mayStillCome, b.Promise) {
			list = append(list, b.Text)
		}
	}
	return list
}

// tell reports the outcome of a round.
func (d *drill) tell(r Round, node string, took time.Duration) {
	broken := 0
	for _, b := range Judge(d.record.history(), d.crew.listeners).Breaches {
		if b.Round == r.Number {
			broken++
			if broken <= 5 {
				d.Progress("  " + b.String())
			}
		}
	}
	d.Progress(fmt.Sprintf("round %d: %s %s: %d breaches, %v", r.Number, r.Fault, node, broken, took.Round(100*time.Millisecond)))
}
