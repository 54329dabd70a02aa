package run

import "github.com/aibridge/aibridge/llm/loop"

// limitsOf returns the limits of a model between two inputs of the user.
func limitsOf(turns int) loop.Limits {
	return loop.Limits{
		Rounds:  turns,
		Calls:   -1,  // the rounds bound them
		AtOnce:  64,  // the others are refused
		Repeats: 3,   // failures of identical calls before the user is asked
		Offered: 128, // the greatest number that providers accept
	}.WithDefaults()
}
