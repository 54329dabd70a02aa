// Package loop has a model answer with tools: it asks the model, runs the tools that
// the model calls, adds their results to the conversation, and asks again, until an
// answer calls none or a limit is reached.
//
// [Drive] is the one loop of the bridge, and [Hooks] are its variable part: those of a
// [Runner] answer llm.query and llm.chat, those of package run write the diary of
// llm.run.*.
//
// Every call gets exactly one tool message, in the order of the calls and right behind
// the answer that made them, whatever happens: a call that was not run has the result
// Skipped. Messages of the loop itself to the model come behind them. So a conversation
// is whole after every step and can be continued.
package loop
