package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// GuardOptions configure [Guard].
type GuardOptions struct {
	// Before and After are the commands that run the two bridges, without flags,
	// as [InvokeOptions].Bridge.
	Before, After []string

	Callers []int   // of skill.invoke, default 50 and 1
	Windows []int   // default 1 and 16
	Bare    bool    // measure request and reply that no command is part of, too
	Web     bool    // measure calls of 50 callers over HTTP/1.1 and MCP, too
	Model   *Peer   // of [KindModel]: measure questions of 50 callers to it, too
	Pairs   int     // of runs for a first look, default 6
	Most    int     // greatest number of runs if the first ones are not clear, default three times as many
	Limit   float64 // ratio of processor times above which After is slower, default 1.10

	Duration time.Duration // of each run, default 1 s
	Messages int64         // see [Options]
	Patience time.Duration // see [Options]
	Progress func(line string)
}

func (o *GuardOptions) setDefaults() error {
	if len(o.Before) == 0 || len(o.After) == 0 {
		return errors.New("bench: two commands are compared, each of which runs a bridge")
	}
	o.Pairs = cmp.Or(o.Pairs, 6)
	o.Most = max(cmp.Or(o.Most, 3*o.Pairs), o.Pairs)
	o.Limit = cmp.Or(o.Limit, 1.10)
	o.Duration = cmp.Or(o.Duration, time.Second)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Pairs < leastPairs || !(o.Limit > 1) {
		return fmt.Errorf("bench: at least %d pairs and a limit above 1 are needed to tell anything", leastPairs)
	}
	return nil
}

// leastPairs are as few pairs as have quartiles.
const leastPairs = 4

// measures are the things compared: loads, and which of the two peers of a bridge
// takes them.
func (o *GuardOptions) measures() ([]Scenario, error) {
	invoke := InvokeOptions{Bridge: o.Before, Callers: o.Callers, Windows: o.Windows}
	if err := invoke.setDefaults(); err != nil {
		return nil, err
	}
	scenarios := invoke.options().Scenarios
	if o.Bare {
		bare, err := Pick("request-reply-16")
		if err != nil {
			return nil, err
		}
		scenarios = append(scenarios, bare...)
	}
	if o.Web {
		web := InvokeOptions{Bridge: o.Before, Callers: []int{50}, Web: true}
		if err := web.setDefaults(); err != nil {
			return nil, err
		}
		scenarios = append(scenarios, slices.DeleteFunc(web.options().Scenarios, func(s Scenario) bool { return s.Over == OverHTTP2 })...)
	}
	if o.Model != nil {
		scenarios = append(scenarios, queries(50, invoke.Payload)[0])
	}
	return scenarios, nil
}

// A Comparison is the processor time of two bridges under one load, in pairs of
// consecutive runs, so that other load of the machine affects both.
type Comparison struct {
	Scenario      string    `json:"scenario"`
	Before, After []float64 `json:"-"` // processor seconds for a million, pair by pair
	Broken        string    `json:"error,omitempty"`

	// System calls that read or write for each message, pair by pair. Their number
	// hardly depends on other work of the machine.
	TransfersBefore, TransfersAfter []float64 `json:"-"`
}

// add takes a pair of runs.
func (c *Comparison) add(before, after Result) {
	for _, r := range []Result{before, after} {
		if !r.Clean() || r.ProcessorPerMillion == 0 {
			c.Broken = r.Peer + ": " + cmp.Or(r.faults(), "nothing was answered")
			return
		}
	}
	c.Before, c.After = append(c.Before, before.ProcessorPerMillion), append(c.After, after.ProcessorPerMillion)
	c.TransfersBefore, c.TransfersAfter = append(c.TransfersBefore, before.Transfers), append(c.TransfersAfter, after.Transfers)
}

// Quartiles returns the quartiles of the ratios After/Before: half of the pairs lie
// between low and high.
func (c *Comparison) Quartiles() (low, middle, high float64) { return quartiles(c.Before, c.After) }

func quartiles(before, after []float64) (low, middle, high float64) {
	ratios := make([]float64, 0, len(after))
	for i := range after {
		if before[i] > 0 {
			ratios = append(ratios, after[i]/before[i])
		}
	}
	return quantile(ratios, 0.25), quantile(ratios, 0.5), quantile(ratios, 0.75)
}

// quantile is the value below which a part of the values lies, NaN without any.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := part * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// A Judgement is the result of a comparison.
type Judgement string

// The judgements. Slower, Busier and Failed are failures; Unclear means that the
// machine was too busy with other work for this number of pairs.
const (
	Same    Judgement = "no slower"
	Slower  Judgement = "slower"
	Busier  Judgement = "more system calls"
	Unclear Judgement = "not clear"
	Failed  Judgement = "failed"
)

// Judge says whether After takes more than the limit: three quarters of the pairs
// must agree.
func (c *Comparison) Judge(limit float64) Judgement {
	low, _, high := c.Quartiles()
	fewest, _, _ := quartiles(c.TransfersBefore, c.TransfersAfter)
	switch {
	case c.Broken != "":
		return Failed
	case low > limit:
		return Slower
	case fewest > limit:
		return Busier
	case high <= limit:
		return Same
	default:
		return Unclear
	}
}

// WriteComparisons writes a table of comparisons.
func WriteComparisons(w io.Writer, all []Comparison, limit float64) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nProcessor seconds for a million, medians; the ratio with its quartiles; the limit is %.2f.\nCalls are those of the system that read or write, for each message.\n\n", machine(), limit)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "scenario\tbefore\tafter\tratio\tquartiles\tcalls before\tafter\tpairs\t\n")
	for _, c := range all {
		low, middle, high := c.Quartiles()
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.3f\t%.3f–%.3f\t%.2f\t%.2f\t%d\t%s\n", c.Scenario, quantile(c.Before, 0.5), quantile(c.After, 0.5),
			middle, low, high, quantile(c.TransfersBefore, 0.5), quantile(c.TransfersAfter, 0.5), len(c.After), strings.TrimSpace(string(c.Judge(limit))+" "+c.Broken))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}
