package loop

import (
	"cmp"
	"fmt"
	"time"
)

// Limits bound what a model may do until it has answered, in one loop. Zero
// fields mean the defaults, negative ones no limit.
type Limits struct {
	Rounds int           // of tools, after which the model has to answer; 10
	Calls  int           // of tools in all rounds; 50
	AtOnce int           // calls of one round; none by default
	Tokens int           // of all questions and answers; none by default
	Time   time.Duration // for all of it; 5 minutes

	Repeats  int // identical calls that fail until the model is warned, in a run the user asked; 3
	Failures int // in a row until the user is to be asked; 5

	// Of the last Window calls (10), Errors in a hundred (80) may not fail:
	// then the conversation is locked until it is reset.
	Window int
	Errors int

	Offered int // tools that a model is offered, chosen by relevance if there are more; 64
	Depth   int // loops within loops, as far as that is known; 16
	Running int // loops of one principal at once; 64
}

// unbounded is more than anything counts to.
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

// Admit returns how many of the calls of a round run, after so many of the rounds
// before, and the limit that the others are beyond, "" if all run.
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
