// Package run executes workflows: a model walks a graph of steps with files as
// its memory, and the bridge holds it to the rules. A run survives crashes,
// because where it stands is in @state/workflow.md and nowhere else.
//
// The [engine] is the loop of one run: compose, ask, execute, backfill. The
// [Service] keeps the runs and has the commands llm.run.*.
package run
