// Package run executes workflows: a model walks a graph of steps with files as its
// memory, and the bridge enforces the rules. A run survives crashes, because its
// position is in @state/workflow.md and nowhere else.
//
// The [engine] is the loop of one run: compose, ask, execute, backfill. The [Service]
// manages the runs and has the commands llm.run.*.
package run
