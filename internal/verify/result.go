package verify

import (
	"errors"
	"fmt"
)

// A State is the outcome for one promise.
type State string

// The states.
const (
	Kept          State = "kept"
	Broken        State = "broken"
	NotApplicable State = "not applicable" // it was not tried, so it is not known to be kept
)

// A Result is the finding about one promise.
type Result struct {
	Promise string `json:"promise"`
	State   State  `json:"state"`
	What    string `json:"what"`              // the observation, or the reason why it was not tried
	Control string `json:"control,omitempty"` // the call that was shown to work first
}

// A notApplicable is the reason why a promise is not tried.
type notApplicable struct{ reason string }

func (n notApplicable) Error() string { return n.reason }

func cannot(format string, args ...any) error { return notApplicable{fmt.Sprintf(format, args...)} }

// A broken is the error of a broken promise.
type broken struct{ how string }

func (b broken) Error() string { return b.how }

func breaks(format string, args ...any) error { return broken{fmt.Sprintf(format, args...)} }

// resultOf is the result of a check. Any other error means that the check could not
// be finished: the bridge fails in something that the check needs.
func resultOf(p promise, err error) Result {
	r := Result{Promise: p.name, State: Kept, What: p.kept, Control: p.control}
	var n notApplicable
	var b broken
	switch {
	case errors.As(err, &n):
		r.State, r.What, r.Control = NotApplicable, n.reason, ""
	case errors.As(err, &b):
		r.State, r.What = Broken, b.how
	case err != nil:
		r.State, r.What, r.Control = Broken, "the control failed: "+err.Error(), ""
	}
	return r
}
