package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// MQTT measures brokers: in every round, for every scenario, each broker in turn as a
// fresh process, alone on the machine as far as this program is concerned. An error
// means that the comparison could not be made; faults of single runs are in their
// results. With an error, or after the end of ctx, the report holds the results so far.
func MQTT(ctx context.Context, o Options) (Report, error) {
	report := Report{Machine: machine()}
	if err := o.setDefaults(); err != nil {
		return report, err
	}
	for round := range o.Rounds {
		for _, s := range o.Scenarios {
			for _, p := range o.Peers {
				if s.Shape == AskInside && !p.Answers || !p.serves(s.Over) {
					continue
				}
				result, err := runQuietly(ctx, p, s, o)
				if err != nil {
					return report, err
				}
				result.Round = round + 1
				report.Results = append(report.Results, result)
				o.Progress(progressLine(result, o.Rounds))
			}
		}
	}
	return report, nil
}

// runQuietly makes a run, and repeats it at most twice if other load disturbed it.
func runQuietly(ctx context.Context, p Peer, s Scenario, o Options) (result Result, err error) {
	for range 3 {
		if o.Quiet > 0 {
			awaitQuiet(ctx, o.Quiet)
		}
		result, err = runOnce(ctx, p, s, o)
		if err != nil || o.Quiet == 0 || result.OtherCores <= o.Quiet {
			break
		}
		o.Progress(fmt.Sprintf("disturbed: others kept %.2f processors busy", result.OtherCores))
	}
	return result, err
}

// awaitQuiet waits until this machine has little to do, a minute at most.
func awaitQuiet(ctx context.Context, limit float64) {
	const step = 250 * time.Millisecond
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		before := machineTime()
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return
		}
		if float64(machineTime()-before)/float64(step) <= limit {
			return
		}
	}
}

func runOnce(ctx context.Context, p Peer, s Scenario, o Options) (Result, error) {
	over := s.Over
	if over.isWeb() && p.bridge {
		over = OverTCP // by which it is enrolled with, and has its agent
	}
	if s.Over == OverLLM && p.bridge {
		model, err := startBroker(ctx, *o.Model, s.Over, false)
		if err != nil {
			return Result{}, err
		}
		defer model.stop()
		p = p.asking(model.address.String())
	}
	b, err := startBroker(ctx, p, over, s.Shape == AskInside)
	if err != nil {
		return Result{}, err
	}
	defer b.stop()
	at := target{address: b.address, version: p.version(), pid: b.pid, bridge: p.bridge}
	if s.Over.isWeb() {
		if at.web, err = p.webOf(ctx, b); err != nil {
			return Result{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		at.bridge, at.silent = p.bridge || s.Over != OverLLM, !p.bridge || s.Over == OverLLM
	}
	ready := time.Since(b.begun)
	if p.bridge && s.Over != OverLLM {
		if err := enroll(ctx, b.address.String(), max(s.Agents, 1)); err != nil {
			return Result{}, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	result, err := measure(ctx, s, at, o)
	result.Peer, result.Start = p.Name, ready
	select {
	case <-b.exited:
		result.Err = "the broker ended: " + b.output.String()
	default:
	}
	return result, err
}

func progressLine(r Result, rounds int) string {
	row := Row{Result: r}
	return fmt.Sprintf("round %d/%d  %-24s %-12s %8s/s  p50 %s  p99 %s  %s", r.Round, rounds, r.Scenario, r.Peer,
		count(r.Rate), short(r.P50), short(r.P99), row.remarks())
}

// webOf is the address at which a running peer serves HTTP.
func (p Peer) webOf(ctx context.Context, b *process) (address netip.AddrPort, err error) {
	if !p.bridge {
		return b.address, nil
	}
	err = b.await(ctx, func() (err error) { // it reports readiness when all of its doors are open
		address, err = webAddress(b.dir)
		return err
	})
	return address, err
}
