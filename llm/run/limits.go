package run

import "github.com/aibridge/aibridge/llm/loop"

// limitsOf returns what a model may do until the user says something, in the
// terms of the loop.
func limitsOf(turns int) loop.Limits {
	return loop.Limits{
		Rounds:  turns,
		Calls:   -1,  // the rounds bound them
		AtOnce:  64,  // the others are refused
		Repeats: 3,   // of the same call that fails, until the user is asked
		Offered: 128, // tools; providers take no more
	}.WithDefaults()
}
