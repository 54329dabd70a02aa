package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Verification says whether the trails of all bridges that share a state are whole.
type Verification struct {
	// Report is of the bridge that verifies; OK and Problems are of all.
	Report
	Chains []ChainReport `json:"chains,omitempty" doc:"one by one, in a cluster"`
	Silent []string      `json:"silent,omitempty" doc:"bridges of the cluster that did not say where their chain ends: what is cut off there may not show"`
}

// A ChainReport says whether the trail of one bridge is whole, and how it ends.
type ChainReport struct {
	Bridge   string     `json:"bridge_id" doc:"owner"`
	State    ChainState `json:"state" enum:"live,stopped,closed,open,missing" doc:"live: its bridge is there; stopped: by its bridge; closed: the bridge ended without a word, and closed_by has noted where; open: nobody has; missing: there is no trail where there was one"`
	ClosedBy string     `json:"closed_by,omitempty" doc:"bridge that has noted where the chain ends"`
	ClosedAt time.Time  `json:"closed_at,omitzero" doc:"time"`
	Report
}

// A ChainState is the state of a chain at its end.
type ChainState string

// The states of chains.
const (
	ChainLive    ChainState = "live"
	ChainStopped ChainState = "stopped"
	ChainClosed  ChainState = "closed"
	ChainOpen    ChainState = "open"
	ChainMissing ChainState = "missing"
)

// A chainCheck is the verification of one chain among others.
type chainCheck struct {
	Chain
	heads    []Head
	options  *Options // of the own trail
	read     *verifier
	closings []Closing // by others
}

// VerifyChains verifies chains together: the statements of one about another have
// to hold there. The heads are ends that were noted elsewhere, by bridge. The
// options are those of the own trail among them.
func VerifyChains(ctx context.Context, chains []Chain, own *Options, heads map[string][]Head) (Verification, error) {
	checks := make(map[string]*chainCheck)
	for _, c := range chains {
		checks[c.Bridge] = &chainCheck{Chain: c, heads: heads[c.Bridge]}
		if c.Bridge == own.BridgeID {
			checks[c.Bridge].options = own
		}
	}
	for bridge, noted := range heads {
		if checks[bridge] == nil {
			checks[bridge] = &chainCheck{Chain: Chain{Bridge: bridge}, heads: noted}
		}
	}
	order := slices.Sorted(maps.Keys(checks))
	for _, bridge := range order {
		c := checks[bridge]
		if err := c.look(ctx); err != nil {
			return Verification{}, err
		}
		for _, closing := range c.vouches() {
			if of := checks[closing.Bridge]; of != nil {
				of.closings = append(of.closings, closing)
			}
		}
	}
	var all Verification
	for _, bridge := range order {
		c := checks[bridge]
		if err := c.compare(ctx); err != nil {
			return Verification{}, err
		}
		all.add(c)
	}
	return all, nil
}

// add takes up the report of a chain.
func (a *Verification) add(c *chainCheck) {
	report := c.report()
	a.Chains = append(a.Chains, report)
	problems := append([]Problem{}, a.Problems...)
	for _, p := range report.Problems {
		p.Bridge = c.Bridge
		problems = append(problems, p)
	}
	if c.options != nil {
		a.Report = report.Report
	}
	a.Problems = problems[:min(len(problems), maxProblems)]
	a.OK = len(a.Problems) == 0
}

// look reads the chain.
func (c *chainCheck) look(ctx context.Context) (err error) {
	switch {
	case c.options != nil:
		c.read, err = c.options.read(ctx, c.heads...)
	case c.Log != nil && c.Key != nil:
		c.read, err = readBorn(ctx, c.Log, c.Key, c.Birth, c.heads...)
	case c.Log != nil:
		c.read, err = read(ctx, c.Log, new(Key)) // a key without a chain
	}
	return err
}

// vouches are the words of the chain about the ends of others.
func (c *chainCheck) vouches() (closings []Closing) {
	if c.read == nil {
		return nil
	}
	for _, closing := range c.read.closings {
		closing.By = c.Bridge
		closings = append(closings, closing)
	}
	return closings
}

// compare checks the chain against the statements of others about its end. A head
// from which the bridge went on later is known; for others it is read once more.
func (c *chainCheck) compare(ctx context.Context) error {
	if c.read == nil || c.Key == nil {
		return nil
	}
	c.closings = slices.DeleteFunc(c.closings, func(closing Closing) bool { return closing.Chain != c.read.report.Chain })
	var unknown []Head
	for _, closing := range c.closings {
		hash, known := c.read.starts[closing.Head.Seq]
		if !c.ends(closing) && (!known || hash != closing.Head.Hash) {
			unknown = append(unknown, closing.Head)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	c.heads = append(c.heads, unknown...)
	return c.look(ctx)
}

// ends reports whether the chain ends where another bridge has noted.
func (c *chainCheck) ends(closing Closing) bool { return c.read.head == closing.Head }

// report is the verdict on the chain.
func (c *chainCheck) report() ChainReport {
	r := ChainReport{Bridge: c.Bridge, State: ChainMissing}
	if c.read == nil {
		r.Problems = []Problem{{Kind: problemMissing, From: 1, To: c.noted(), Text: fmt.Sprintf("the chain of bridge %s is not there", c.Bridge)}}
		return r
	}
	r.Report = c.read.report
	latest := slices.MaxFunc(append([]Closing{{}}, c.closings...), func(a, b Closing) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	switch {
	case c.Live:
		r.State = ChainLive
	case c.read.stopped:
		r.State = ChainStopped
	case latest.By != "" && c.ends(latest):
		r.State, r.ClosedBy, r.ClosedAt = ChainClosed, latest.By, latest.At
	default:
		r.State = ChainOpen
	}
	return r
}

// noted is the sequence of the last entry that is known to have been there, at least
// 1.
func (c *chainCheck) noted() uint64 {
	last := uint64(1)
	if c.Key != nil {
		if _, head, err := c.Birth.heads(c.Key); err == nil {
			last = max(last, head.Seq)
		}
	}
	for _, h := range c.heads {
		last = max(last, h.Seq)
	}
	for _, closing := range c.closings {
		last = max(last, closing.Head.Seq)
	}
	return last
}
