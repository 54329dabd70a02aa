package loop

import (
	"cmp"
	"fmt"
	"time"
)

// Limits are the limits of one loop. Zero fields mean the defaults, negative ones no
// limit.
type Limits struct {
	Rounds int           // rounds of tools, after which the model must answer; 10
	Calls  int           // calls of tools in all rounds; 50
	AtOnce int           // calls of one round; none by default
	Tokens int           // tokens of all questions and answers; none by default
	Time   time.Duration // of the whole loop; 5 minutes

	Repeats  int // failures of identical calls before the model is warned, in a run before the user is asked; 3
	Failures int // failures in a row before the user is asked; 5

	// Errors is the percentage (80) of failures among the last Window calls (10) that
	// locks the conversation until it is reset.
	Window int
	Errors int

	Offered int // tools that a model is offered, chosen by relevance from more; 64
	Depth   int // nested loops, see Runner.begin; 16
	Running int // concurrent loops of one principal; 64
}

// unbounded is the value of no limit.
const unbounded = 1 << 30

// WithDefaults fills in the defaults.
func (l Limits) WithDefaults() Limits {
	set := func(field *int, value int) {
		if *field = cmp.Or(*field, value); *field < 0 {
			*field = unbounded
		}
	}
	set(&l.Rounds, 10)
	set(&l.Calls, 50)
	set(&l.AtOnce, -1)
	set(&l.Tokens, -1)
	set(&l.Repeats, 3)
	set(&l.Failures, 5)
	set(&l.Window, 10)
	set(&l.Errors, 80)
	set(&l.Offered, 64)
	set(&l.Depth, 16)
	set(&l.Running, 64)
	l.Time = cmp.Or(l.Time, 5*time.Minute)
	return l
}

// Admit returns the number of calls of a round that may run, after made calls in
// earlier rounds, and the limit that excludes the others, "" if all may run.
func (l Limits) Admit(made, calls int) (run int, beyond string) {
	if left := max(l.Calls-made, 0); left < calls {
		run, beyond = left, fmt.Sprintf("the limit of %d calls is reached", l.Calls)
	} else {
		run = calls
	}
	if l.AtOnce < run {
		run, beyond = l.AtOnce, fmt.Sprintf("only %d calls of one answer are executed", l.AtOnce)
	}
	return run, beyond
}
