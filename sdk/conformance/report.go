package conformance

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// The outcomes of a clause.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // it does not concern the device
)

// A Result is what became of one clause.
type Result struct {
	Name    string        `json:"name"`           // call/echo
	Says    string        `json:"says"`           // what the protocol asks for
	Where   string        `json:"where"`          // the section that asks for it
	Outcome string        `json:"outcome"`        // Passed, Failed or Skipped
	Reason  string        `json:"reason"`         // what went wrong, or why it was skipped; "" when passed
	Took    time.Duration `json:"took,omitempty"` // nanoseconds
}

// A Report is what became of all clauses.
type Report struct {
	Results []Result `json:"results"`
}

func newResult(c clause, err error, took time.Duration) Result {
	r := Result{Name: c.name, Says: c.says, Where: c.where, Outcome: Passed, Took: took}
	var skipped *errSkip
	switch {
	case errors.As(err, &skipped):
		r.Outcome, r.Reason = Skipped, skipped.why
	case err != nil:
		r.Outcome, r.Reason = Failed, err.Error()
	}
	return r
}

// Count is the number of clauses that have an outcome.
func (r *Report) Count(outcome string) int {
	n := 0
	for _, result := range r.Results {
		if result.Outcome == outcome {
			n++
		}
	}
	return n
}

// String is a result as one line, and for a failure what the protocol says and
// what the device did.
func (r Result) String() string {
	switch r.Outcome {
	case Failed:
		return fmt.Sprintf("FAIL  %s\n      the protocol: %s (%s)\n      the device: %s", r.Name, r.Says, r.Where, r.Reason)
	case Skipped:
		return fmt.Sprintf("skip  %s: %s", r.Name, r.Reason)
	}
	return "ok    " + r.Name
}

// WriteSummary writes the counts in one line.
func (r *Report) WriteSummary(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.Count(Passed), r.Count(Failed), r.Count(Skipped))
	return err
}
